package main

import (
	"context"
	"time"

	"github.com/windlass-rs/windlass/bench/peers/child"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	corev1 "k8s.io/api/core/v1"
)

// clientGo starts a shared informer with a handler, and waits until its store is filled.
func clientGo(ctx context.Context, job child.Job, seen *child.Seen) (child.Following, error) {
	informer, err := informer(job)
	if err != nil {
		return child.Following{}, err
	}
	if job.Listens() {
		note := func(object any) {
			if object, ok := object.(metav1.Object); ok {
				seen.Object(object)
			}
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    note,
			UpdateFunc: func(_, object any) { note(object) },
		})
		if err != nil {
			return child.Following{}, err
		}
	}
	go informer.RunWithContext(ctx)
	// Like cache.WaitForCacheSync, but polls ten times as often.
	for !informer.HasSynced() {
		time.Sleep(10 * time.Millisecond)
	}
	if job.Listens() {
		seen.All(10 * time.Minute)
	}
	version := informer.LastSyncResourceVersion()
	return child.Following{
		Kept: informer,
		Relisted: func() {
			// The listener receives every object again. If client-go changes that, this still
			// checks the new version.
			for informer.LastSyncResourceVersion() == version {
				time.Sleep(time.Millisecond)
			}
			seen.All(5 * time.Second)
		},
	}, nil
}

func informer(job child.Job) (cache.SharedIndexInformer, error) {
	if job.Keeps == "Metadata" {
		client, err := metadata.NewForConfig(config(job))
		if err != nil {
			return nil, err
		}
		factory := metadatainformer.NewSharedInformerFactory(client, 0)
		resource := corev1.SchemeGroupVersion.WithResource("configmaps")
		if job.Kind == "Pod" {
			resource = corev1.SchemeGroupVersion.WithResource("pods")
		}
		return factory.ForResource(resource).Informer(), nil
	}
	client, err := kubernetes.NewForConfig(config(job))
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	if job.Kind == "Pod" {
		return factory.Core().V1().Pods().Informer(), nil
	}
	return factory.Core().V1().ConfigMaps().Informer(), nil
}
