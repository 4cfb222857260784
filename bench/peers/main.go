// Command peers is client-go and controller-runtime, each as a child of the benchmark.
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
		"ControllerRuntime": {Follow: controllerRuntime},
	})
}

func config(job child.Job) *rest.Config {
	// As many requests a second as can be: a list of 200 pages is not what a limit is for.
	config := &rest.Config{Host: job.URL, QPS: -1}
	config.ContentType = "application/json"
	config.AcceptContentTypes = "application/json"
	return config
}
