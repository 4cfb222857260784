package main

import (
	"context"
	"net/http"
	"time"

	"github.com/windlass-rs/windlass/bench/peers/child"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// controllerRuntime starts a manager with one controller, and waits until its reconciler was called
// for every object. The reconciler gets its object from the cache, as most reconcilers do, and does
// nothing else.
func controllerRuntime(ctx context.Context, job child.Job, seen *child.Seen) (child.Following, error) {
	manager, err := ctrl.NewManager(config(job), ctrl.Options{
		Metrics:        server.Options{BindAddress: "0"},
		MapperProvider: mapper,
	})
	if err != nil {
		return child.Following{}, err
	}
	reader := manager.GetClient()
	reconciler := reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		object := objectOf(job)
		if err := reader.Get(ctx, request.NamespacedName, object); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		seen.Object(object)
		if seen.Hangs(request.Name) {
			<-ctx.Done()
		}
		return ctrl.Result{}, nil
	})
	var options []builder.ForOption
	if job.Keeps == "Metadata" {
		options = append(options, builder.OnlyMetadata)
	}
	err = ctrl.NewControllerManagedBy(manager).
		Named("noop").
		For(objectOf(job), options...).
		Complete(reconciler)
	if err != nil {
		return child.Following{}, err
	}
	go func() { _ = manager.Start(ctx) }()
	seen.All(10 * time.Minute)
	read, err := reads(ctx, job, reader)
	if err != nil {
		return child.Following{}, err
	}
	return child.Following{
		Kept:     manager,
		Relisted: func() { seen.All(10 * time.Minute) },
		Read:     read,
	}, nil
}

// reads returns a function that gets each object from the cache once, which copies it.
func reads(ctx context.Context, job child.Job, reader client.Reader) (func(), error) {
	if job.Task.Name != "Read" {
		return nil, nil
	}
	var keys []client.ObjectKey
	add := func(object client.Object) { keys = append(keys, client.ObjectKeyFromObject(object)) }
	if job.Kind == "Pod" {
		var pods corev1.PodList
		if err := reader.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		for index := range pods.Items {
			add(&pods.Items[index])
		}
	} else {
		var configs corev1.ConfigMapList
		if err := reader.List(ctx, &configs, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		for index := range configs.Items {
			add(&configs.Items[index])
		}
	}
	return func() {
		for _, key := range keys {
			_ = reader.Get(ctx, key, objectOf(job))
		}
	}, nil
}

func objectOf(job child.Job) client.Object {
	if job.Keeps == "Metadata" {
		object := new(metav1.PartialObjectMetadata)
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(typeName(job)))
		return object
	}
	if job.Kind == "Pod" {
		return new(corev1.Pod)
	}
	return new(corev1.ConfigMap)
}

func typeName(job child.Job) string {
	if job.Kind == "Pod" {
		return "Pod"
	}
	return "ConfigMap"
}

// mapper knows the kinds, so that the load server needs no discovery.
func mapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	for _, kind := range []string{"Pod", "ConfigMap"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	return mapper, nil
}
