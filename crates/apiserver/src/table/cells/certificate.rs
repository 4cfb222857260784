//! The cells of requests for certificates.

use jiff::Timestamp;
use serde_json::Value;

use crate::table::age;

use super::{NONE, list_at, str_at};

pub(in super::super) fn duration(object: &Value, _: Timestamp) -> Value {
    let seconds = object.pointer("/spec/expirationSeconds");
    match seconds.and_then(Value::as_i64) {
        None => NONE.into(),
        Some(seconds) => age::human(seconds).into(),
    }
}

pub(in super::super) fn condition(object: &Value, _: Timestamp) -> Value {
    let conditions = list_at(object, "/status/conditions");
    let has = |wanted: &str| {
        conditions
            .iter()
            .any(|it| str_at(it, "/type", "") == wanted)
    };
    let decision = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    };
    let mut text = decision.to_owned();
    if has("Failed") {
        text.push_str(",Failed");
    }
    if !str_at(object, "/status/certificate", "").is_empty() {
        text.push_str(",Issued");
    }
    text.into()
}
