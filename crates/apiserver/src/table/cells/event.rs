//! The cells of events of both API groups.

use jiff::Timestamp;
use serde_json::Value;

use crate::table::age;

use super::str_at;

/// Returns the value at the first of `pointers` that exists.
fn first<'a>(object: &'a Value, pointers: &[&str]) -> Option<&'a Value> {
    let mut found = pointers
        .iter()
        .filter_map(|pointer| object.pointer(pointer));
    found.find(|value| !value.is_null())
}

pub(in super::super) fn first_seen(object: &Value, now: Timestamp) -> Value {
    let first = first(
        object,
        &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"],
    );
    age::since(first, now).into()
}

pub(in super::super) fn last_seen(object: &Value, now: Timestamp) -> Value {
    let pointers = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/deprecatedLastTimestamp",
    ];
    match first(object, &pointers) {
        None => first_seen(object, now),
        last => age::since(last, now).into(),
    }
}

pub(in super::super) fn event_count(object: &Value, _: Timestamp) -> Value {
    let count = first(object, &["/series/count", "/count", "/deprecatedCount"]);
    count
        .and_then(Value::as_i64)
        .filter(|count| *count != 0)
        .unwrap_or(1)
        .into()
}

pub(in super::super) fn event_object(object: &Value, _: Timestamp) -> Value {
    let Some(about) = first(object, &["/involvedObject", "/regarding"]) else {
        return "".into();
    };
    let kind = str_at(about, "/kind", "").to_lowercase();
    match str_at(about, "/name", "") {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

pub(in super::super) fn event_field(object: &Value, _: Timestamp) -> Value {
    let field = first(
        object,
        &["/involvedObject/fieldPath", "/regarding/fieldPath"],
    );
    field.and_then(Value::as_str).unwrap_or_default().into()
}

pub(in super::super) fn event_source(object: &Value, _: Timestamp) -> Value {
    let find = |pointers: &[&'static str]| {
        let texts = pointers.iter().map(|pointer| str_at(object, pointer, ""));
        texts
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    };
    let component = find(&[
        "/source/component",
        "/deprecatedSource/component",
        "/reportingComponent",
        "/reportingController",
    ]);
    match find(&[
        "/source/host",
        "/deprecatedSource/host",
        "/reportingInstance",
    ]) {
        "" => component.into(),
        host => format!("{component}, {host}").into(),
    }
}

pub(in super::super) fn event_message(object: &Value, _: Timestamp) -> Value {
    let message = first(object, &["/message", "/note"]);
    message
        .and_then(Value::as_str)
        .unwrap_or_default()
        .trim()
        .into()
}
