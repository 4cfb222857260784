//! The cells of the built-in kinds.

use jiff::Timestamp;
use serde_json::Value;

use super::age;

pub(super) mod admission;
pub(super) mod autoscaler;
pub(super) mod certificate;
pub(super) mod endpoint;
pub(super) mod event;
pub(super) mod flow;
pub(super) mod job;
pub(super) mod network;
pub(super) mod node;
pub(super) mod pod;
pub(super) mod quota;
pub(super) mod reference;
pub(super) mod volume;
pub(super) mod workload;

/// The text of a cell without a value.
pub(super) const NONE: &str = "<none>";

// Fields of every object.

pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    age::since(crate::metadata::field(object, "creationTimestamp"), now).into()
}

// Fields that several kinds have.

/// Returns the string at `pointer`, or `absent`.
pub(super) fn text(object: &Value, pointer: &str, absent: &str) -> Value {
    str_at(object, pointer, absent).into()
}

/// Returns the number at `pointer`, or 0.
pub(super) fn count(object: &Value, pointer: &str) -> Value {
    int_at(object, pointer).into()
}

fn str_at<'a>(object: &'a Value, pointer: &str, absent: &'a str) -> &'a str {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.filter(|text| !text.is_empty()).unwrap_or(absent)
}

fn int_at(object: &Value, pointer: &str) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

fn list_at<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Joins the strings in `field` of each element at `pointer`.
fn joined(object: &Value, pointer: &str, field: &str, by: &str) -> String {
    let texts = list_at(object, pointer)
        .iter()
        .map(|element| str_at(element, field, ""));
    texts.collect::<Vec<_>>().join(by)
}

/// Formats labels as `a=b,c=d`.
fn labels(object: &Value, pointer: &str) -> String {
    let labels = object.pointer(pointer).and_then(Value::as_object);
    let pairs = labels.into_iter().flatten().map(|(name, value)| {
        let value = value.as_str().unwrap_or_default();
        format!("{name}={value}")
    });
    match pairs.collect::<Vec<_>>().join(",") {
        none if none.is_empty() => NONE.to_owned(),
        labels => labels,
    }
}

/// Returns the string or number at `pointer`, or `absent`.
pub(super) fn text_or_number(object: &Value, pointer: &str, absent: &str) -> Value {
    match object.pointer(pointer) {
        Some(Value::Number(number)) => number.to_string().into(),
        _ => text(object, pointer, absent),
    }
}

/// Returns the string or number at `pointer` as a text.
fn text_at(object: &Value, pointer: &str) -> Option<String> {
    match object.pointer(pointer)? {
        Value::Number(number) => Some(number.to_string()),
        other => other.as_str().map(str::to_owned),
    }
}

/// Returns the boolean at `pointer`, or `false`.
pub(super) fn flag(object: &Value, pointer: &str) -> Value {
    object
        .pointer(pointer)
        .and_then(Value::as_bool)
        .unwrap_or_default()
        .into()
}

/// Returns the number of entries in `data` and `binaryData`.
pub(super) fn entries(object: &Value, _: Timestamp) -> Value {
    let maps = ["data", "binaryData"]
        .into_iter()
        .filter_map(|map| object.get(map)?.as_object());
    maps.map(serde_json::Map::len).sum::<usize>().into()
}

pub(super) fn role(object: &Value, _: Timestamp) -> Value {
    let kind = str_at(object, "/roleRef/kind", "");
    format!("{kind}/{}", str_at(object, "/roleRef/name", "")).into()
}

/// Returns the subjects of a role binding with this `kind`.
pub(super) fn subjects(object: &Value, kind: &str) -> Value {
    let subjects = list_at(object, "/subjects").iter();
    let of_kind = subjects.filter(|subject| str_at(subject, "/kind", "") == kind);
    let names = of_kind.map(|subject| {
        let name = str_at(subject, "/name", "");
        match str_at(subject, "/namespace", "") {
            "" => name.to_owned(),
            namespace => format!("{namespace}/{name}"),
        }
    });
    names.collect::<Vec<_>>().join(", ").into()
}
