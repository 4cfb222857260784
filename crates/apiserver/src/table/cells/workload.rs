//! Objects that make pods: how many, and of what.

use jiff::Timestamp;
use serde_json::Value;

use super::{NONE, int_at, joined, labels, list_at, str_at};

pub(in super::super) fn ready_of_desired(object: &Value, _: Timestamp) -> Value {
    let ready = int_at(object, "/status/readyReplicas");
    format!("{ready}/{}", int_at(object, "/spec/replicas")).into()
}

pub(in super::super) fn container_names(object: &Value, _: Timestamp) -> Value {
    joined(object, "/spec/template/spec/containers", "/name", ",").into()
}

pub(in super::super) fn container_images(object: &Value, _: Timestamp) -> Value {
    joined(object, "/spec/template/spec/containers", "/image", ",").into()
}

pub(in super::super) fn node_selector(object: &Value, _: Timestamp) -> Value {
    labels(object, "/spec/template/spec/nodeSelector").into()
}

/// A label selector as one would write it after `-l`.
pub(in super::super) fn selector(object: &Value, _: Timestamp) -> Value {
    let mut parts = Vec::new();
    if object.pointer("/spec/selector/matchLabels").is_some() {
        parts.push(labels(object, "/spec/selector/matchLabels"));
    }
    for expression in list_at(object, "/spec/selector/matchExpressions") {
        let key = str_at(expression, "/key", "");
        let values = list_at(expression, "/values")
            .iter()
            .filter_map(Value::as_str);
        let values = values.collect::<Vec<_>>().join(",");
        parts.push(match str_at(expression, "/operator", "") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    // A replication controller selects by labels alone.
    if parts.is_empty() && object.pointer("/spec/selector").is_some() {
        parts.push(labels(object, "/spec/selector"));
    }
    match parts.join(",") {
        none if none.is_empty() => NONE.into(),
        selector => selector.into(),
    }
}
