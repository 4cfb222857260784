package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclientset "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// limit is how long one step may wait for what must come at once.
const limit = 60 * time.Second

// client is one resource of a typed clientset, with its defaults.
type client[T any, L any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
}

// withoutCollections is a resource whose objects are deleted one by one.
type withoutCollections[T any, L any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
}

// object is what a clientset gives and takes.
type object interface {
	metav1.Object
	runtime.Object
}

// useClients does what clients do to the server of a kubeconfig, in a namespace of its own.
func useClients(kubeconfig string) error {
	ctx := context.Background()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	// What is answered is counted, so that no test passes because everything was JSON.
	counted := &counter{}
	config.Wrap(counted.wrap)
	namespace := fmt.Sprintf("go-%d", time.Now().UnixNano())
	if err := useClientset(ctx, config, namespace); err != nil {
		return fmt.Errorf("client-go: %w", err)
	}
	if err := useController(ctx, config, namespace); err != nil {
		return fmt.Errorf("controller-runtime: %w", err)
	}
	fmt.Printf("protobuf requests %d, protobuf responses %d, protobuf watches %d, JSON responses %d\n",
		counted.requests.Load(), counted.responses.Load(), counted.watches.Load(), counted.json.Load())
	if counted.requests.Load() == 0 || counted.responses.Load() == 0 || counted.watches.Load() == 0 {
		return errors.New("the defaults of the clients are not protobuf any more")
	}
	return nil
}

func useClientset(ctx context.Context, config *rest.Config, namespace string) error {
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	core := set.CoreV1()
	spaces := core.Namespaces()
	if err := use(ctx, spaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-x"}}, nil); err != nil {
		return err
	}
	if _, err := spaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	named := metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "a", "tier": "x"}, Annotations: map[string]string{"a": "<&>é"}}
	labels := map[string]string{"app": "a"}
	seconds, replicas := int32(15), int32(3)
	now := metav1.NowMicro()
	now.Time = now.Truncate(time.Microsecond)
	pod := corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64),
		Containers: []corev1.Container{{
			Name:  "c",
			Image: "example.com/c:1",
			Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
			Env:   []corev1.EnvVar{{Name: "A", Value: "1"}},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("http")},
			}},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: quantity("500m")}},
		}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: "a"}
	for _, step := range []func() error{
		func() error {
			return all(ctx, core.ConfigMaps(namespace), &corev1.ConfigMap{
				ObjectMeta: named,
				Data:       map[string]string{"k": "v", "empty": "", "unicode": "päth\u2028"},
				BinaryData: map[string][]byte{"b": {0, 1, 255}, "none": {}},
			}, func(it *corev1.ConfigMap) any { return []any{it.Data, it.BinaryData, it.Labels} })
		},
		func() error {
			return all(ctx, core.Secrets(namespace), &corev1.Secret{
				ObjectMeta: named, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"k": []byte("v\x00\xfe")},
			}, func(it *corev1.Secret) any { return []any{it.Data, it.Type} })
		},
		func() error {
			return all(ctx, core.Pods(namespace), &corev1.Pod{ObjectMeta: named, Spec: pod}, func(it *corev1.Pod) any {
				first := it.Spec.Containers[0]
				return []any{first.Image, first.Env, first.LivenessProbe.HTTPGet.Port, first.Resources.Limits, it.Spec.Volumes[0]}
			})
		},
		func() error {
			return all(ctx, set.AppsV1().Deployments(namespace), &appsv1.Deployment{
				ObjectMeta: named,
				Spec: appsv1.DeploymentSpec{
					Replicas: &replicas,
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
				},
			}, func(it *appsv1.Deployment) any { return []any{it.Spec.Replicas, it.Spec.Selector} })
		},
		func() error {
			return use(ctx, core.Services(namespace), &corev1.Service{
				ObjectMeta: named,
				Spec: corev1.ServiceSpec{
					Selector: labels,
					Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
				},
			}, func(it *corev1.Service) any { return []any{it.Spec.Selector, it.Spec.Ports[0].TargetPort} })
		},
		func() error {
			return all(ctx, set.CoordinationV1().Leases(namespace), &coordinationv1.Lease{
				ObjectMeta: named,
				Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &now},
			}, func(it *coordinationv1.Lease) any {
				return []any{it.Spec.LeaseDurationSeconds, it.Spec.RenewTime.UnixMicro()}
			})
		},
		func() error {
			return all(ctx, core.Events(namespace), &corev1.Event{
				ObjectMeta: named, InvolvedObject: about, Reason: "Said", Message: "hello", Type: "Normal",
				FirstTimestamp: metav1.Unix(1700000000, 0), Source: corev1.EventSource{Component: "test"},
			}, func(it *corev1.Event) any {
				return []any{it.InvolvedObject, it.Message, it.FirstTimestamp.Unix(), it.Source}
			})
		},
		func() error {
			return all(ctx, set.EventsV1().Events(namespace), &eventsv1.Event{
				ObjectMeta: named, Regarding: about, Reason: "Said", Note: "hello", Type: "Normal", Action: "Say",
				EventTime: now, ReportingController: "example.com/test", ReportingInstance: "test-1",
			}, func(it *eventsv1.Event) any {
				return []any{it.Regarding, it.Note, it.EventTime.UnixMicro(), it.ReportingController}
			})
		},
		func() error { return statuses(ctx, set, namespace) },
		func() error { return refusals(ctx, set, namespace) },
		func() error { return pages(ctx, set, namespace) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	extensions, err := apiextensionsclientset.NewForConfig(config)
	if err != nil {
		return err
	}
	group := namespace + ".example.com"
	return use(ctx, extensions.ApiextensionsV1().CustomResourceDefinitions(), definition(group),
		func(it *apiextensionsv1.CustomResourceDefinition) any {
			schema := it.Spec.Versions[0].Schema.OpenAPIV3Schema
			return []any{it.Spec.Names.Plural, string(schema.Properties["spec"].Default.Raw), schema.Properties["spec"].AdditionalProperties}
		})
}

// definition is a CRD with the parts of a schema that protobuf writes in their own way.
func definition(group string) *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	minimum := 1.5
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "gadgets", Singular: "gadget", Kind: "Gadget", ListKind: "GadgetList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {
							Type:                 "object",
							Default:              &apiextensionsv1.JSON{Raw: []byte(`{"a":"b"}`)},
							AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}},
						},
						"numbers": {
							Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "number", Minimum: &minimum}},
						},
						"any": {XPreserveUnknownFields: &preserve},
					},
				}},
			}},
		},
	}
}

// all does to one object what use does, and deletes a collection in the end.
func all[T object, L runtime.Object](ctx context.Context, resource client[T, L], fresh T, content func(T) any) error {
	if err := use[T, L](ctx, resource, fresh, content); err != nil {
		return err
	}
	kind := fmt.Sprintf("%T", fresh)
	if _, err := resource.Create(ctx, fresh.DeepCopyObject().(T), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("%s: create again: %w", kind, err)
	}
	zero := int64(0)
	if err := resource.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &zero}, metav1.ListOptions{LabelSelector: "app=a"}); err != nil {
		return fmt.Errorf("%s: delete collection: %w", kind, err)
	}
	return nil
}

// use creates, gets, lists, updates, patches, watches and deletes an object; content is what
// must stay as it was sent.
func use[T object, L runtime.Object](ctx context.Context, resource withoutCollections[T, L], fresh T, content func(T) any) (err error) {
	kind := fmt.Sprintf("%T", fresh)
	step := "create"
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %s: %w", kind, step, err)
		}
	}()
	name := fresh.GetName()
	created, err := resource.Create(ctx, fresh.DeepCopyObject().(T), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if made := created.GetCreationTimestamp(); created.GetUID() == "" || made.IsZero() || created.GetResourceVersion() == "" {
		return errors.New("the server did not fill in the metadata")
	}
	same := func(found T) error {
		if content != nil && !equality.Semantic.DeepEqual(content(found), content(fresh)) {
			return fmt.Errorf("sent %v, found %v", content(fresh), content(found))
		}
		return nil
	}
	if err := same(created); err != nil {
		return err
	}

	step = "get"
	found, err := resource.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if found.GetUID() != created.GetUID() {
		return errors.New("another object was found")
	}
	if err := same(found); err != nil {
		return err
	}

	step = "list"
	list, err := resource.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return err
	}
	meta, err := listMeta(list)
	if err != nil {
		return err
	}

	step = "watch"
	watched, err := resource.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + name, ResourceVersion: meta.GetResourceVersion(), AllowWatchBookmarks: true,
	})
	if err != nil {
		return err
	}
	defer watched.Stop()

	step = "update"
	var changed, updated T
	for deadline := time.Now().Add(limit); ; {
		changed = found.DeepCopyObject().(T)
		changed.SetAnnotations(map[string]string{"example.com/updated": "yes"})
		if updated, err = resource.Update(ctx, changed, metav1.UpdateOptions{}); err == nil {
			break
		}
		// The server itself writes the status of a definition.
		if !apierrors.IsConflict(err) || time.Now().After(deadline) {
			return err
		}
		if found, err = resource.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	if updated.GetAnnotations()["example.com/updated"] != "yes" {
		return errors.New("the annotation is missing")
	}
	if err := same(updated); err != nil {
		return err
	}
	if _, err := resource.Update(ctx, changed, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("an old version was not a conflict: %v", err)
	}

	step = "patch"
	patch := []byte(`{"metadata":{"annotations":{"example.com/patched":"yes"}}}`)
	patched, err := resource.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if len(patched.GetAnnotations()) < 2 {
		return errors.New("the annotations are missing")
	}

	step = "delete"
	zero := int64(0)
	uid := created.GetUID()
	if err := resource.Delete(ctx, name, metav1.DeleteOptions{
		GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &uid},
	}); err != nil {
		return err
	}

	step = "what the watch says"
	changes := 0
	for {
		select {
		case event, open := <-watched.ResultChan():
			if !open {
				return errors.New("it ended")
			}
			said, ok := event.Object.(T)
			if !ok {
				return fmt.Errorf("%s: %v", event.Type, event.Object)
			}
			switch {
			case event.Type == watch.Bookmark:
				continue
			// A namespace or definition that is deleted is Terminating first.
			case event.Type == watch.Deleted || said.GetDeletionTimestamp() != nil:
				if changes < 2 {
					return fmt.Errorf("%s after %d changes", event.Type, changes)
				}
				return nil
			case event.Type != watch.Modified:
				return fmt.Errorf("%s: %v", event.Type, event.Object)
			}
			changes++
			if err := same(said); err != nil {
				return err
			}
		case <-time.After(limit):
			return fmt.Errorf("no end after %d changes", changes)
		}
	}
}

func listMeta(list runtime.Object) (metav1.ListInterface, error) {
	accessor, ok := list.(metav1.ListMetaAccessor)
	if !ok {
		return nil, fmt.Errorf("%T is no list", list)
	}
	return accessor.GetListMeta(), nil
}

// statuses writes the status of an object, and applies a strategic merge patch to its spec.
func statuses(ctx context.Context, set kubernetes.Interface, namespace string) error {
	pods := set.CoreV1().Pods(namespace)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "status"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("statuses: %w", err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1700000000, 0)}}
	if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("statuses: update: %w", err)
	}
	patch := []byte(`{"spec":{"containers":[{"name":"c","image":"example.com/c:2"}]}}`)
	if _, err := pods.Patch(ctx, "status", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("statuses: patch: %w", err)
	}
	found, err := pods.Get(ctx, "status", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("statuses: get: %w", err)
	}
	first := found.Status.Conditions
	if found.Status.Phase != corev1.PodRunning || len(first) != 1 || first[0].LastTransitionTime.Unix() != 1700000000 {
		return fmt.Errorf("statuses: found %v", found.Status)
	}
	if len(found.Spec.Containers) != 1 || found.Spec.Containers[0].Image != "example.com/c:2" {
		return fmt.Errorf("statuses: found %v", found.Spec)
	}
	zero := int64(0)
	return pods.Delete(ctx, "status", metav1.DeleteOptions{GracePeriodSeconds: &zero})
}

// refusals are errors that a client tells apart.
func refusals(ctx context.Context, set kubernetes.Interface, namespace string) error {
	maps := set.CoreV1().ConfigMaps(namespace)
	if _, err := maps.Get(ctx, "nope", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("refusals: %v is not NotFound", err)
	}
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	if _, err := maps.Create(ctx, one, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := maps.Create(ctx, one, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("refusals: %v is not AlreadyExists", err)
	}
	bad := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "Not a name"}}
	_, err := maps.Create(ctx, bad, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid) {
		return fmt.Errorf("refusals: %v is not Invalid, with a cause", err)
	}
	return maps.Delete(ctx, "one", metav1.DeleteOptions{})
}

// pages lists objects two at a time.
func pages(ctx context.Context, set kubernetes.Interface, namespace string) error {
	maps := set.CoreV1().ConfigMaps(namespace)
	for at := range 5 {
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("page-%d", at), Labels: map[string]string{"page": "yes"}}}
		if _, err := maps.Create(ctx, one, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	names, token := 0, ""
	for {
		page, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "page=yes", Limit: 2, Continue: token})
		if err != nil {
			return fmt.Errorf("pages: %w", err)
		}
		names += len(page.Items)
		if token = page.Continue; token == "" {
			break
		}
	}
	if names != 5 {
		return fmt.Errorf("pages: %d objects instead of 5", names)
	}
	return nil
}
