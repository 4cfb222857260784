//! Fields that the server fills into objects of the built-in kinds.
//!
//! Only what clients commonly rely on to be there. The full defaults of Kubernetes are a
//! matter of its controllers' types, and not here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::NAMESPACES;
use crate::metadata;
use crate::registry::{Definition, Resource};

/// Fills in what any write of an object of `resource` may leave out.
///
/// On every write, as Kubernetes decodes them: an update that leaves a default out does
/// not change the object.
pub(super) fn decoded(resource: &Resource, object: &mut Value) {
    if resource.info.custom {
        return;
    }
    match (resource.info.group.as_str(), resource.info.kind.as_str()) {
        ("", "Pod") => {
            fill(object, "restartPolicy", &json!("Always"));
            fill(object, "schedulerName", &json!("default-scheduler"));
        }
        ("", "Secret") => {
            encode_string_data(object);
            if object.get("type").is_none_or(Value::is_null) {
                object["type"] = "Opaque".into();
            }
        }
        ("apiextensions.k8s.io", _) => Definition::default(object),
        ("", "Namespace") => label_namespace(object),
        ("", "Service") => fill(object, "type", &json!("ClusterIP")),
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") => {
            fill(object, "replicas", &json!(1));
        }
        _ => {}
    }
}

/// Fills in what the server says of a new object of `resource`.
pub(super) fn created(resource: &Resource, object: &mut Value) {
    match &*resource.table {
        NAMESPACES => {
            object["spec"] = json!({ "finalizers": ["kubernetes"] });
            object["status"] = json!({ "phase": "Active" });
            // Its name may have been generated since it was decoded.
            label_namespace(object);
        }
        "pods" => object["status"] = json!({ "phase": "Pending", "qosClass": "BestEffort" }),
        _ => {}
    }
}

/// Each namespace has a label with its name.
fn label_namespace(namespace: &mut Value) {
    let name = metadata::text(namespace, "name").to_owned();
    if name.is_empty() {
        return;
    }
    let labels = metadata::of(namespace)
        .entry("labels")
        .or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

/// `stringData` is there to be written only: its texts become `data`.
fn encode_string_data(secret: &mut Value) {
    let Some(texts) = secret
        .as_object_mut()
        .and_then(|secret| secret.remove("stringData"))
    else {
        return;
    };
    if !secret.get("data").is_some_and(Value::is_object) {
        secret["data"] = Map::new().into();
    }
    for (key, text) in texts.as_object().into_iter().flatten() {
        secret["data"][key] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
    }
}

fn fill(object: &mut Value, field: &str, value: &Value) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry(field).or_insert_with(|| value.clone());
    }
}
