//! Cells that name another object, and the state of a resource claim.

use jiff::Timestamp;
use serde_json::Value;

use super::{NONE, list_at, str_at};

/// Returns the controller of an object, as `kind.group/name`.
pub(in super::super) fn controller(object: &Value, _: Timestamp) -> Value {
    let mut owners = list_at(object, "/metadata/ownerReferences").iter();
    let Some(owner) = owners.find(|owner| owner["controller"] == true) else {
        return NONE.into();
    };
    let kind = str_at(owner, "/kind", "").to_lowercase();
    let name = str_at(owner, "/name", "");
    match str_at(owner, "/apiVersion", "").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}").into(),
        None => format!("{kind}/{name}").into(),
    }
}

/// Returns the owner of an IP address, as `resource.group/namespace/name`.
pub(in super::super) fn parent(object: &Value, _: Timestamp) -> Value {
    let Some(parent) = object.pointer("/spec/parentRef").filter(|it| !it.is_null()) else {
        return NONE.into();
    };
    let mut text = str_at(parent, "/resource", "").to_owned();
    for (pointer, sign) in [("/group", '.'), ("/namespace", '/'), ("/name", '/')] {
        let part = str_at(parent, pointer, "");
        if !part.is_empty() {
            text.push(sign);
            text.push_str(part);
        }
    }
    text.into()
}

/// Returns the service of an API service, or `Local`.
pub(in super::super) fn api_service(object: &Value, _: Timestamp) -> Value {
    let Some(service) = object.pointer("/spec/service").filter(|it| !it.is_null()) else {
        return "Local".into();
    };
    let namespace = str_at(service, "/namespace", "");
    format!("{namespace}/{}", str_at(service, "/name", "")).into()
}

/// Returns whether an API service is available, with the reason if it is not.
pub(in super::super) fn available(object: &Value, _: Timestamp) -> Value {
    let mut conditions = list_at(object, "/status/conditions").iter();
    let Some(found) = conditions.find(|it| str_at(it, "/type", "") == "Available") else {
        return "Unknown".into();
    };
    match str_at(found, "/status", "") {
        "True" => "True".into(),
        status => format!("{status} ({})", str_at(found, "/reason", "")).into(),
    }
}

pub(in super::super) fn claim_state(object: &Value, _: Timestamp) -> Value {
    let is_deleted = crate::metadata::field(object, "deletionTimestamp").is_some();
    let allocation = object.pointer("/status/allocation");
    let is_allocated = allocation.is_some_and(|allocation| !allocation.is_null());
    let is_reserved = is_allocated && !list_at(object, "/status/reservedFor").is_empty();
    let states = [
        ("deleted", is_deleted),
        ("pending", !is_deleted && !is_allocated),
        ("allocated", is_allocated),
        ("reserved", is_reserved),
    ];
    let states = states.into_iter().filter(|(_, holds)| *holds);
    states
        .map(|(state, _)| state)
        .collect::<Vec<_>>()
        .join(",")
        .into()
}

/// Returns the ranges of a service CIDR.
pub(in super::super) fn cidrs(object: &Value, _: Timestamp) -> Value {
    let cidrs = list_at(object, "/spec/cidrs").iter();
    let cidrs = cidrs.filter_map(Value::as_str);
    cidrs.collect::<Vec<_>>().join(",").into()
}
