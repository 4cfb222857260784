package main

import (
	"context"
	"strconv"

	"github.com/windlass-rs/windlass/bench/peers/child"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// offered is the queue of a controller without a cache: its objects are in an indexer, which is what a
// cache contains.
type offered struct {
	requests []reconcile.Request
	queue    workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// The number of concurrent calls and of namespaces, as in bench/src/queue.rs.
const (
	atOnce     = 64
	namespaces = 100
)

// startQueue starts a controller whose reconciler copies its object from the indexer, as Get of the
// default client does, and calls the handler.
func startQueue(ctx context.Context, count int, call child.Call) (child.Queue, error) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	offered := &offered{requests: make([]reconcile.Request, count)}
	for index := range offered.requests {
		object := object(index)
		offered.requests[index].NamespacedName = types.NamespacedName{
			Namespace: object.Namespace, Name: object.Name,
		}
		if err := indexer.Add(object); err != nil {
			return nil, err
		}
	}
	reconciler := reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
		stored, exists, err := indexer.GetByKey(request.String())
		if err != nil || !exists {
			return reconcile.Result{}, err
		}
		object := stored.(*corev1.ConfigMap).DeepCopy()
		index, err := strconv.Atoi(object.Name[len("config-"):])
		if err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: call(index)}, nil
	})
	options := controller.Options{Reconciler: reconciler, MaxConcurrentReconciles: atOnce}
	controller, err := controller.NewUnmanaged("queue", options)
	if err != nil {
		return nil, err
	}
	started := make(chan struct{})
	err = controller.Watch(source.Func(func(
		_ context.Context,
		queue workqueue.TypedRateLimitingInterface[reconcile.Request],
	) error {
		offered.queue = queue
		close(started)
		return nil
	}))
	if err != nil {
		return nil, err
	}
	go func() { _ = controller.Start(ctx) }()
	<-started
	return offered, nil
}

// OfferAll queues the key of each object.
func (o *offered) OfferAll() {
	for _, request := range o.requests {
		o.queue.Add(request)
	}
}

// object is as small as possible.
func object(index int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            "config-" + strconv.Itoa(index),
		Namespace:       "namespace-" + strconv.Itoa(index%namespaces),
		UID:             "00000000-0000-4000-8000-000000000000",
		ResourceVersion: "1",
	}}
}
