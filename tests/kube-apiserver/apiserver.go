package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/component-base/version"
)

// apiserver is the process of kube-apiserver, which tests can kill and restart.
type apiserver struct {
	dir, url   string
	watchCache bool
	args       []string
	socket     *os.File
	keys       *credentials
	client     *http.Client

	process *exec.Cmd
	// lifeline is the stdin of the child. It is closed whenever this process ends.
	lifeline io.Closer
	exit     *exit
}

// exit is the result of a process that has ended.
type exit struct {
	done chan struct{}
	err  error
}

func newAPIServer(dir, etcd string, watchCache, accounts bool, extra []string) (*apiserver, error) {
	keys, err := newCredentials(dir)
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	// The child serves on this socket. We keep it open, so that a client that calls during
	// a restart waits instead of being refused.
	socket, err := listener.File()
	if err != nil {
		return nil, err
	}
	url := "https://" + listener.Addr().String()
	if err := keys.writeKubeconfig(filepath.Join(dir, "kubeconfig"), url); err != nil {
		return nil, err
	}

	if !accounts {
		// Pods would wait for service accounts, which a controller makes that does not run here.
		extra = append([]string{"--disable-admission-plugins=ServiceAccount"}, extra...)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(keys.ca))
	return &apiserver{
		dir: dir, url: url, watchCache: watchCache, socket: socket, keys: keys,
		client: &http.Client{
			Timeout: 5 * time.Second,
			Transport: &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: roots},
				// Each request goes to the running server, not to one that was killed.
				DisableKeepAlives: true,
			},
		},
		args: append([]string{
			"--etcd-servers=" + etcd,
			fmt.Sprintf("--watch-cache=%t", watchCache),
			// History is compacted only when a test requests it.
			"--etcd-compaction-interval=0",
			"--tls-cert-file=" + keys.cert,
			"--tls-private-key-file=" + keys.key,
			"--cert-dir=" + dir,
			"--token-auth-file=" + keys.tokens,
			"--authorization-mode=RBAC",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + keys.serviceAccountKey,
			"--service-account-signing-key-file=" + keys.serviceAccountKey,
			"--service-cluster-ip-range=10.0.0.0/24",
			"--endpoint-reconciler-type=none",
			// The requests of one test must not slow down another.
			"--enable-priority-and-fairness=false",
			"--max-requests-inflight=0",
			"--max-mutating-requests-inflight=0",
		}, extra...),
	}, nil
}

// ready contains the data that a client needs.
func (a *apiserver) ready() Ready {
	return Ready{
		Server:     a.url,
		CA:         a.keys.ca,
		Token:      a.keys.admin,
		Powerless:  a.keys.powerless,
		Kubeconfig: filepath.Join(a.dir, "kubeconfig"),
		Version:    version.Get().GitVersion,
		WatchCache: a.watchCache,
		Log:        a.log(),
	}
}

func (a *apiserver) log() string { return filepath.Join(a.dir, "kube-apiserver.log") }

// start returns when the server accepts requests and the initial namespaces exist.
func (a *apiserver) start() error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(a.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	a.process = exec.Command(executable, append([]string{apiserverArg, a.dir}, a.args...)...)
	a.process.Stdout, a.process.Stderr = log, log
	a.process.ExtraFiles = []*os.File{a.socket}
	if a.lifeline, err = a.process.StdinPipe(); err != nil {
		return err
	}
	if err := a.process.Start(); err != nil {
		return err
	}
	a.exit = &exit{done: make(chan struct{})}
	go func(process *exec.Cmd, exit *exit) {
		if exit.err = process.Wait(); exit.err == nil {
			exit.err = errors.New("exit status 0")
		}
		close(exit.done)
	}(a.process, a.exit)

	for _, path := range []string{"/readyz", "/api/v1/namespaces/default"} {
		if err := within(time.Minute, a.exit, func() error { return a.get(path) }); err != nil {
			return fmt.Errorf("cannot start the API server: %w\n%s", err, a.tail())
		}
	}
	return nil
}

// kill ends the server immediately. Nothing has to be saved: its data is in etcd.
func (a *apiserver) kill() {
	if a.exit == nil {
		return
	}
	_ = a.process.Process.Kill()
	<-a.exit.done
	_ = a.lifeline.Close()
}

// stop ends the server as a cluster does, by a signal: it ends its watches first.
func (a *apiserver) stop() error {
	if err := a.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	<-a.exit.done
	return nil
}

// restart drops only the connections and caches of the server.
func (a *apiserver) restart() error {
	a.kill()
	return a.start()
}

func (a *apiserver) get(path string) error {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, a.url+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+a.keys.admin)
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return nil
}

// tail is the end of the log of the server, which shows why it did not start.
func (a *apiserver) tail() string {
	const enough = 4 << 10
	log, err := os.ReadFile(a.log())
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-enough):])
}
