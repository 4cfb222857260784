//! Volumes, claims and storage classes.

use serde_json::Value;

use super::{At, Faults, quantity};
use crate::metadata::syntax;
use crate::status::FieldError;

const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

/// Fields of a volume that are no source of it.
const NO_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

pub(super) fn claim(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        if at.list("accessModes").is_empty() {
            let why = "at least 1 access mode is required";
            faults.required(at.path("accessModes"), why);
        }
        access_modes(at, faults);
        let path = at.path("resources[storage]");
        match at.value.pointer("/resources/requests/storage") {
            None => faults.required(path, ""),
            Some(amount) => {
                if quantity(amount).is_some_and(|amount| amount.nanos() <= 0) {
                    faults.invalid(path, amount, "must be greater than zero");
                }
            }
        }
        faults.follows(at, "storageClassName", syntax::subdomain);
        faults.one_of(at, "volumeMode", &["Block", "Filesystem"]);
    });
}

fn access_modes(at: At<'_>, faults: &mut Faults) {
    for mode in at.list("accessModes") {
        if !mode
            .as_str()
            .is_some_and(|mode| ACCESS_MODES.contains(&mode))
        {
            let path = at.path("accessModes");
            faults.add(FieldError::not_supported(path, mode, ACCESS_MODES));
        }
    }
}

pub(super) fn volume(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        if at.list("accessModes").is_empty() {
            faults.required(at.path("accessModes"), "");
        }
        access_modes(at, faults);
        let capacity = at.map("capacity");
        if capacity.is_none_or(serde_json::Map::is_empty) {
            faults.required(at.path("capacity"), "");
        }
        if capacity.is_none_or(|it| it.len() != 1 || !it.contains_key("storage")) {
            let found = at.get("capacity").unwrap_or(&Value::Null);
            let path = at.path("capacity");
            faults.add(FieldError::not_supported(path, found, ["storage"]));
        }
        let policies = ["Delete", "Recycle", "Retain"];
        faults.one_of(at, "persistentVolumeReclaimPolicy", &policies);
        let sources = at.value.as_object().into_iter().flatten();
        let mut sources = sources
            .filter(|(name, _)| !NO_SOURCE.contains(&name.as_str()))
            .map(|(name, _)| name);
        if sources.next().is_none() {
            faults.required(at.path, "must specify a volume type");
        }
        for name in sources {
            faults.forbidden(at.path(name), "may not specify more than 1 volume type");
        }
        at.inner("hostPath", |at| {
            faults.needs(at, "path");
        });
        faults.follows(at, "storageClassName", syntax::subdomain);
        faults.one_of(at, "volumeMode", &["Block", "Filesystem"]);
    });
}

pub(super) fn attachment(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        let subdomain = |at: At<'_>, field: &str, faults: &mut Faults| {
            let text = at.text(field);
            if let Some(why) = syntax::subdomain(text) {
                faults.invalid(at.path(field), &text.into(), why);
            }
        };
        faults.needs(at, "attacher");
        subdomain(at, "nodeName", faults);
        at.inner("source", |at| {
            if at.get("persistentVolumeName").is_some() || at.get("inlineVolumeSpec").is_none() {
                if at.text("persistentVolumeName").is_empty() {
                    let why = "must specify non empty persistentVolumeName";
                    faults.required(at.path("persistentVolumeName"), why);
                }
                subdomain(at, "persistentVolumeName", faults);
            }
        });
    });
}

pub(super) fn class(at: At<'_>, faults: &mut Faults) {
    faults.needs(at, "provisioner");
    faults.one_of(at, "reclaimPolicy", &["Delete", "Retain"]);
    let modes = ["Immediate", "WaitForFirstConsumer"];
    faults.one_of(at, "volumeBindingMode", &modes);
}
