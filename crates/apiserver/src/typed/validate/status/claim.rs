//! The status of a claim of devices: the allocation, and the objects that use it.

use serde_json::Value;

use super::super::{At, Faults};
use crate::metadata::syntax;
use crate::status::{FieldError, FieldErrorKind};

pub(super) fn status(claim: &Value, old: At<'_>, at: At<'_>, faults: &mut Faults) {
    users(at, faults);
    devices(at, faults);
    let allocation = at.get("allocation");
    if !at.list("reservedFor").is_empty() && allocation.is_none() {
        let why = "may not be specified when `allocated` is not set";
        faults.forbidden(at.path("reservedFor"), why);
    } else if !claim["metadata"]["deletionTimestamp"].is_null() {
        let known = old.list("reservedFor");
        if !at
            .list("reservedFor")
            .iter()
            .all(|user| known.contains(user))
        {
            let why = "new entries may not be added while `deallocationRequested` or \
                       `deletionTimestamp` are set";
            faults.forbidden(at.path("reservedFor"), why);
        }
    }
    match (old.get("allocation"), allocation) {
        (Some(before), Some(found)) if before != found => {
            faults.invalid(at.path("allocation"), found, "field is immutable");
        }
        (None, Some(_)) => {
            let names = requests(claim);
            at.inner("allocation", |at| {
                at.inner("devices", |at| {
                    at.each("results", |at| result(at, &names, faults));
                });
            });
        }
        _ => {}
    }
}

/// The objects that use the claim.
fn users(at: At<'_>, faults: &mut Faults) {
    let mut seen: Vec<String> = Vec::new();
    at.each("reservedFor", |at| {
        for field in ["resource", "name", "uid"] {
            faults.needs(at, field);
        }
        let uid = at.text("uid").to_owned();
        if seen.contains(&uid) {
            faults.add(FieldError::duplicate(at.path, &uid.as_str().into()));
        }
        seen.push(uid);
    });
}

/// The devices about which a driver reports.
fn devices(at: At<'_>, faults: &mut Faults) {
    let allocated = at.value.pointer("/allocation/devices/results");
    let allocated = allocated.and_then(Value::as_array);
    let key = |device: &Value| {
        let text = |field: &str| device[field].as_str().unwrap_or_default().to_owned();
        ["driver", "pool", "device", "shareID"].map(text)
    };
    let mut seen: Vec<[String; 4]> = Vec::new();
    at.each("devices", |at| {
        device(at, faults);
        let own = key(at.value);
        let [driver, pool, device, share] = &own;
        let shown = format!(
            "{{\"Driver\":{driver:?},\"Pool\":{pool:?},\"Device\":{device:?},\"ShareID\":{share:?}}}"
        );
        if seen.contains(&own) {
            let value = shown.clone();
            at_value(at.path, FieldErrorKind::Duplicate { value }, "", faults);
        }
        if !allocated.into_iter().flatten().any(|it| key(it) == own) {
            let why = "must be an allocated device in the claim";
            at_value(at.path, FieldErrorKind::Invalid { value: shown }, why, faults);
        }
        seen.push(own);
    });
}

/// An error that shows a value in the form of the real server.
fn at_value(path: &str, kind: FieldErrorKind, why: &str, faults: &mut Faults) {
    faults.add(FieldError {
        path: path.to_owned(),
        kind,
        detail: why.to_owned(),
    });
}

/// The names by which a result can refer to a request.
fn requests(claim: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let mut names = Vec::new();
    for request in list(&claim["spec"]["devices"]["requests"]) {
        let inner = list(&request["firstAvailable"]);
        let inner = inner
            .iter()
            .map(|it| format!("{}/{}", name(&request), name(it)));
        names.extend(inner);
        names.push(name(&request));
    }
    names
}

/// An allocated device.
fn result(at: At<'_>, names: &[String], faults: &mut Faults) {
    let request = at.text("request");
    for part in request.split('/') {
        faults.wrong(at.path("request"), &part.into(), syntax::label(part));
    }
    if !names.iter().any(|name| name == request) {
        let why = "must be the name of a request in the claim or the name of a request and a \
                   subrequest separated by '/'";
        faults.invalid(at.path("request"), &request.into(), why);
    }
    device(at, faults);
}

/// The name of a device, with its driver and its pool.
fn device(at: At<'_>, faults: &mut Faults) {
    faults.needs_valid(at, "driver", |name| syntax::subdomain(&name.to_lowercase()));
    if faults.needs(at, "pool") {
        for part in at.text("pool").split('/') {
            faults.wrong(at.path("pool"), &part.into(), syntax::subdomain(part));
        }
    }
    faults.must_follow(at, "device", syntax::label);
}
