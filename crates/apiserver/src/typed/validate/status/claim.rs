//! The status of a claim of devices: the allocation, and the objects that use it.

use serde_json::Value;

use super::super::affinity::node_selector;
use super::super::claim::{MAX_ITEMS, at_most, configuration, driver, names, pool, reference};
use super::super::network::interface;
use super::super::{At, Faults};
use super::conditions;
use crate::metadata::syntax;
use crate::status::{FieldError, FieldErrorKind};

/// The most objects that use a claim.
const MAX_USERS: usize = 256;

/// The most conditions of a device, and addresses of its network interface.
const MAX_CONDITIONS: usize = 8;
const MAX_ADDRESSES: usize = 16;

/// The most bytes of the name and of the hardware address of a network interface.
const MAX_INTERFACE: usize = 256;
const MAX_HARDWARE_ADDRESS: usize = 128;

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
            let names = names(&claim["spec"]["devices"]);
            at.inner("allocation", |at| {
                at.inner("devices", |at| {
                    at_most(at, "results", MAX_ITEMS, faults);
                    at.each("results", |at| result(at, &names, faults));
                    // A configuration of the claim, and one of its class, for each request.
                    at_most(at, "config", 2 * MAX_ITEMS, faults);
                    at.each("config", |at| {
                        if faults.needs(at, "source") {
                            faults.one_of(at, "source", &["FromClaim", "FromClass"]);
                        }
                        configuration(at, &names, faults);
                    });
                });
                at.inner("nodeSelector", |at| node_selector(at, faults));
            });
        }
        _ => {}
    }
}

/// The objects that use the claim.
fn users(at: At<'_>, faults: &mut Faults) {
    at_most(at, "reservedFor", MAX_USERS, faults);
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
        at_most(at, "conditions", MAX_CONDITIONS, faults);
        conditions::check(at, faults);
        at.inner("networkData", |at| network(at, faults));
    });
}

/// The network interface of a device.
fn network(at: At<'_>, faults: &mut Faults) {
    for (field, most) in [
        ("interfaceName", MAX_INTERFACE),
        ("hardwareAddress", MAX_HARDWARE_ADDRESS),
    ] {
        if at.text(field).len() > most {
            faults.add(FieldError::too_long(at.path(field), most));
        }
    }
    at_most(at, "ips", MAX_ADDRESSES, faults);
    faults.items(at, "ips", interface);
    let addresses = at.list("ips");
    for (number, address) in addresses.iter().enumerate() {
        if addresses[..number].contains(address) {
            let path = format!("{}[{number}]", at.path("ips"));
            faults.add(FieldError::duplicate(path, address));
        }
    }
}

/// An error that shows a value in the form of the real server.
fn at_value(path: &str, kind: FieldErrorKind, why: &str, faults: &mut Faults) {
    faults.add(FieldError {
        path: path.to_owned(),
        kind,
        detail: why.to_owned(),
    });
}

/// An allocated device.
fn result(at: At<'_>, names: &[String], faults: &mut Faults) {
    reference(&at.path("request"), at.text("request"), names, faults);
    device(at, faults);
}

/// The name of a device, with its driver and its pool.
fn device(at: At<'_>, faults: &mut Faults) {
    driver(at, faults);
    pool(at, "pool", faults);
    faults.must_follow(at, "device", syntax::label);
}
