//! The cells of flow schemas and priority levels.

use jiff::Timestamp;
use serde_json::Value;

use super::{NONE, list_at, str_at};

/// Returns the status of the condition that the priority level of a flow schema is missing.
pub(in super::super) fn missing_level(object: &Value, _: Timestamp) -> Value {
    let mut conditions = list_at(object, "/status/conditions").iter();
    let dangling = conditions.find(|condition| str_at(condition, "/type", "") == "Dangling");
    dangling
        .map_or("?", |condition| str_at(condition, "/status", ""))
        .into()
}

/// Returns the number at `pointer`, or `<none>`.
pub(in super::super) fn number(object: &Value, pointer: &str) -> Value {
    match object.pointer(pointer) {
        Some(number @ Value::Number(_)) => number.clone(),
        _ => NONE.into(),
    }
}
