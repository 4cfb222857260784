//! Nodes: whether they take pods.

use jiff::Timestamp;
use serde_json::Value;

use super::{NONE, list_at, str_at, text};

pub(in super::super) fn node_status(object: &Value, _: Timestamp) -> Value {
    let conditions = list_at(object, "/status/conditions");
    let ready = conditions
        .iter()
        .find(|condition| str_at(condition, "/type", "") == "Ready");
    let word = match ready.map(|condition| str_at(condition, "/status", "")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    if object.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        format!("{word},SchedulingDisabled").into()
    } else {
        word.into()
    }
}

pub(in super::super) fn node_roles(object: &Value, _: Timestamp) -> Value {
    let labels = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    let roles = labels.into_iter().flatten().filter_map(|(label, value)| {
        match label.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if label == "kubernetes.io/role" => value.as_str(),
            None => None,
        }
    });
    let mut roles: Vec<_> = roles.filter(|role| !role.is_empty()).collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        NONE.into()
    } else {
        roles.join(",").into()
    }
}

pub(in super::super) fn node_version(object: &Value, _: Timestamp) -> Value {
    text(object, "/status/nodeInfo/kubeletVersion", "")
}
