package main

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// etcd runs in this process, and stores its data in a temporary directory.
type etcd struct {
	endpoint string
	server   *embed.Etcd
	client   *clientv3.Client
}

// startEtcd listens on sockets inside dir, so that it uses no port and other processes cannot
// reach it.
func startEtcd(dir string) (*etcd, error) {
	client := url.URL{Scheme: "unix", Path: filepath.Join(dir, "etcd.sock")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(dir, "peer.sock")}

	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, "etcd")
	config.LogLevel = "error"
	config.LogOutputs = []string{filepath.Join(dir, "etcd.log")}
	// The data of tests does not have to survive a power failure.
	config.UnsafeNoFsync = true
	config.ListenClientUrls = []url.URL{client}
	config.ListenPeerUrls = []url.URL{peer}
	// etcd requires these to be URLs. The only member connects to no peer.
	nowhere := []url.URL{{Scheme: "http", Host: "localhost:0"}}
	config.AdvertiseClientUrls, config.AdvertisePeerUrls = nowhere, nowhere
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	// One member elects itself; there is no peer to wait for.
	config.TickMs, config.ElectionMs = 10, 100

	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return nil, err
	case <-time.After(time.Minute):
		return nil, errors.New("not ready after a minute")
	}
	return &etcd{endpoint: client.String(), server: server, client: v3client.New(server.Server)}, nil
}

// stop ends it immediately, so that nothing is written any more.
func (e *etcd) stop() { e.server.Server.HardStop() }

// compactRevKey is the key in which the API servers of a cluster store the compacted revision.
// Their caches read it and drop the history up to this revision.
//
// Source: k8s.io/apiserver, pkg/storage/etcd3/compact.go.
const compactRevKey = "compact_rev_key"

// forget compacts all history, so that every earlier resourceVersion and continue token has
// expired, also the newest. It returns the revision at which history begins.
func (e *etcd) forget() (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	// A watch from version R requests the events from R+1, so history must begin at R+2 or later
	// for R to be too old. Two writes ensure this.
	var revision int64
	for range 2 {
		put, err := e.client.Put(ctx, compactRevKey, strconv.FormatInt(revision, 10))
		if err != nil {
			return 0, err
		}
		revision = put.Header.Revision
	}
	_, err := e.client.Compact(ctx, revision, clientv3.WithCompactPhysical())
	return revision, err
}
