//! A custom resource without a status subresource, with fields of many types.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use serde_json::{Value, json};

use crate::support::widget_resource;

/// A kind without a status of its own, with a bit of everything else.
pub(crate) fn gadget_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "gadgets.ex.io" },
        "spec": {
            "group": "ex.io",
            "scope": "Namespaced",
            "names": { "plural": "gadgets", "kind": "Gadget" },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    { "name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas" },
                    { "name": "Admin", "type": "string", "priority": 1,
                      "jsonPath": ".spec.ports[?(@.name==\"admin\")].name" },
                    { "name": "Missing", "type": "string", "jsonPath": ".status.phase" },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": gadget_spec() },
                } },
            }],
        },
    })
}

/// The schema of a gadget's spec.
fn gadget_spec() -> Value {
    json!({
        "type": "object",
        "required": ["replicas"],
        "properties": {
            "replicas": { "type": "integer", "minimum": 1 },
            "mode": { "type": "string", "enum": ["a", "c"], "default": "a" },
            "host": { "type": "string", "pattern": "^[a-z.]+$" },
            "since": { "type": "string", "format": "date-time" },
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            "limits": {
                "type": "object",
                "default": {},
                "properties": {
                    "cpu": { "x-kubernetes-int-or-string": true, "default": "1" },
                },
            },
            "ports": {
                "type": "array",
                "maxItems": 2,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": { "name": { "type": "string" } },
                },
            },
        },
    })
}

fn gadget_resource() -> ApiResource {
    ApiResource {
        kind: "Gadget".to_owned(),
        plural: "gadgets".to_owned(),
        ..widget_resource()
    }
}

pub(crate) fn gadgets(client: &Client) -> Api<DynamicObject> {
    Api::default_namespaced_with(client.clone(), &gadget_resource())
}

pub(crate) fn gadget(name: &str, spec: &Value) -> DynamicObject {
    DynamicObject::new(name, &gadget_resource()).data(json!({ "spec": spec }))
}
