//! The `OpenAPI` v2 document.

use serde_json::{Value, json};

use super::{raw::Raw, widget::Widget};

/// A schema without what only people read.
pub(super) fn bare(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let members = members.iter().filter(|(word, _)| *word != "description");
            Value::Object(
                members
                    .map(|(word, value)| (word.clone(), bare(value)))
                    .collect(),
            )
        }
        Value::Array(items) => items.iter().map(bare).collect(),
        other => other.clone(),
    }
}

on_both_servers! {
    /// docs/apiserver.md: row 123.
    async fn the_old_document_has_the_types_of_built_in_kinds(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let document = raw.get("/openapi/v2").await.ok();
        assert_eq!(document["swagger"], "2.0");
        let definitions = &document["definitions"];
        let spec = bare(&definitions["io.k8s.api.apps.v1.DeploymentSpec"]);
        assert_eq!(spec, json!({
            "type": "object",
            "required": ["selector", "template"],
            "properties": {
                "minReadySeconds": { "format": "int32", "type": "integer" },
                "paused": { "type": "boolean" },
                "progressDeadlineSeconds": { "format": "int32", "type": "integer" },
                "replicas": { "format": "int32", "type": "integer" },
                "revisionHistoryLimit": { "format": "int32", "type": "integer" },
                "selector": { "$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector" },
                "strategy": {
                    "$ref": "#/definitions/io.k8s.api.apps.v1.DeploymentStrategy",
                    "x-kubernetes-patch-strategy": "retainKeys",
                },
                "template": { "$ref": "#/definitions/io.k8s.api.core.v1.PodTemplateSpec" },
            },
        }));
        for (name, expected) in [
            ("io.k8s.apimachinery.pkg.api.resource.Quantity", json!({ "type": "string" })),
            (
                "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
                json!({ "format": "int-or-string", "type": "string" }),
            ),
            (
                "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
                json!({ "format": "date-time", "type": "string" }),
            ),
            (
                "io.k8s.api.core.v1.SecretReference",
                json!({
                    "type": "object", "x-kubernetes-map-type": "atomic",
                    "properties": { "name": { "type": "string" }, "namespace": { "type": "string" } },
                }),
            ),
        ] {
            assert_eq!(bare(&definitions[name]), expected, "{name}");
        }
        let containers = bare(&definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]);
        assert_eq!(containers, json!({
            "type": "array",
            "items": { "$ref": "#/definitions/io.k8s.api.core.v1.Container" },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-patch-merge-key": "name",
            "x-kubernetes-patch-strategy": "merge",
        }));
        let kinds = &definitions["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"];
        assert_eq!(*kinds, json!([{ "group": "apps", "kind": "Deployment", "version": "v1" }]));
        let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
        let operation = &document["paths"][path]["patch"];
        assert_eq!(operation["x-kubernetes-action"], "patch");
        assert_eq!(operation["x-kubernetes-group-version-kind"], kinds[0]);
        let parameters = operation["parameters"].as_array().expect("a list");
        let names: Vec<_> = parameters.iter().filter_map(|it| it["name"].as_str()).collect();
        for name in ["dryRun", "fieldValidation"] {
            assert!(names.contains(&name), "{names:?}");
        }
    }

    /// docs/apiserver.md: row 123.
    async fn the_old_document_has_the_types_of_custom_resources(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widgets = Widget::served(&raw, &json!({
            "type": "object",
            "properties": { "spec": {
                "type": "object",
                "description": "What is wanted.",
                "required": ["size"],
                "properties": {
                    "size": { "type": "integer", "format": "int64", "default": 1, "description": "How large it is." },
                    "port": { "x-kubernetes-int-or-string": true },
                    "note": { "type": "string", "nullable": true },
                    "open": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                        "properties": { "a": { "type": "string" } },
                    },
                },
            } },
        })).await;
        let package = widgets.group.rsplit('.').collect::<Vec<_>>().join(".");
        let name = format!("{package}.v1.Widget");
        // The real server writes its documents some time after it serves a kind.
        let document = raw.until("/openapi/v2", |it| it.body["definitions"].get(&name).is_some()).await;
        let spec = &document["definitions"][&name]["properties"]["spec"]["properties"]["spec"];
        assert_eq!(*spec, json!({
            "type": "object",
            "description": "What is wanted.",
            "required": ["size"],
            "properties": {
                "size": { "type": "integer", "format": "int64", "description": "How large it is." },
                "port": { "x-kubernetes-int-or-string": true },
                "note": {},
                "open": { "x-kubernetes-preserve-unknown-fields": true },
            },
        }));
    }
}
