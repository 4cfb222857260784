//! Parcels: each one is a `ConfigMap` with a label, an address and an optional note.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;

/// The label selector that selects parcels.
pub(crate) const LABEL: &str = "example=parcel";

pub(crate) fn new(name: &str, to: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("example".to_owned(), "parcel".to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some([("to".to_owned(), to.to_owned())].into()),
        ..ConfigMap::default()
    }
}

pub(crate) fn name(parcel: &ConfigMap) -> &str {
    parcel.metadata.name.as_deref().unwrap_or_default()
}

/// The address.
pub(crate) fn to(parcel: &ConfigMap) -> &str {
    field(parcel, "to").unwrap_or("nowhere")
}

pub(crate) fn note(parcel: &ConfigMap) -> Option<&str> {
    field(parcel, "note")
}

fn field<'a>(parcel: &'a ConfigMap, name: &str) -> Option<&'a str> {
    parcel.data.as_ref()?.get(name).map(String::as_str)
}
