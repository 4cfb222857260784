package main

import (
	"maps"

	"github.com/grafana/grafana-app-sdk/resource"
	"github.com/windlass-rs/windlass/bench/peers/child"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// pod is a Pod as the SDK has it: the spec and the status of Kubernetes' own types in an object
// of its own, as it is generated for a user's kind too.
type pod = resource.TypedSpecStatusObject[corev1.PodSpec, corev1.PodStatus]

// configMap is a ConfigMap as the SDK has it: it has no spec, and what it has instead is a field
// beside that.
//
// Neither resource.UntypedObject nor resource.TypedObject can be it: they do not decode what has
// no kind, and in a list of a built-in kind no object has.
type configMap struct {
	resource.TypedSpecObject[struct{}]
	Immutable  *bool             `json:"immutable,omitempty"`
	Data       map[string]string `json:"data,omitempty"`
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
}

var (
	pods = kind("Pod", new(pod), new(resource.TypedList[*pod]))

	configMaps = kind("ConfigMap", new(configMap), new(resource.TypedList[*configMap]))

	// secrets are those that the load server never sends.
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
