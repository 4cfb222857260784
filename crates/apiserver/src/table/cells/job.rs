//! The cells of jobs: their completions and duration.

use jiff::Timestamp;
use serde_json::Value;

use crate::table::age;

use super::{NONE, int_at, list_at, str_at};

pub(in super::super) fn job_status(object: &Value, _: Timestamp) -> Value {
    let is_true = |wanted: &str| {
        list_at(object, "/status/conditions")
            .iter()
            .any(|condition| {
                str_at(condition, "/type", "") == wanted
                    && str_at(condition, "/status", "") == "True"
            })
    };
    let status = if is_true("Complete") {
        "Complete"
    } else if is_true("Failed") {
        "Failed"
    } else if crate::metadata::field(object, "deletionTimestamp").is_some() {
        "Terminating"
    } else {
        let conditions = [
            ("Suspended", "Suspended"),
            ("FailureTarget", "FailureTarget"),
            ("SuccessCriteriaMet", "SuccessCriteriaMet"),
        ];
        conditions
            .into_iter()
            .find(|(kind, _)| is_true(kind))
            .map_or("Running", |(_, word)| word)
    };
    status.into()
}

pub(in super::super) fn completions(object: &Value, _: Timestamp) -> Value {
    let succeeded = int_at(object, "/status/succeeded");
    let wanted = object.pointer("/spec/completions").and_then(Value::as_i64);
    let parallelism = int_at(object, "/spec/parallelism");
    match wanted {
        Some(wanted) => format!("{succeeded}/{wanted}").into(),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}").into(),
        None => format!("{succeeded}/1").into(),
    }
}

pub(in super::super) fn job_duration(object: &Value, now: Timestamp) -> Value {
    let time = |pointer| object.pointer(pointer)?.as_str()?.parse::<Timestamp>().ok();
    let Some(start) = time("/status/startTime") else {
        return "".into();
    };
    age::between(start, time("/status/completionTime").unwrap_or(now)).into()
}

pub(in super::super) fn suspend(object: &Value, _: Timestamp) -> Value {
    let suspended = object.pointer("/spec/suspend") == Some(&Value::Bool(true));
    let words = if suspended { "True" } else { "False" };
    words.into()
}

pub(in super::super) fn active(object: &Value, _: Timestamp) -> Value {
    list_at(object, "/status/active").len().into()
}

pub(in super::super) fn last_schedule(object: &Value, now: Timestamp) -> Value {
    match object.pointer("/status/lastScheduleTime") {
        None | Some(Value::Null) => NONE.into(),
        time => age::since(time, now).into(),
    }
}
