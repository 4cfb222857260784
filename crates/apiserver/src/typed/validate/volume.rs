//! The volumes of a pod.

use std::collections::BTreeSet;

use super::{At, Faults, projected, quantity, storage};
use crate::metadata::syntax;
use crate::status::FieldError;
use crate::typed::Quantity;

/// The types of `hostPath`, sorted.
const HOST_PATHS: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// The volume sources, in the order in which Kubernetes checks them. The first that is set is used.
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

/// Checks the volumes. Returns the names of the valid ones, which containers can mount.
///
/// `pod_name` is `None` for the volumes of a template.
pub(super) fn all(at: At<'_>, pod_name: Option<&str>, faults: &mut Faults) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    at.each("volumes", |at| {
        let before = faults.0.len();
        source(at, pod_name.is_some(), faults);
        let name = at.text("name");
        if let Some(pod) = pod_name {
            claim_name(at, pod, faults);
        }
        faults.needs_valid(at, "name", syntax::label);
        if names.contains(name) {
            faults.add(FieldError::duplicate(at.path("name"), &name.into()));
        }
        if faults.0.len() == before {
            names.insert(name.to_owned());
        }
    });
    names
}

fn source(at: At<'_>, is_pod: bool, faults: &mut Faults) {
    let mut has_source = false;
    for name in SOURCES {
        if at.get(name).is_none() {
            continue;
        }
        if std::mem::replace(&mut has_source, true) {
            faults.forbidden(at.path(name), "may not specify more than 1 volume type");
            continue;
        }
        at.inner(name, |at| {
            files(name, at, faults);
            disk(name, at, is_pod, faults);
        });
    }
}

/// The name of the claim that is created for a volume, if `ephemeral` is the first source.
fn claim_name(at: At<'_>, pod: &str, faults: &mut Faults) {
    let name = at.text("name");
    let mut others = SOURCES.iter().take_while(|source| **source != "ephemeral");
    let is_first = others.all(|source| at.get(source).is_none());
    if at.get("ephemeral").is_none() || !is_first || pod.is_empty() || name.is_empty() {
        return;
    }
    let claim = format!("{pod}-{name}");
    if let Some(why) = syntax::subdomain(&claim) {
        let why = format!("PVC name {claim:?}: {why}");
        faults.invalid(at.path("name"), &name.into(), why);
    }
}

/// A volume with files of the cluster.
fn files(name: &str, at: At<'_>, faults: &mut Faults) {
    match name {
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
            at.each("items", |at| projected::file(at, parent, faults));
        }
        "projected" => {
            mode(at, "defaultMode", faults);
            projected::sources(at, faults);
        }
        _ => {}
    }
}

/// A volume on a disk.
fn disk(name: &str, at: At<'_>, is_pod: bool, faults: &mut Faults) {
    match name {
        "emptyDir" => {
            let size = quantity(&at.value["sizeLimit"]);
            if size.is_some_and(Quantity::is_negative) {
                let why = "SizeLimit field must be a valid resource quantity";
                faults.forbidden(at.path("sizeLimit"), why);
            }
        }
        "hostPath" => host_path(at, faults),
        "nfs" => {
            faults.needs(at, "server");
            faults.needs(at, "path");
            let path = at.text("path");
            if !path.starts_with('/') {
                faults.invalid(at.path("path"), &path.into(), "must be an absolute path");
            }
        }
        "iscsi" => {
            faults.needs(at, "targetPortal");
            faults.needs(at, "iqn");
        }
        "csi" => {
            faults.needs(at, "driver");
            faults.follows(at, "driver", |it| syntax::subdomain(&it.to_lowercase()));
        }
        "ephemeral" => {
            if at.get("volumeClaimTemplate").is_none() {
                faults.required(at.path("volumeClaimTemplate"), "");
            }
            at.inner("volumeClaimTemplate", |at| storage::claim(at, faults));
        }
        "image" => {
            if is_pod {
                faults.needs(at, "reference");
            }
            faults.one_of(at, "pullPolicy", &["Always", "IfNotPresent", "Never"]);
        }
        _ => {}
    }
}

/// A path on a node.
pub(super) fn host_path(at: At<'_>, faults: &mut Faults) {
    if faults.needs(at, "path") {
        faults.follows(at, "path", syntax::no_steps_back);
        faults.one_of(at, "type", &HOST_PATHS);
    }
}

/// The keys of a config map or a secret that become files.
pub(super) fn items(at: At<'_>, faults: &mut Faults) {
    at.each("items", |at| {
        faults.needs(at, "key");
        faults.needs(at, "path");
        faults.follows(at, "path", syntax::file_path);
        mode(at, "mode", faults);
    });
}

pub(super) fn mode(at: At<'_>, field: &str, faults: &mut Faults) {
    if let Some(mode) = at.number(field).filter(|mode| !(0..=0o777).contains(mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        faults.invalid(at.path(field), &mode.into(), why);
    }
}
