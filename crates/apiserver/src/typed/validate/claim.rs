//! Resource claims of devices.

use serde_json::Value;

use super::{At, Faults};
use crate::metadata::syntax;

/// The spec of a claim or of a claim template.
pub(super) fn resource_claim(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        at.inner("devices", |at| {
            at.each("requests", |at| request(at, faults));
        });
    });
}

/// A request for a device, or for the first available one of several.
fn request(at: At<'_>, faults: &mut Faults) {
    faults.must_follow(at, "name", syntax::label);
    let has_several = !at.list("firstAvailable").is_empty();
    match (has_several, at.get("exactly").is_some()) {
        (false, false) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required";
            faults.required(at.path, why);
        }
        (true, true) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple \
                       fields are set";
            faults.invalid(at.path, &Value::Null, why);
        }
        (true, false) => at.each("firstAvailable", |at| {
            faults.must_follow(at, "name", syntax::label);
            class(at, faults);
        }),
        (false, true) => at.inner("exactly", |at| class(at, faults)),
    }
}

/// The device class of a request.
fn class(at: At<'_>, faults: &mut Faults) {
    faults.needs_valid(at, "deviceClassName", syntax::subdomain);
}

/// A slice without its devices, whose rules this server does not have.
pub(super) fn slice(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        faults.needs(at, "driver");
        let flags = ["allNodes", "perDeviceNodeSelection"];
        let is_true = |field: &&str| at.get(field).is_some_and(|flag| *flag == true);
        let has_place = !at.text("nodeName").is_empty()
            || at.get("nodeSelector").is_some()
            || flags.iter().any(is_true);
        if !has_place {
            let why = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, \
                       `perDeviceNodeSelection` is required";
            faults.required(at.path, why);
        }
        for field in flags {
            if let Some(flag) = at.get(field).filter(|flag| **flag == false) {
                let why = "must be either unset or set to true";
                faults.invalid(at.path(field), flag, why);
            }
        }
        at.inner("pool", |at| {
            faults.needs(at, "name");
            let count = at.number("resourceSliceCount").unwrap_or_default();
            if count <= 0 {
                let why = "must be greater than zero";
                faults.invalid(at.path("resourceSliceCount"), &count.into(), why);
            }
            let generation = at.number("generation").unwrap_or_default();
            if generation < 0 {
                let why = "must be greater than or equal to zero";
                faults.invalid(at.path("generation"), &generation.into(), why);
            }
        });
    });
}
