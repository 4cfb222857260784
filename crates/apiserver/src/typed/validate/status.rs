//! The status of objects of the built-in kinds, which the subresource `status` writes.

use serde_json::{Value, json};

use super::{At, Faults, quantity, resources};
use crate::metadata::syntax;
use crate::status::{FieldError, FieldErrorKind};

mod addresses;
mod claim;
mod conditions;
mod counts;
mod indexes;
mod job;
mod pod;

/// Returns the errors of a write of the status of an object of type `name`.
pub(crate) fn validate_status(name: &str, before: &Value, after: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let none = json!({});
    let of = |object: &Value| object.get("status").unwrap_or(&none).clone();
    let (old, new) = (of(before), of(after));
    let [old, at] = [&old, &new].map(|value| At {
        value,
        path: "status",
    });
    match name {
        "admissionregistration.v1.ValidatingAdmissionPolicy" => {
            conditions::check(at, &mut faults);
            at.inner("typeChecking", |at| {
                at.each("expressionWarnings", |at| {
                    faults.needs(at, "warning");
                    faults.needs(at, "fieldRef");
                });
            });
        }
        "batch.v1.Job" => job::status(before, after, old, at, &mut faults),
        "core.v1.Namespace" => namespace(after, at, &mut faults),
        "core.v1.Node" => node(at, &mut faults),
        "core.v1.PersistentVolumeClaim" => volume_claim(at, &mut faults),
        "core.v1.Pod" => pod::status(after, old, at, &mut faults),
        "core.v1.ResourceQuota" => {
            for field in ["hard", "used"] {
                for (name, amount) in at.map(field).into_iter().flatten() {
                    let path = format!("{}[{name}]", at.path(field));
                    resources::quota_name(&path, name, &mut faults);
                    resources::value(&path, name, amount, &mut faults);
                }
            }
        }
        "core.v1.Service" => addresses::service(after, old, at, &mut faults),
        "flowcontrol.v1.FlowSchema" | "flowcontrol.v1.PriorityLevelConfiguration" => {
            conditions::types(at, &mut faults);
        }
        "networking.v1.Ingress" => addresses::ingress(old, at, &mut faults),
        "policy.v1.PodDisruptionBudget" => {
            conditions::check(at, &mut faults);
            counts::check(name, old, at, &mut faults);
        }
        "resource.v1.ResourceClaim" => claim::status(after, old, at, &mut faults),
        "storage.v1.VolumeAttachment" => {
            for field in ["attachError", "detachError"] {
                at.inner(field, |at| not_above_most(at, &["errorCode"], &mut faults));
            }
        }
        _ => counts::check(name, old, at, &mut faults),
    }
    faults.0
}

/// Checks that numbers of users, groups or errors are neither negative nor larger than an `int32`.
fn not_above_most(at: At<'_>, fields: &[&str], faults: &mut Faults) {
    for field in fields {
        if let Some(number) = at.get(field) {
            within_most(at.path(field), number, faults);
        }
    }
}

fn within_most(path: String, number: &Value, faults: &mut Faults) {
    let is_within = |number| (0..=i64::from(i32::MAX)).contains(&number);
    if !number.as_i64().is_some_and(is_within) {
        let why = "must be between 0 and 2147483647, inclusive";
        faults.invalid(path, number, why);
    }
}

/// A namespace is terminating exactly if it is being deleted.
fn namespace(after: &Value, at: At<'_>, faults: &mut Faults) {
    let is_deleted = !after["metadata"]["deletionTimestamp"].is_null();
    let (phase, state) = if is_deleted {
        ("Terminating", "is not empty")
    } else {
        ("Active", "is empty")
    };
    // The path in the error of the real server has a capital letter.
    if at.text("phase") != phase {
        let why = format!("may only be '{phase}' if `deletionTimestamp` {state}");
        faults.invalid("status.Phase", &at.text("phase").into(), why);
    }
}

fn node(at: At<'_>, faults: &mut Faults) {
    for field in ["capacity", "allocatable"] {
        for (name, amount) in at.map(field).into_iter().flatten() {
            let path = format!("{}.{name}", at.path(field));
            resources::value(&path, name, amount, faults);
        }
    }
    let addresses = at.list("addresses");
    for (number, address) in addresses.iter().enumerate() {
        if addresses[..number].contains(address) {
            // The real server shows the fields in this order.
            let (kind, text) = (&address["type"], &address["address"]);
            faults.add(FieldError {
                path: format!("{}[{number}]", at.path("addresses")),
                kind: FieldErrorKind::Duplicate {
                    value: format!("{{\"Type\":{kind},\"Address\":{text}}}"),
                },
                detail: String::new(),
            });
        }
    }
    declared_features(at, faults);
}

/// The features of a node, which are sorted.
fn declared_features(at: At<'_>, faults: &mut Faults) {
    let is_word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let mut before = None;
    for (number, feature) in at.list("declaredFeatures").iter().enumerate() {
        let path = format!("{}[{number}]", at.path("declaredFeatures"));
        let name = feature.as_str().unwrap_or_default();
        let is_upper = name.starts_with(|c: char| c.is_ascii_uppercase());
        if !is_upper || !name.split('/').all(is_word) {
            let why = format!(
                "invalid feature name {name:?}: must start with an UpperCamelCase segment, with \
                 subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), \
                 and contain only alphanumeric characters and slashes"
            );
            faults.invalid(path.as_str(), feature, why);
        }
        match before {
            Some(before) if before == name => faults.add(FieldError::duplicate(path, feature)),
            Some(before) if before > name => {
                faults.invalid(path, feature, "list must be sorted alphabetically");
            }
            _ => {}
        }
        before = Some(name);
    }
}

/// The amounts of a claim of a volume, and the states of its expansion.
fn volume_claim(at: At<'_>, faults: &mut Faults) {
    const STATES: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    for (name, amount) in at.map("capacity").into_iter().flatten() {
        not_negative_amount(at, "capacity", name, amount, faults);
    }
    let states = at.map("allocatedResourceStatuses");
    for (name, state) in states.into_iter().flatten() {
        let path = at.path("allocatedResourceStatuses");
        expanded_resource(&path, name, faults);
        if !state.as_str().is_some_and(|it| STATES.contains(&it)) {
            let name = name.as_str().into();
            faults.add(FieldError::not_supported(path, &name, STATES));
        }
    }
    for (name, amount) in at.map("allocatedResources").into_iter().flatten() {
        let before = faults.0.len();
        expanded_resource(&at.path("allocatedResources"), name, faults);
        if faults.0.len() == before {
            not_negative_amount(at, "allocatedResources", name, amount, faults);
        }
    }
}

fn not_negative_amount(at: At<'_>, field: &str, name: &str, amount: &Value, faults: &mut Faults) {
    if let Some(amount) = quantity(amount).filter(|amount| amount.is_negative()) {
        let path = format!("{}[{name}]", at.path(field));
        let why = "must be a valid resource quantity";
        faults.invalid(path, &amount.rounded().into(), why);
    }
}

/// The name of a resource that a claim of a volume can expand: the storage, or one with a domain.
fn expanded_resource(path: &str, name: &str, faults: &mut Faults) {
    let wrong = syntax::qualified_name(name);
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    if wrong.is_empty() && is_native && name != "storage" {
        faults.add(FieldError::not_supported(path, &name.into(), ["storage"]));
    }
    faults.wrong(path, &name.into(), wrong);
}
