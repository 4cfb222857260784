// Command grafana runs grafana-app-sdk as a child process of the benchmark.
package main

import (
	"io"

	"github.com/windlass-rs/windlass/bench/peers/child"
	"k8s.io/klog/v2"
)

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	child.Main(map[string]child.Contender{
		"GrafanaAppSdk": {Follow: follow, Queue: startRetries},
	})
}
