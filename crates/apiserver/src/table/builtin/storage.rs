//! The columns of volumes, claims, and the objects of `storage.k8s.io` and `resource.k8s.io`.

use super::{
    super::{
        Column,
        cells::{self, reference, volume},
    },
    age, column, wide,
};

/// Returns the columns after the name; `None` if another module has them.
pub(super) fn columns(group: &str, plural: &str) -> Option<Vec<Column>> {
    Some(match (group, plural) {
        ("", "persistentvolumes") => volumes(),
        ("", "persistentvolumeclaims") => volume_claims(),
        ("storage.k8s.io", "storageclasses") => storage_classes(),
        ("storage.k8s.io", "csidrivers") => drivers(),
        ("storage.k8s.io", "csinodes") => {
            vec![column("Drivers", "integer", volume::drivers), age()]
        }
        ("storage.k8s.io", "volumeattachments") => volume_attachments(),
        ("storage.k8s.io", "volumeattributesclasses") => vec![
            column("DriverName", "string", |object, _| {
                cells::text(object, "/driverName", "")
            }),
            age(),
        ],
        ("resource.k8s.io", "resourceclaims") => {
            vec![column("State", "string", reference::claim_state), age()]
        }
        ("resource.k8s.io", "resourceslices") => vec![
            column("Node", "string", |object, _| {
                cells::text(object, "/spec/nodeName", "")
            }),
            column("Driver", "string", |object, _| {
                cells::text(object, "/spec/driver", "")
            }),
            column("Pool", "string", |object, _| {
                cells::text(object, "/spec/pool/name", "")
            }),
            age(),
        ],
        _ => return None,
    })
}

fn storage_classes() -> Vec<Column> {
    vec![
        column("Provisioner", "string", |object, _| {
            cells::text(object, "/provisioner", "")
        }),
        column("ReclaimPolicy", "string", |object, _| {
            cells::text(object, "/reclaimPolicy", "Delete")
        }),
        column("VolumeBindingMode", "string", |object, _| {
            cells::text(object, "/volumeBindingMode", "Immediate")
        }),
        column("AllowVolumeExpansion", "string", |object, _| {
            cells::flag(object, "/allowVolumeExpansion")
        }),
        age(),
    ]
}

fn volumes() -> Vec<Column> {
    vec![
        column("Capacity", "string", volume::volume_capacity),
        column("Access Modes", "string", volume::volume_access_modes),
        column("Reclaim Policy", "string", |object, _| {
            cells::text(object, "/spec/persistentVolumeReclaimPolicy", "")
        }),
        column("Status", "string", volume::phase),
        column("Claim", "string", volume::claim),
        column("StorageClass", "string", volume::storage_class),
        attributes_class(),
        column("Reason", "string", |object, _| {
            cells::text(object, "/status/reason", "")
        }),
        age(),
        volume_mode(),
    ]
}

fn volume_claims() -> Vec<Column> {
    vec![
        column("Status", "string", volume::phase),
        column("Volume", "string", |object, _| {
            cells::text(object, "/spec/volumeName", "")
        }),
        column("Capacity", "string", volume::claim_capacity),
        column("Access Modes", "string", volume::claim_access_modes),
        column("StorageClass", "string", volume::storage_class),
        attributes_class(),
        age(),
        volume_mode(),
    ]
}

fn attributes_class() -> Column {
    column("VolumeAttributesClass", "string", |object, _| {
        cells::text(object, "/spec/volumeAttributesClassName", "<unset>")
    })
}

fn volume_mode() -> Column {
    wide("VolumeMode", |object, _| {
        cells::text(object, "/spec/volumeMode", "<unset>")
    })
}

fn drivers() -> Vec<Column> {
    vec![
        column("AttachRequired", "boolean", |object, _| {
            cells::flag(object, "/spec/attachRequired")
        }),
        column("PodInfoOnMount", "boolean", |object, _| {
            cells::flag(object, "/spec/podInfoOnMount")
        }),
        column("StorageCapacity", "boolean", |object, _| {
            cells::flag(object, "/spec/storageCapacity")
        }),
        column("TokenRequests", "string", volume::token_requests),
        column("RequiresRepublish", "boolean", |object, _| {
            cells::flag(object, "/spec/requiresRepublish")
        }),
        column("Modes", "string", volume::lifecycle_modes),
        age(),
    ]
}

fn volume_attachments() -> Vec<Column> {
    let mut attacher = column("Attacher", "string", |object, _| {
        cells::text(object, "/spec/attacher", "")
    });
    "name".clone_into(&mut attacher.format);
    vec![
        attacher,
        column("PV", "string", |object, _| {
            cells::text(object, "/spec/source/persistentVolumeName", "")
        }),
        column("Node", "string", |object, _| {
            cells::text(object, "/spec/nodeName", "")
        }),
        column("Attached", "boolean", |object, _| {
            cells::flag(object, "/status/attached")
        }),
        age(),
    ]
}
