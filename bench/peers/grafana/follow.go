package main

import (
	"context"
	"time"

	"github.com/grafana/grafana-app-sdk/k8s"
	"github.com/grafana/grafana-app-sdk/operator"
	"github.com/grafana/grafana-app-sdk/resource"
	"github.com/windlass-rs/windlass/bench/peers/child"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// follow starts a controller for tasks with handlers, or an informer for other tasks, and waits
// until it has all objects.
func follow(ctx context.Context, job child.Job, seen *child.Seen) (child.Following, error) {
	// No rate limit, because a list has up to 200 pages.
	config := rest.Config{Host: job.URL, QPS: -1}
	clients := k8s.NewClientRegistry(config, k8s.DefaultClientConfig())
	kind := kindOf(job)
	informer, err := informerOf(kind, clients)
	if err != nil {
		return child.Following{}, err
	}
	if job.Handles() {
		return control(ctx, job, kind, informer, clients, seen)
	}
	return store(ctx, job, informer, seen)
}

// informerOf creates the informer that simple.DefaultInformerSupplier, the default of the SDK's apps,
// wraps for several workers.
func informerOf(kind resource.Kind, clients *k8s.ClientRegistry) (*operator.KubernetesBasedInformer, error) {
	client, err := clients.ClientFor(kind)
	if err != nil {
		return nil, err
	}
	return operator.NewKubernetesBasedInformer(kind, client, operator.InformerOptions{})
}

// store starts an informer with a watcher, and waits until its store is filled.
func store(
	ctx context.Context,
	job child.Job,
	informer *operator.KubernetesBasedInformer,
	seen *child.Seen,
) (child.Following, error) {
	if job.Listens() {
		note := func(object resource.Object) error {
			seen.Object(object)
			return nil
		}
		err := informer.AddEventHandler(&operator.SimpleWatcher{
			AddFunc: func(_ context.Context, object resource.Object) error {
				return note(object)
			},
			UpdateFunc: func(_ context.Context, _, object resource.Object) error {
				return note(object)
			},
		})
		if err != nil {
			return child.Following{}, err
		}
	}
	go func() { _ = informer.Run(ctx) }()
	shared := informer.SharedIndexInformer
	synced(shared)
	if job.Listens() {
		seen.All(10 * time.Minute)
	}
	version := shared.LastSyncResourceVersion()
	return child.Following{
		Kept: informer,
		Relisted: func() {
			// The listener receives every object again. If client-go changes that, this still
			// checks the new version.
			for shared.LastSyncResourceVersion() == version {
				time.Sleep(time.Millisecond)
			}
			seen.All(5 * time.Second)
		},
	}, nil
}

// synced does the same as WaitForSync, without a busy loop.
func synced(informer cache.SharedIndexInformer) {
	for !informer.HasSynced() {
		time.Sleep(10 * time.Millisecond)
	}
}

// control starts a controller, and waits until its reconciler was called for every object.
func control(
	ctx context.Context,
	job child.Job,
	kind resource.Kind,
	informer *operator.KubernetesBasedInformer,
	clients *k8s.ClientRegistry,
	seen *child.Seen,
) (child.Following, error) {
	controller := operator.NewInformerController(operator.DefaultInformerControllerConfig())
	reconciler := &operator.SimpleReconciler{
		ReconcileFunc: func(ctx context.Context, request operator.ReconcileRequest) (operator.ReconcileResult, error) {
			seen.Object(request.Object)
			if seen.Hangs(request.Object.GetName()) {
				<-ctx.Done()
			}
			return operator.ReconcileResult{}, nil
		},
	}
	if err := add(controller, kind, informer, reconciler); err != nil {
		return child.Following{}, err
	}
	if job.Task.Name == "Isolation" {
		broken, err := informerOf(secrets, clients)
		if err != nil {
			return child.Following{}, err
		}
		if err := add(controller, secrets, broken, &operator.SimpleReconciler{}); err != nil {
			return child.Following{}, err
		}
	}
	go func() { _ = controller.Run(ctx) }()
	seen.All(10 * time.Minute)
	return child.Following{
		Kept:     controller,
		Relisted: func() { seen.All(10 * time.Minute) },
	}, nil
}

// add adds an informer and a reconciler as an app of the SDK does by default: ten workers process the
// events, by object.
func add(
	controller *operator.InformerController,
	kind resource.Kind,
	informer operator.Informer,
	reconciler operator.Reconciler,
) error {
	name := kind.GroupVersionKind().String()
	concurrent, err := operator.NewConcurrentInformerFromOptions(informer, operator.InformerOptions{})
	if err != nil {
		return err
	}
	if err := controller.AddInformer(concurrent, name); err != nil {
		return err
	}
	return controller.AddReconciler(reconciler, name)
}
