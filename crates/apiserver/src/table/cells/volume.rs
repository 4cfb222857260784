//! The cells of volumes, their claims, and the objects of CSI drivers.

use jiff::Timestamp;
use serde_json::Value;

use super::{list_at, str_at, text, text_at};

/// The deprecated annotation with the storage class, which the field replaces.
const CLASS_ANNOTATION: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";

/// The access modes in the order of kubectl, and their abbreviations.
const ACCESS_MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

pub(in super::super) fn phase(object: &Value, _: Timestamp) -> Value {
    if crate::metadata::field(object, "deletionTimestamp").is_some() {
        return "Terminating".into();
    }
    text(object, "/status/phase", "")
}

pub(in super::super) fn storage_class(object: &Value, _: Timestamp) -> Value {
    let annotation = object.pointer(CLASS_ANNOTATION).and_then(Value::as_str);
    annotation
        .unwrap_or_else(|| str_at(object, "/spec/storageClassName", ""))
        .into()
}

pub(in super::super) fn volume_capacity(object: &Value, _: Timestamp) -> Value {
    quantity(object, "/spec/capacity/storage")
}

pub(in super::super) fn volume_access_modes(object: &Value, _: Timestamp) -> Value {
    access_modes(object, "/spec/accessModes")
}

/// Returns the claim of a volume, as `namespace/name`.
pub(in super::super) fn claim(object: &Value, _: Timestamp) -> Value {
    let Some(claim) = object.pointer("/spec/claimRef").filter(|it| !it.is_null()) else {
        return "".into();
    };
    let namespace = str_at(claim, "/namespace", "");
    format!("{namespace}/{}", str_at(claim, "/name", "")).into()
}

/// Returns the capacity of a claim that has a volume.
pub(in super::super) fn claim_capacity(object: &Value, _: Timestamp) -> Value {
    if str_at(object, "/spec/volumeName", "").is_empty() {
        return "".into();
    }
    quantity(object, "/status/capacity/storage")
}

/// Returns the access modes of a claim that has a volume.
pub(in super::super) fn claim_access_modes(object: &Value, _: Timestamp) -> Value {
    if str_at(object, "/spec/volumeName", "").is_empty() {
        return "".into();
    }
    access_modes(object, "/status/accessModes")
}

fn quantity(object: &Value, pointer: &str) -> Value {
    text_at(object, pointer)
        .unwrap_or_else(|| "0".to_owned())
        .into()
}

fn access_modes(object: &Value, pointer: &str) -> Value {
    let modes = list_at(object, pointer);
    let shown = ACCESS_MODES
        .iter()
        .filter(|(mode, _)| modes.iter().any(|it| it == mode))
        .map(|(_, short)| *short);
    shown.collect::<Vec<_>>().join(",").into()
}

pub(in super::super) fn drivers(object: &Value, _: Timestamp) -> Value {
    list_at(object, "/spec/drivers").len().into()
}

/// Returns the audiences of the tokens that a driver requests.
pub(in super::super) fn token_requests(object: &Value, _: Timestamp) -> Value {
    let requests = list_at(object, "/spec/tokenRequests").iter();
    let audiences = requests.map(|request| str_at(request, "/audience", ""));
    let audiences: Vec<_> = audiences.collect();
    if audiences.is_empty() {
        return "<unset>".into();
    }
    audiences.join(",").into()
}

pub(in super::super) fn lifecycle_modes(object: &Value, _: Timestamp) -> Value {
    let modes = list_at(object, "/spec/volumeLifecycleModes").iter();
    let modes: Vec<_> = modes.filter_map(Value::as_str).collect();
    if modes.is_empty() {
        return "<unset>".into();
    }
    modes.join(",").into()
}
