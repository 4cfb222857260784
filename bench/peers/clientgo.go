package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	corev1 "k8s.io/api/core/v1"
)

// clientGo is a shared informer, and whoever listens to it, once it is whole.
func (j job) clientGo(ctx context.Context, config *rest.Config, seen *seen) (following, error) {
	informer, err := j.informer(config)
	if err != nil {
		return following{}, err
	}
	listens := j.Task.Name != "Sync"
	if listens {
		note := func(object any) {
			if object, ok := object.(metav1.Object); ok {
				seen.object(object)
			}
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    note,
			UpdateFunc: func(_, object any) { note(object) },
		})
		if err != nil {
			return following{}, err
		}
	}
	go informer.RunWithContext(ctx)
	// What cache.WaitForCacheSync does, but ten times as often.
	for !informer.HasSynced() {
		time.Sleep(10 * time.Millisecond)
	}
	if listens {
		seen.all(10 * time.Minute)
	}
	version := informer.LastSyncResourceVersion()
	return following{
		kept: informer,
		relisted: func() {
			// The listener is told of every object again; should that ever change, the
			// new version is there all the same.
			for informer.LastSyncResourceVersion() == version {
				time.Sleep(time.Millisecond)
			}
			seen.all(5 * time.Second)
		},
	}, nil
}

func (j job) informer(config *rest.Config) (cache.SharedIndexInformer, error) {
	if j.Keeps == "Metadata" {
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		factory := metadatainformer.NewSharedInformerFactory(client, 0)
		resource := corev1.SchemeGroupVersion.WithResource("configmaps")
		if j.Kind == "Pod" {
			resource = corev1.SchemeGroupVersion.WithResource("pods")
		}
		return factory.ForResource(resource).Informer(), nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	if j.Kind == "Pod" {
		return factory.Core().V1().Pods().Informer(), nil
	}
	return factory.Core().V1().ConfigMaps().Informer(), nil
}
