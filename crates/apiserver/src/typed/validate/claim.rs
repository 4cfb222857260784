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
