//! The owners of the number of replicas of an object, as owners of a field of its scale.
//!
//! An apply to a scale is an apply to an object with one field. The managers of this field in the
//! object own `.spec.replicas` of the scale, and the other way around after the apply.
//!
//! Source: apimachinery `pkg/util/managedfields/scalehandler.go` v0.36, for what is translated.

use serde_json::Value;

use super::entries::{self, ManagerId, Managers, Operation, Ownership};
use super::path::PathElement;
use super::set::Set;
use crate::metadata;

/// The number of replicas in a scale.
const REPLICAS: &[&str] = &["spec", "replicas"];

/// Returns the `managedFields` of the scale of `object`, whose number of replicas is at the JSON
/// pointer `wanted`; `None` if no manager owns this number.
pub(crate) fn entries_of_scale(object: &Value, wanted: &str, scale_version: &str) -> Option<Value> {
    let path = path(wanted);
    let owners = managers(object).into_iter();
    let owners = owners.filter(|(_, ownership)| ownership.set.contains(&path));
    let owners = owners.map(|(id, ownership)| {
        let id = in_version(&id, scale_version);
        let ownership = Ownership {
            set: replicas(),
            api_version: scale_version.to_owned(),
            ..ownership
        };
        (id, ownership)
    });
    entries::encode(&owners.collect())
}

/// Returns the `managedFields` of `object`, in version `api_version`, after a write of its scale: the
/// managers of `.spec.replicas` of `scale` own the number at the JSON pointer `wanted`.
///
/// As on kube-apiserver v1.36.3, a manager with updates gets an entry of its own for the number,
/// beside the entry with its other fields, because its name includes the version of the scale. Only
/// a manager of an apply keeps its entry, and a new entry has no time.
pub(crate) fn entries_of_object(
    object: &Value,
    wanted: &str,
    api_version: &str,
    scale: &Value,
) -> Option<Value> {
    let path = path(wanted);
    let mut number = Set::default();
    number.insert(&path);
    let mut owners = managers(scale);

    let mut all = Managers::new();
    for (id, mut ownership) in managers(object) {
        if ownership.set.contains(&path)
            && (id.operation == Operation::Update || owners.remove(&id).is_none())
        {
            ownership.set = ownership.set.difference(&number);
        }
        if !ownership.set.is_empty() {
            all.insert(id, ownership);
        }
    }
    owners.retain(|_, ownership| !ownership.set.intersection(&replicas()).is_empty());
    let owners = owners.into_keys().map(|id| {
        let ownership = Ownership {
            set: number.clone(),
            api_version: api_version.to_owned(),
            time: None,
        };
        (id, ownership)
    });
    all.extend(owners);
    entries::encode(&all)
}

/// Returns the entries of an object; no entries if they cannot be decoded.
fn managers(object: &Value) -> Managers {
    entries::stored(metadata::field(object, "managedFields")).unwrap_or_default()
}

fn replicas() -> Set {
    let mut set = Set::default();
    set.insert_fields(REPLICAS);
    set
}

/// Converts a JSON pointer without escapes to a path.
fn path(pointer: &str) -> Vec<PathElement> {
    pointer.split('/').skip(1).map(PathElement::field).collect()
}

/// Returns the manager with its updates in another version.
fn in_version(id: &ManagerId, version: &str) -> ManagerId {
    let api_version = match id.operation {
        Operation::Apply => String::new(),
        Operation::Update => version.to_owned(),
    };
    ManagerId {
        api_version,
        ..id.clone()
    }
}
