//! The cells of workloads: the numbers of their pods, and their containers.

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

pub(in super::super) fn scheduled_container_names(object: &Value, _: Timestamp) -> Value {
    joined(
        object,
        "/spec/jobTemplate/spec/template/spec/containers",
        "/name",
        ",",
    )
    .into()
}

pub(in super::super) fn scheduled_container_images(object: &Value, _: Timestamp) -> Value {
    joined(
        object,
        "/spec/jobTemplate/spec/template/spec/containers",
        "/image",
        ",",
    )
    .into()
}

pub(in super::super) fn selector(object: &Value, _: Timestamp) -> Value {
    // The selector of a replication controller has only labels.
    match object.pointer("/spec/selector") {
        Some(Value::Object(fields)) if fields.values().all(Value::is_string) => {
            labels(object, "/spec/selector").into()
        }
        _ => selector_at(object, "/spec/selector").into(),
    }
}

/// Formats the label selector at `pointer` like an argument of `kubectl -l`, sorted by key.
pub(in super::super) fn selector_at(object: &Value, pointer: &str) -> String {
    let selector = object.pointer(pointer).unwrap_or(&Value::Null);
    let labels = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let mut parts: Vec<(&str, String)> = labels
        .map(|(key, value)| {
            (
                key.as_str(),
                format!("{key}={}", value.as_str().unwrap_or_default()),
            )
        })
        .collect();
    for expression in list_at(selector, "/matchExpressions") {
        let key = str_at(expression, "/key", "");
        let values = list_at(expression, "/values")
            .iter()
            .filter_map(Value::as_str);
        let mut values: Vec<_> = values.collect();
        values.sort_unstable();
        let values = values.join(",");
        let part = match str_at(expression, "/operator", "") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        parts.push((key, part));
    }
    parts.sort_by_key(|(key, _)| *key);
    match parts
        .into_iter()
        .map(|(_, part)| part)
        .collect::<Vec<_>>()
        .join(",")
    {
        none if none.is_empty() => NONE.to_owned(),
        selector => selector,
    }
}

// Cells of pod templates.

pub(in super::super) fn template_names(object: &Value, _: Timestamp) -> Value {
    joined(object, "/template/spec/containers", "/name", ",").into()
}

pub(in super::super) fn template_images(object: &Value, _: Timestamp) -> Value {
    joined(object, "/template/spec/containers", "/image", ",").into()
}

pub(in super::super) fn template_labels(object: &Value, _: Timestamp) -> Value {
    labels(object, "/template/metadata/labels").into()
}
