//! Volumes, claims and storage classes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{At, Faults, affinity, quantity, selector, volume};
use crate::metadata::syntax;
use crate::status::FieldError;
use crate::typed::Quantity;

const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

/// The fields of a volume that are not volume sources.
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
                if !quantity(amount).is_some_and(Quantity::is_positive) {
                    faults.invalid(path, amount, "must be greater than zero");
                }
            }
        }
        at.inner("selector", |at| _ = selector::check(at, faults));
        for field in ["dataSource", "dataSourceRef"] {
            at.inner(field, |at| data_source(at, faults));
        }
        faults.follows(at, "storageClassName", syntax::subdomain);
        faults.one_of(at, "volumeMode", &["Block", "Filesystem"]);
    });
}

/// The data source of a claim.
fn data_source(at: At<'_>, faults: &mut Faults) {
    faults.needs(at, "name");
    let kind = at.text("kind");
    faults.needs(at, "kind");
    if at.text("apiGroup").is_empty() && kind != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        faults.invalid(at.path, &kind.into(), why);
    }
    faults.follows(at, "apiGroup", syntax::subdomain);
    faults.follows(at, "namespace", syntax::label);
}

fn access_modes(at: At<'_>, faults: &mut Faults) {
    let is_single = |mode: &Value| mode == "ReadWriteOncePod";
    let modes = at.list("accessModes");
    let known = modes
        .iter()
        .filter(|mode| mode.as_str().is_some_and(|it| ACCESS_MODES.contains(&it)));
    let others = known.filter(|mode| !is_single(mode)).count();
    if modes.iter().any(is_single) && others > 0 {
        let why = "may not use ReadWriteOncePod with other access modes";
        faults.forbidden(at.path("accessModes"), why);
    }
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
        for (name, amount) in capacity.into_iter().flatten() {
            let path = format!("{}[{name}]", at.path("capacity"));
            let found = quantity(amount);
            if found.is_some_and(Quantity::is_negative) {
                // The real server shows a number here, rounded away from zero.
                let whole = found.map(Quantity::rounded).unwrap_or_default();
                let why = "must be a valid resource quantity";
                faults.invalid(path.as_str(), &whole.into(), why);
            }
            if !found.is_some_and(Quantity::is_positive) {
                faults.invalid(path, amount, "must be greater than zero");
            }
        }
        at.inner("nodeAffinity", |at| {
            if at.get("required").is_none() {
                let why = "must specify required node constraints";
                faults.required(at.path("required"), why);
            }
            at.inner("required", |at| affinity::node_selector(at, faults));
        });
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
        at.inner("hostPath", |at| volume::host_path(at, faults));
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
        driver_name(at, "attacher", faults);
        subdomain(at, "nodeName", faults);
        at.inner("source", |at| {
            let has = |field: &str| at.get(field).is_some();
            if has("persistentVolumeName") == has("inlineVolumeSpec") {
                let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
                faults.required(at.path, why);
            } else if has("persistentVolumeName") {
                if at.text("persistentVolumeName").is_empty() {
                    let why = "must specify non empty persistentVolumeName";
                    faults.required(at.path("persistentVolumeName"), why);
                }
                subdomain(at, "persistentVolumeName", faults);
            }
        });
    });
}

/// The name of a CSI driver.
fn driver_name(at: At<'_>, field: &str, faults: &mut Faults) {
    /// The maximum length of the name, in bytes.
    const MOST: usize = 63;
    if faults.needs(at, field) {
        if at.text(field).len() > MOST {
            faults.add(FieldError::too_long(at.path(field), MOST));
        }
        faults.follows(at, field, |name| syntax::subdomain(&name.to_lowercase()));
    }
}

/// The CSI drivers of a node.
pub(super) fn node_drivers(root: At<'_>, faults: &mut Faults) {
    /// The maximum length of a node ID, in bytes.
    const MOST: usize = 256;
    let mut names = BTreeSet::new();
    root.inner("spec", |at| {
        at.each("drivers", |at| {
            driver_name(at, "name", faults);
            if faults.needs(at, "nodeID") && at.text("nodeID").len() > MOST {
                let why = format!("must be {MOST} characters or less");
                faults.invalid(at.path("nodeID"), &at.value["nodeID"], why);
            }
            at.inner("allocatable", |at| faults.not_negative(at, &["count"]));
            let name = at.text("name");
            if !names.insert(name.to_owned()) {
                faults.add(FieldError::duplicate(at.path("name"), &name.into()));
            }
            let keys = at.list("topologyKeys");
            for (number, key) in keys.iter().enumerate() {
                let text = key.as_str().unwrap_or_default();
                if text.is_empty() {
                    faults.required(at.path, "");
                }
                if keys[..number].contains(key) {
                    faults.add(FieldError::duplicate(at.path, key));
                }
                faults.qualified(at.path.to_owned(), text);
            }
        });
    });
}

pub(super) fn attributes_class(at: At<'_>, faults: &mut Faults) {
    driver(at, "driverName", faults);
    if at.map("parameters").is_none_or(serde_json::Map::is_empty) {
        let why = "must contain at least one key/value pair";
        faults.required(at.path("parameters"), why);
    }
}

/// The driver of a class, in `field`, and its parameters.
fn driver(at: At<'_>, field: &str, faults: &mut Faults) {
    if faults.needs(at, field) {
        faults.qualified(at.path(field), &at.text(field).to_lowercase());
    }
    if at.map("parameters").is_some_and(|it| it.contains_key("")) {
        faults.invalid(at.path("parameters"), &"".into(), "field can not be empty.");
    }
}

pub(super) fn class(at: At<'_>, faults: &mut Faults) {
    driver(at, "provisioner", faults);
    at.each("allowedTopologies", |at| {
        let mut keys = BTreeSet::new();
        at.each("matchLabelExpressions", |at| {
            let (key, values) = (at.text("key"), at.list("values"));
            if values.is_empty() {
                faults.required(at.path("values"), "");
            }
            for (number, value) in values.iter().enumerate() {
                if values[..number].contains(value) {
                    let path = format!("{}[{number}]", at.path("values"));
                    faults.add(FieldError::duplicate(path, value));
                }
            }
            faults.qualified(at.path("key"), key);
            if !keys.insert(key.to_owned()) {
                faults.add(FieldError::duplicate(at.path("key"), &key.into()));
            }
        });
    });
    faults.one_of(at, "reclaimPolicy", &["Delete", "Retain"]);
    let modes = ["Immediate", "WaitForFirstConsumer"];
    faults.one_of(at, "volumeBindingMode", &modes);
}
