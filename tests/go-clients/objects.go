package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"sort"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	apiextensionsfuzzer "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/fuzzer"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
	metricsv1alpha1 "k8s.io/metrics/pkg/apis/metrics/v1alpha1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/randfill"
)

// Object is an object as Go writes it.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Protobuf is the object with its envelope.
	Protobuf []byte `json:"protobuf"`
	// JSON is the object that Go reads from Protobuf.
	JSON json.RawMessage `json:"json"`
	// Again is the object that Go reads from JSON, as protobuf with its envelope.
	Again []byte `json:"again"`
}

// printObjects prints random objects of every kind with a protobuf form, one per line.
func printObjects(seed int64, count int) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, apiextensionsv1beta1.AddToScheme,
		apiregistrationv1.AddToScheme, apiregistrationv1beta1.AddToScheme, metricsv1beta1.AddToScheme, metricsv1alpha1.AddToScheme,
		admissionv1.AddToScheme, admissionv1beta1.AddToScheme, imagepolicyv1alpha1.AddToScheme,
		apidiscoveryv2.AddToScheme, apidiscoveryv2beta1.AddToScheme, metav1.AddMetaToScheme, metav1beta1.AddMetaToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	codecs := serializer.NewCodecFactory(scheme)
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, apiextensionsfuzzer.Funcs, ourFuncs)
	filler := fuzzer.FuzzerFor(funcs, rand.NewSource(seed), codecs)
	wire := protobuf.NewSerializer(scheme, scheme)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	lines := json.NewEncoder(out)

	for _, kind := range kinds(scheme) {
		for range count {
			object, err := scheme.New(kind)
			if err != nil {
				return err
			}
			filler.Fill(object)
			line, err := written(wire, kind, object)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			if err := lines.Encode(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// kinds are the kinds with a protobuf form, sorted, so that a seed always means the same.
func kinds(scheme *runtime.Scheme) []schema.GroupVersionKind {
	var found []schema.GroupVersionKind
	for kind := range scheme.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || kind.Kind == metav1.WatchEventKind {
			continue
		}
		object, err := scheme.New(kind)
		if err != nil {
			continue
		}
		if _, ok := object.(runtime.ProtobufMarshaller); ok {
			found = append(found, kind)
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].String() < found[j].String() })
	return found
}

func written(wire runtime.Serializer, kind schema.GroupVersionKind, object runtime.Object) (*Object, error) {
	object.GetObjectKind().SetGroupVersionKind(kind)
	var first bytes.Buffer
	if err := wire.Encode(object, &first); err != nil {
		return nil, err
	}
	// What was read has no empty list, where what was made up may have one.
	read, _, err := wire.Decode(first.Bytes(), nil, nil)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(read)
	if err != nil {
		return nil, err
	}
	var sent bytes.Buffer
	if err := wire.Encode(read, &sent); err != nil {
		return nil, err
	}
	again := read.DeepCopyObject()
	if resettable, ok := again.(interface{ Reset() }); ok {
		resettable.Reset()
	}
	if err := json.Unmarshal(text, again); err != nil {
		return nil, err
	}
	var back bytes.Buffer
	if err := wire.Encode(again, &back); err != nil {
		return nil, err
	}
	apiVersion, name := kind.ToAPIVersionAndKind()
	return &Object{
		APIVersion: apiVersion,
		Kind:       name,
		Protobuf:   sent.Bytes(),
		JSON:       text,
		Again:      back.Bytes(),
	}, nil
}

// ourFuncs fill what the others leave to the internal types.
func ourFuncs(_ serializer.CodecFactory) []interface{} {
	return []interface{}{
		func(j *runtime.RawExtension, c randfill.Continue) {
			// Sorted and without white space, as every writer would have it.
			j.Raw = []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Thing","list":[1,null,"x"],"n":%d}`, c.Intn(1000)))
		},
		func(j *apiextensionsv1.JSON, c randfill.Continue) {
			j.Raw = []byte([]string{`{"a":1}`, `"x"`, `[true]`, `12`}[c.Intn(4)])
		},
		func(j *apiextensionsv1beta1.JSON, c randfill.Continue) {
			j.Raw = []byte([]string{`{"a":1}`, `"x"`, `[true]`, `12`}[c.Intn(4)])
		},
		func(j *apiextensionsv1.JSONSchemaPropsOrBool, c randfill.Continue) {
			if j.Allows = c.Bool(); j.Allows && c.Bool() {
				j.Schema = &apiextensionsv1.JSONSchemaProps{Type: "string", Title: c.String(8)}
			}
		},
		func(j *apiextensionsv1.JSONSchemaPropsOrArray, c randfill.Continue) {
			if c.Bool() {
				j.JSONSchemas = []apiextensionsv1.JSONSchemaProps{{Type: "string"}, {ID: c.String(8)}}
			} else {
				j.Schema = &apiextensionsv1.JSONSchemaProps{Nullable: true}
			}
		},
		func(j *apiextensionsv1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			if c.Bool() {
				j.Property = []string{c.String(8), "x"}
			} else {
				j.Schema = &apiextensionsv1.JSONSchemaProps{Format: "int32"}
			}
		},
		func(j *apiextensionsv1beta1.JSONSchemaPropsOrBool, c randfill.Continue) {
			j.Allows = c.Bool()
		},
		func(j *apiextensionsv1beta1.JSONSchemaPropsOrArray, c randfill.Continue) {
			j.Schema = &apiextensionsv1beta1.JSONSchemaProps{Nullable: c.Bool()}
		},
		func(j *apiextensionsv1beta1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			j.Property = []string{c.String(8)}
		},
		func(j *apiextensionsv1.JSONSchemaProps, c randfill.Continue) {
			fillFlat(reflect.ValueOf(j).Elem(), c)
			if c.Intn(4) == 0 {
				j.Properties = map[string]apiextensionsv1.JSONSchemaProps{"p": {Minimum: j.Minimum, MaxLength: j.MaxLength}}
				j.AllOf = []apiextensionsv1.JSONSchemaProps{{Not: &apiextensionsv1.JSONSchemaProps{Required: []string{"x"}}}}
				j.Enum = []apiextensionsv1.JSON{{Raw: []byte(`1`)}, {Raw: []byte(`"x"`)}}
			}
		},
		func(j *apiextensionsv1beta1.JSONSchemaProps, c randfill.Continue) {
			j.Type, j.Title, j.UniqueItems = "array", c.String(8), c.Bool()
		},
	}
}

// fillFlat fills the fields that hold no other schema: a schema of schemas has no end.
func fillFlat(object reflect.Value, c randfill.Continue) {
	for at := range object.NumField() {
		field := object.Field(at)
		kind := field.Kind()
		if kind == reflect.Pointer {
			kind = field.Type().Elem().Kind()
		}
		switch kind {
		case reflect.String, reflect.Bool, reflect.Int64, reflect.Float64:
			c.Fill(field.Addr().Interface())
		}
	}
	for _, name := range []string{"Default", "Items", "AdditionalProperties", "Required", "XValidations"} {
		if field := object.FieldByName(name); c.Bool() {
			c.Fill(field.Addr().Interface())
		}
	}
}
