// Command go-clients is what other people's Go programs are to a server: client-go and
// controller-runtime with their defaults, and the Kubernetes types with their serializers.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	seed := flag.Int64("seed", 1, "objects: what the random objects are made from")
	count := flag.Int("count", 1, "objects: how many of each kind")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: %s [flags] objects | clients KUBECONFIG | start\n", os.Args[0])
		flag.PrintDefaults()
	}
	flag.Parse()
	var err error
	switch flag.Arg(0) {
	case "clients":
		err = useClients(flag.Arg(1))
	case "start":
		runTest()
	case "objects":
		err = printObjects(*seed, *count)
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-clients:", err)
		os.Exit(1)
	}
}
