package main

import (
	"maps"

	"github.com/grafana/grafana-app-sdk/resource"
	"github.com/windlass-rs/windlass/bench/peers/child"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// pod is a Pod in the SDK: its generic object with the spec and the status types of Kubernetes, as in
// the generated code for custom kinds.
type pod = resource.TypedSpecStatusObject[corev1.PodSpec, corev1.PodStatus]

// configMap is a ConfigMap in the SDK: it has no spec, and its data are additional fields.
//
// resource.UntypedObject and resource.TypedObject cannot be used: they do not decode objects without
// a kind, and the objects in a list of a built-in kind have none.
type configMap struct {
	resource.TypedSpecObject[struct{}]
	Immutable  *bool             `json:"immutable,omitempty"`
	Data       map[string]string `json:"data,omitempty"`
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
}

var (
	pods = kind("Pod", new(pod), new(resource.TypedList[*pod]))

	configMaps = kind("ConfigMap", new(configMap), new(resource.TypedList[*configMap]))

	// secrets are never sent by the load server.
	secrets = kind("Secret", new(resource.UntypedObject), new(resource.UntypedList))
)

func kind(name string, object resource.Object, list resource.ListObject) resource.Kind {
	return resource.Kind{
		Schema: resource.NewSimpleSchema("", "v1", object, list, resource.WithKind(name)),
		Codecs: map[resource.KindEncoding]resource.Codec{
			resource.KindEncodingJSON: resource.NewJSONCodec(),
		},
	}
}

func kindOf(job child.Job) resource.Kind {
	if job.Kind == "Pod" {
		return pods
	}
	return configMaps
}

func (c *configMap) Copy() resource.Object {
	copied := &configMap{Data: maps.Clone(c.Data)}
	copied.TypeMeta = c.TypeMeta
	c.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	if c.Immutable != nil {
		copied.Immutable = new(*c.Immutable)
	}
	if c.BinaryData != nil {
		copied.BinaryData = make(map[string][]byte, len(c.BinaryData))
		for name, data := range c.BinaryData {
			copied.BinaryData[name] = append([]byte(nil), data...)
		}
	}
	return copied
}

func (c *configMap) DeepCopyObject() runtime.Object {
	return c.Copy()
}
