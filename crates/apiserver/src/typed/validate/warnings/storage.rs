//! Warnings about volumes, claims and the storage of pods.

use super::super::{At, quantity};
use super::Warnings;

/// The volumes that have been removed from Kubernetes, with the field's name in warnings. A
/// persistent volume has no warning about the last ones.
pub(super) const OLD_VOLUMES: [(&str, &str, &str); 8] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "rbd",
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
];

/// The number of [`OLD_VOLUMES`] about which a persistent volume has a warning.
const OLD_PERSISTENT_VOLUMES: usize = 6;

/// The old annotation with the storage class of a volume or claim.
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

impl Warnings {
    /// Warns about the spec of a claim.
    pub(super) fn claim(&mut self, spec: At<'_>) {
        spec.inner("resources", |at| {
            at.inner("requests", |at| self.fraction(at, "storage"));
        });
    }

    /// Warns if a quantity of bytes is not whole.
    pub(super) fn fraction(&mut self, list: At<'_>, name: &str) {
        let Some(value) = list.get(name) else {
            return;
        };
        if quantity(value).is_some_and(|quantity| !quantity.is_whole()) {
            let text = value.as_str().unwrap_or_default();
            let why = format!("fractional byte value {text:?} is invalid, must be an integer");
            self.add(&format!("{}[{name}]", list.path), &why);
        }
    }

    pub(super) fn storage_class(&mut self, root: At<'_>) {
        let why = "deprecated since v1.8; use \"storageClassName\" attribute instead";
        self.annotation(root, STORAGE_CLASS, why);
    }

    pub(super) fn volume(&mut self, root: At<'_>) {
        self.storage_class(root);
        root.inner("spec", |at| {
            if at.text("persistentVolumeReclaimPolicy") == "Recycle" {
                let why = "The Recycle reclaim policy is deprecated. Instead, the recommended \
                    approach is to use dynamic provisioning.";
                self.add(&at.path("persistentVolumeReclaimPolicy"), why);
            }
            at.inner("nodeAffinity", |at| {
                at.inner("required", |at| {
                    at.each("nodeSelectorTerms", |at| self.expressions(at));
                });
            });
            for (field, name, why) in &OLD_VOLUMES[..OLD_PERSISTENT_VOLUMES] {
                if at.get(field).is_some() {
                    self.add(&at.path(name), why);
                }
            }
        });
    }
}
