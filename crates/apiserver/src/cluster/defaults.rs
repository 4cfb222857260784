//! Fields that the server fills into objects of the built-in kinds.
//!
//! Type defaults are filled in when a body is decoded. This module sets the defaults of whole
//! kinds, and the initial fields of new objects.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{NAMESPACES, strategy};
use crate::metadata;
use crate::registry::{Definition, Resource};

/// Fills in the optional fields of an object of `resource`.
///
/// This happens with every write, like in Kubernetes: an update that omits a default does not
/// change the object.
pub(super) fn decoded(resource: &Resource, object: &mut Value) {
    if resource.info.custom {
        return;
    }
    match (resource.info.group.as_str(), resource.info.kind.as_str()) {
        ("", "Secret") => encode_string_data(object),
        ("apiextensions.k8s.io", _) => Definition::default(object),
        ("", "Namespace") => label_namespace(object),
        ("", "Pod") => first_address(object),
        ("apps", "DaemonSet") => strategy::mark_template(object),
        _ => {}
    }
}

/// Sets the fields that a new object of `resource` gets from the server.
pub(super) fn created(resource: &Resource, object: &mut Value) {
    if &*resource.table == NAMESPACES {
        add_namespace_finalizer(object);
        object["status"] = json!({ "phase": "Active" });
        // The name can have been generated after the object was decoded.
        label_namespace(object);
    }
}

/// Adds the finalizer of the namespace controller to the spec of a namespace.
fn add_namespace_finalizer(namespace: &mut Value) {
    let own = Value::from("kubernetes");
    let sent = namespace.pointer("/spec/finalizers");
    let mut finalizers = sent.and_then(Value::as_array).cloned().unwrap_or_default();
    if !finalizers.contains(&own) {
        finalizers.push(own);
    }
    namespace["spec"] = json!({ "finalizers": finalizers });
}

/// Sets the label with the name of the namespace.
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

/// The first address of a pod is in two fields. The older one has priority.
fn first_address(pod: &mut Value) {
    let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) else {
        return;
    };
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let address = text(status.get("podIP")).filter(|address| !address.is_empty());
    let first = status.get("podIPs").and_then(|list| list.get(0));
    match (address, first) {
        (Some(address), first)
            if text(first.and_then(|it| it.get("ip"))) != Some(address.clone()) =>
        {
            status.insert("podIPs".to_owned(), json!([{ "ip": address }]));
        }
        (None, Some(first)) => {
            if let Some(address) = text(first.get("ip")).filter(|it| !it.is_empty()) {
                status.insert("podIP".to_owned(), address.into());
            }
        }
        _ => {}
    }
}

/// Encodes `stringData`, which is write-only, into `data`.
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
