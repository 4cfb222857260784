package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	runtimeclient "sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// useController runs a manager with its defaults: its cache lists and watches, its client
// reads from the cache and writes to the server.
func useController(ctx context.Context, config *rest.Config, namespace string) error {
	ctrllog.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		return err
	}
	client := manager.GetClient()
	done := make(chan struct{}, 1)
	// Each config map gets a secret and a deployment of its name.
	reconcile := func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		var found corev1.ConfigMap
		if err := client.Get(ctx, request.NamespacedName, &found); err != nil {
			return ctrl.Result{}, runtimeclient.IgnoreNotFound(err)
		}
		if found.Labels["watched"] != "yes" {
			return ctrl.Result{}, nil
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: found.Name}}
		if _, err := ctrl.CreateOrUpdate(ctx, client, secret, func() error {
			secret.Data = map[string][]byte{"k": []byte(found.Data["k"])}
			return ctrl.SetControllerReference(&found, secret, scheme)
		}); err != nil {
			return ctrl.Result{}, err
		}
		if found.Annotations["done"] == "yes" {
			select {
			case done <- struct{}{}:
			default:
			}
			return ctrl.Result{}, nil
		}
		changed := found.DeepCopy()
		changed.Annotations = map[string]string{"done": "yes"}
		return ctrl.Result{}, client.Patch(ctx, changed, runtimeclient.MergeFrom(&found))
	}
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		WatchesMetadata(&appsv1.Deployment{}, nothing()).Complete(reconciler(reconcile)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	defer func() { cancel(); <-ended }()

	one := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "managed", Labels: map[string]string{"watched": "yes"}},
		Data:       map[string]string{"k": "v"},
	}
	if err := client.Create(ctx, one); err != nil {
		return err
	}
	select {
	case <-done:
	case err := <-ended:
		ended <- nil
		return fmt.Errorf("the manager ended: %w", err)
	case <-time.After(limit):
		return errors.New("the reconciler did not finish")
	}
	var secret corev1.Secret
	if err := manager.GetAPIReader().Get(ctx, runtimeclient.ObjectKeyFromObject(one), &secret); err != nil {
		return err
	}
	if string(secret.Data["k"]) != "v" || !metav1.IsControlledBy(&secret, one) {
		return fmt.Errorf("the secret is %v", secret)
	}
	return useCustom(ctx, config, scheme, client, namespace)
}

// useCustom writes and reads a custom resource, which is JSON, and its metadata, which is not.
func useCustom(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, client runtimeclient.Client, namespace string) error {
	group := "custom." + namespace + ".example.com"
	if err := client.Create(ctx, definition(group)); err != nil {
		return err
	}
	kind := schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Gadget"}
	gadget := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"a": "b"}}}
	gadget.SetGroupVersionKind(kind)
	gadget.SetNamespace(namespace)
	gadget.SetName("g")
	var direct runtimeclient.Client
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		var err error
		if direct, err = runtimeclient.New(config, runtimeclient.Options{Scheme: scheme}); err == nil {
			err = direct.Create(ctx, gadget)
		}
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("custom resource: %w", err)
		}
	}
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(kind)
	if err := direct.Get(ctx, runtimeclient.ObjectKeyFromObject(gadget), partial); err != nil {
		return fmt.Errorf("metadata of a custom resource: %w", err)
	}
	partials := &metav1.PartialObjectMetadataList{}
	partials.SetGroupVersionKind(kind.GroupVersion().WithKind("GadgetList"))
	if err := direct.List(ctx, partials, runtimeclient.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list of metadata: %w", err)
	}
	if len(partials.Items) != 1 || partials.Items[0].UID != partial.UID || partial.UID == "" {
		return fmt.Errorf("the metadata is %v", partials)
	}
	return direct.Delete(ctx, gadget)
}
