package main

import (
	"context"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
)

// workers is the number of objects that each controller handles at the same time. With more than
// one, it depends on chance whether a deletion in the foreground reaches a dependent that does not
// block it.
const workers = 1

// discoveryPeriod is the time after which the controllers notice a new kind: half a minute in a
// cluster, here as short as a test waits.
const discoveryPeriod = 500 * time.Millisecond

// runControllers starts the controllers of a cluster whose work the embedded server does within
// its requests: the garbage collector and the namespace controller. They run until ctx is done, and
// write to the log of the server.
//
// Source: k8s.io/kubernetes, cmd/kube-controller-manager/app, core.go.
func runControllers(ctx context.Context, server *apiserver) error {
	log, err := os.OpenFile(server.log(), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	klog.LogToStderr(false)
	klog.SetOutput(log)
	config := &rest.Config{
		Host:            server.url,
		BearerToken:     server.keys.admin,
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte(server.keys.ca)},
		// No limit: the requests of one test must not slow down another.
		QPS: -1,
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	shared := informers.NewSharedInformerFactory(client, 0)
	partial := metadatainformer.NewSharedInformerFactory(objects, 0)
	factory := informerfactory.NewInformerFactory(shared, partial)
	started := make(chan struct{})
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))

	collector, err := garbagecollector.NewGarbageCollector(
		ctx, client, objects, mapper, garbagecollector.DefaultIgnoredResources(), factory, started)
	if err != nil {
		return err
	}
	namespaces := namespace.NewNamespaceController(
		ctx, client, objects, client.Discovery().ServerPreferredNamespacedResources,
		shared.Core().V1().Namespaces(), 5*time.Minute, v1.FinalizerKubernetes)

	go collector.Run(ctx, workers, time.Minute)
	go collector.Sync(ctx, client.Discovery(), discoveryPeriod)
	go namespaces.Run(ctx, workers)
	factory.Start(ctx.Done())
	close(started)
	return nil
}
