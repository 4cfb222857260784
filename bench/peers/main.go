// Command peers runs client-go and controller-runtime as child processes of the benchmark.
package main

import (
	"io"

	"github.com/go-logr/logr"
	"github.com/windlass-rs/windlass/bench/peers/child"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	ctrllog.SetLogger(logr.Discard())
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	child.Main(map[string]child.Contender{
		"ClientGo":          {Follow: clientGo},
		"ControllerRuntime": {Follow: controllerRuntime, Queue: startQueue},
	})
}

func config(job child.Job) *rest.Config {
	// No rate limit, because a list has up to 200 pages.
	config := &rest.Config{Host: job.URL, QPS: -1}
	config.ContentType = "application/json"
	config.AcceptContentTypes = "application/json"
	return config
}
