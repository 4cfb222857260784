//! The cells of nodes: their status, roles and addresses.

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
    let labels = crate::metadata::field(object, "labels").and_then(Value::as_object);
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

/// Returns the first address of this `kind`.
pub(in super::super) fn address(object: &Value, kind: &str) -> Value {
    let mut addresses = list_at(object, "/status/addresses").iter();
    let found = addresses.find(|address| str_at(address, "/type", "") == kind);
    found
        .map_or(NONE, |address| str_at(address, "/address", NONE))
        .into()
}

pub(in super::super) fn kernel(object: &Value, _: Timestamp) -> Value {
    let kernel = str_at(object, "/status/nodeInfo/kernelVersion", "<unknown>");
    match str_at(object, "/status/nodeInfo/architecture", "") {
        "" => kernel.into(),
        architecture => format!("{kernel} ({architecture})").into(),
    }
}
