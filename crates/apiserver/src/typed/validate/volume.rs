//! The volumes of a pod.

use std::collections::BTreeSet;

use super::{At, Faults, storage};
use crate::metadata::syntax;
use crate::status::FieldError;

/// Checks the volumes, and tells the names of those that can be mounted.
pub(super) fn all(at: At<'_>, faults: &mut Faults) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    at.each("volumes", |at| {
        source(at, faults);
        let name = at.text("name");
        let path = at.path("name");
        if name.is_empty() {
            faults.required(path, "");
        } else if let Some(why) = syntax::label(name) {
            faults.invalid(path, &name.into(), why);
        } else if !names.insert(name.to_owned()) {
            faults.add(FieldError::duplicate(path, &name.into()));
        }
    });
    names
}

fn source(at: At<'_>, faults: &mut Faults) {
    // The order in which Kubernetes looks at the sources: the first one counts.
    const SOURCES: [&str; 30] = [
        "emptyDir",
        "hostPath",
        "gitRepo",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "secret",
        "nfs",
        "iscsi",
        "glusterfs",
        "persistentVolumeClaim",
        "rbd",
        "cinder",
        "cephfs",
        "flocker",
        "downwardAPI",
        "fc",
        "azureFile",
        "flexVolume",
        "configMap",
        "vsphereVolume",
        "portworxVolume",
        "quobyte",
        "azureDisk",
        "storageos",
        "photonPersistentDisk",
        "projected",
        "scaleIO",
        "csi",
        "ephemeral",
        "image",
    ];
    let mut has_source = false;
    for name in SOURCES {
        if at.get(name).is_none() {
            continue;
        }
        if std::mem::replace(&mut has_source, true) {
            faults.forbidden(at.path(name), "may not specify more than 1 volume type");
            continue;
        }
        at.inner(name, |at| match name {
            "hostPath" => {
                faults.needs(at, "path");
            }
            "secret" => {
                faults.needs(at, "secretName");
                mode(at, "defaultMode", faults);
                items(at, faults);
            }
            "configMap" => {
                faults.needs(at, "name");
                mode(at, "defaultMode", faults);
                items(at, faults);
            }
            "persistentVolumeClaim" => {
                faults.needs(at, "claimName");
            }
            "downwardAPI" => {
                mode(at, "defaultMode", faults);
                let parent = at.path;
                at.each("items", |at| {
                    at.inner("fieldRef", |at| {
                        if at.text("fieldPath").is_empty() {
                            // The path is that of the real server, which names no item.
                            faults.required(format!("{parent}.fieldRef.fieldPath"), "");
                        }
                    });
                });
            }
            "projected" => mode(at, "defaultMode", faults),
            "nfs" => {
                faults.needs(at, "server");
                faults.needs(at, "path");
            }
            "csi" => {
                faults.needs(at, "driver");
            }
            "ephemeral" => at.inner("volumeClaimTemplate", |at| storage::claim(at, faults)),
            _ => {}
        });
    }
}

fn items(at: At<'_>, faults: &mut Faults) {
    at.each("items", |at| {
        faults.needs(at, "key");
        faults.needs(at, "path");
        mode(at, "mode", faults);
    });
}

fn mode(at: At<'_>, field: &str, faults: &mut Faults) {
    if let Some(mode) = at.number(field).filter(|mode| !(0..=0o777).contains(mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        faults.invalid(at.path(field), &mode.into(), why);
    }
}
