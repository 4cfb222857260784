//! The columns of volumes, claims, and the objects of `storage.k8s.io` and `resource.k8s.io`.

use std::borrow::Cow;

use super::super::Cell::{Flag, Read, Text};
use super::super::{
    Column,
    cells::{reference, volume},
};
use super::{AGE, NAME, column, wide};

pub(crate) const NODE_DRIVERS: &[Column] = &[
    NAME,
    column("Drivers", "integer", Read(volume::drivers)),
    AGE,
];

pub(crate) const ATTRIBUTES_CLASSES: &[Column] = &[
    NAME,
    column("DriverName", "string", Text("/driverName", "")),
    AGE,
];

pub(crate) const RESOURCE_CLAIMS: &[Column] = &[
    NAME,
    column("State", "string", Read(reference::claim_state)),
    AGE,
];

pub(crate) const RESOURCE_SLICES: &[Column] = &[
    NAME,
    column("Node", "string", Text("/spec/nodeName", "")),
    column("Driver", "string", Text("/spec/driver", "")),
    column("Pool", "string", Text("/spec/pool/name", "")),
    AGE,
];

pub(crate) const STORAGE_CLASSES: &[Column] = &[
    NAME,
    column("Provisioner", "string", Text("/provisioner", "")),
    column("ReclaimPolicy", "string", Text("/reclaimPolicy", "Delete")),
    column(
        "VolumeBindingMode",
        "string",
        Text("/volumeBindingMode", "Immediate"),
    ),
    column(
        "AllowVolumeExpansion",
        "string",
        Flag("/allowVolumeExpansion"),
    ),
    AGE,
];

pub(crate) const VOLUMES: &[Column] = &[
    NAME,
    column("Capacity", "string", Read(volume::volume_capacity)),
    column("Access Modes", "string", Read(volume::volume_access_modes)),
    column(
        "Reclaim Policy",
        "string",
        Text("/spec/persistentVolumeReclaimPolicy", ""),
    ),
    column("Status", "string", Read(volume::phase)),
    column("Claim", "string", Read(volume::claim)),
    column("StorageClass", "string", Read(volume::storage_class)),
    ATTRIBUTES_CLASS,
    column("Reason", "string", Text("/status/reason", "")),
    AGE,
    VOLUME_MODE,
];

pub(crate) const VOLUME_CLAIMS: &[Column] = &[
    NAME,
    column("Status", "string", Read(volume::phase)),
    column("Volume", "string", Text("/spec/volumeName", "")),
    column("Capacity", "string", Read(volume::claim_capacity)),
    column("Access Modes", "string", Read(volume::claim_access_modes)),
    column("StorageClass", "string", Read(volume::storage_class)),
    ATTRIBUTES_CLASS,
    AGE,
    VOLUME_MODE,
];

const ATTRIBUTES_CLASS: Column = column(
    "VolumeAttributesClass",
    "string",
    Text("/spec/volumeAttributesClassName", "<unset>"),
);

const VOLUME_MODE: Column = wide("VolumeMode", Text("/spec/volumeMode", "<unset>"));

pub(crate) const DRIVERS: &[Column] = &[
    NAME,
    column("AttachRequired", "boolean", Flag("/spec/attachRequired")),
    column("PodInfoOnMount", "boolean", Flag("/spec/podInfoOnMount")),
    column("StorageCapacity", "boolean", Flag("/spec/storageCapacity")),
    column("TokenRequests", "string", Read(volume::token_requests)),
    column(
        "RequiresRepublish",
        "boolean",
        Flag("/spec/requiresRepublish"),
    ),
    column("Modes", "string", Read(volume::lifecycle_modes)),
    AGE,
];

pub(crate) const VOLUME_ATTACHMENTS: &[Column] = &[
    NAME,
    Column {
        name: Cow::Borrowed("Attacher"),
        kind: Cow::Borrowed("string"),
        format: Cow::Borrowed("name"),
        description: Cow::Borrowed(""),
        priority: 0,
        cell: Text("/spec/attacher", ""),
    },
    column(
        "PV",
        "string",
        Text("/spec/source/persistentVolumeName", ""),
    ),
    column("Node", "string", Text("/spec/nodeName", "")),
    column("Attached", "boolean", Flag("/status/attached")),
    AGE,
];
