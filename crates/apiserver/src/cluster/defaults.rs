//! Fields that the server fills into objects of the built-in kinds.
//!
//! The defaults of types are filled in when a body is decoded; here is what a kind as a whole
//! gets, and a new object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{NAMESPACES, strategy};
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
        ("", "Secret") => encode_string_data(object),
        ("apiextensions.k8s.io", _) => Definition::default(object),
        ("", "Namespace") => label_namespace(object),
        ("apps", "DaemonSet") => strategy::mark_template(object),
        _ => {}
    }
}

/// Fills in what the server says of a new object of `resource`.
pub(super) fn created(resource: &Resource, object: &mut Value) {
    if &*resource.table == NAMESPACES {
        object["spec"] = json!({ "finalizers": ["kubernetes"] });
        object["status"] = json!({ "phase": "Active" });
        // Its name may have been generated since it was decoded.
        label_namespace(object);
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
