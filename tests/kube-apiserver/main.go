// Command kube-apiserver runs a real kube-apiserver on a real etcd, for tests.
//
// One binary, two processes: this process runs etcd and has the listening socket, and starts
// the same binary again as the API server. So the API server can be killed and restarted with
// the same port and the same data, as during an upgrade of a cluster. The process that ends last
// removes the directory that both share.
//
// README.md says what it prints and which commands it reads.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/component-base/version"
)

// Ready is the line that is printed when the server accepts requests, with its address.
type Ready struct {
	Server     string `json:"server"`
	CA         string `json:"ca"`
	Token      string `json:"token"`
	Powerless  string `json:"powerless_token"`
	Kubeconfig string `json:"kubeconfig"`
	Version    string `json:"version"`
	WatchCache bool   `json:"watch_cache"`
	Log        string `json:"log"`
}

// Done is the response to a command.
type Done struct {
	Command string `json:"command"`
	// Revision is the beginning of the history of etcd after "compact" and "expire".
	Revision int64  `json:"revision,omitempty"`
	Error    string `json:"error,omitempty"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == apiserverArg {
		serve(os.Args[2], os.Args[3:])
		return
	}
	watchCache := flag.Bool("watch-cache", true, "serve watches from kube-apiserver's cache; without it they come from etcd")
	controllers := flag.Bool("controllers", false, "run the garbage collector and the namespace controller")
	accounts := flag.Bool("service-accounts", false, "turn the admission plugin for service accounts on: a pod then needs its account, which no controller creates")
	showVersion := flag.Bool("version", false, "print the version of kube-apiserver and exit")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: %s [flags] [-- flags of kube-apiserver]\n", os.Args[0])
		flag.PrintDefaults()
	}
	flag.Parse()
	if *showVersion {
		fmt.Println(version.Get().GitVersion)
		return
	}
	if err := run(*watchCache, *accounts, *controllers, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "kube-apiserver:", err)
		os.Exit(1)
	}
}

// run serves until stdin is closed or a signal arrives, and then removes its files.
func run(watchCache, accounts, controllers bool, extra []string) error {
	dir, err := os.MkdirTemp("", "windlass-kube-apiserver-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	commands := make(chan string)
	go read(os.Stdin, commands)

	history, err := startEtcd(dir)
	if err != nil {
		return fmt.Errorf("cannot start etcd: %w", err)
	}
	defer history.stop()
	server, err := newAPIServer(dir, history.endpoint, watchCache, accounts, extra)
	if err != nil {
		return err
	}
	started := make(chan error, 1)
	go func() { started <- server.start() }()
	defer server.kill()
	if err := interruptible(started, commands, stop); err != nil {
		return err
	}
	if controllers {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if err := runControllers(ctx, server); err != nil {
			return fmt.Errorf("cannot start the controllers: %w", err)
		}
	}
	if err := say(server.ready()); err != nil {
		return nil
	}

	for {
		select {
		case <-stop:
			return nil
		case <-server.exit.done:
			return fmt.Errorf("the API server ended by itself: %w\n%s", server.exit.err, server.tail())
		case command, open := <-commands:
			if !open {
				return nil
			}
			// The reader of stdout has ended.
			if err := say(obey(command, history, server)); err != nil || command == "stop" {
				return nil
			}
		}
	}
}

var errStopped = errors.New("stopped before it was ready")

// interruptible waits for the start, unless it is cancelled.
func interruptible(started <-chan error, commands <-chan string, stop <-chan os.Signal) error {
	for {
		select {
		case err := <-started:
			return err
		case <-stop:
			return errStopped
		case command, open := <-commands:
			if !open {
				return errStopped
			}
			_ = say(Done{Command: command, Error: "not ready yet"})
		}
	}
}

func obey(command string, history *etcd, server *apiserver) Done {
	done := Done{Command: command}
	var err error
	switch command {
	case "compact":
		done.Revision, err = history.forget()
	case "restart":
		err = server.restart()
	case "stop":
		err = server.stop()
	case "expire":
		done.Revision, err = history.forget()
		if err == nil && server.watchCache {
			err = server.restart()
		}
	default:
		err = errors.New("unknown command: known are compact, restart, expire and stop")
	}
	if err != nil {
		done.Error = err.Error()
	}
	return done
}

func read(from io.Reader, commands chan<- string) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if line := lines.Text(); line != "" {
			commands <- line
		}
	}
	close(commands)
}

func say(line any) error {
	return json.NewEncoder(os.Stdout).Encode(line)
}

// within calls check until it succeeds or the time is over.
func within(limit time.Duration, exit *exit, check func() error) error {
	deadline := time.After(limit)
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-exit.done:
			return fmt.Errorf("it ended: %w", exit.err)
		case <-deadline:
			return fmt.Errorf("not ready after %s: %w", limit, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
