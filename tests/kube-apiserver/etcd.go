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

// etcd is the history of every object, in this process and on no disk that matters.
type etcd struct {
	endpoint string
	server   *embed.Etcd
	client   *clientv3.Client
}

// startEtcd listens on sockets inside dir, so that no port is taken and no other process can
// reach it.
func startEtcd(dir string) (*etcd, error) {
	client := url.URL{Scheme: "unix", Path: filepath.Join(dir, "etcd.sock")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(dir, "peer.sock")}

	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, "etcd")
	config.LogLevel = "error"
	config.LogOutputs = []string{filepath.Join(dir, "etcd.log")}
	// Tests do not outlive a power failure.
	config.UnsafeNoFsync = true
	config.ListenClientUrls = []url.URL{client}
	config.ListenPeerUrls = []url.URL{peer}
	// etcd wants these to look like addresses; the only member calls no peer.
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

// stop ends it without ceremony, so that nothing is written any more.
func (e *etcd) stop() { e.server.Server.HardStop() }

// compactRevKey is where the API servers of a cluster tell each other how much history is
// gone; their caches read it and forget as much.
//
// Source: k8s.io/apiserver, pkg/storage/etcd3/compact.go.
const compactRevKey = "compact_rev_key"

// forget drops all history, so that every resourceVersion and every continue token given
// out so far is too old, also the newest. It returns the revision at which history begins.
func (e *etcd) forget() (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	// A watch from version R asks etcd for what follows, R+1, so history must begin at R+2
	// or later for R to be too old. Two writes of ours see to that.
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
