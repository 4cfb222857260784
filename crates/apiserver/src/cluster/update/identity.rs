//! Checks that an object is the one that the request names: its name, kind, uid and version.

use serde_json::Value;

use super::super::decode;
use crate::metadata;
use crate::patch::Patch;
use crate::registry::Resource;
use crate::status::{About, FieldError, Status};
use crate::store::Key;
use crate::typed;
use crate::wire::resource_version;

/// The resourceVersion in an update, which is its precondition.
pub(in super::super) fn sent_version(object: &Value) -> Result<Option<u64>, Status> {
    resource_version(metadata::text(object, "resourceVersion")).map_err(Status::untyped)
}

/// The error of a write to the object with the uid `sent` if the object has the uid `found`.
pub(super) fn wrong_uid(
    resource: &Resource,
    key: &Key,
    dry_run: bool,
    [sent, found]: [&str; 2],
) -> Status {
    let detail = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {sent}, UID in object meta: {found}",
        registry_path(resource, key, dry_run),
    );
    Status::conflict(&resource.about(&key.name), &detail)
}

/// The etcd key of an object on the real server, which the error of a wrong uid shows.
fn registry_path(resource: &Resource, key: &Key, dry_run: bool) -> String {
    let group = if resource.info.custom {
        resource.info.group.as_str()
    } else {
        ""
    };
    let resource = match &*resource.table {
        "services" => "services/specs",
        "endpoints" => "services/endpoints",
        "nodes" => "minions",
        "replicationcontrollers" => "controllers",
        _ => &resource.info.plural,
    };
    // A dry run does not reach the storage layer, which adds the prefix.
    let root = if dry_run { "" } else { "registry" };
    let parts = [root, group, resource, &key.namespace, &key.name];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.fold(String::new(), |path, part| path + "/" + part)
}

/// Validates the kind and the version of a patched object. A strategic merge patch does not change
/// them.
///
/// # Errors
///
/// 422 if another patch has changed them, or has removed the kind of a custom resource; 500 if it
/// has removed the version of one.
pub(super) fn check_kind(
    resource: &Resource,
    patch: &Patch,
    object: &mut Value,
) -> Result<(), Status> {
    let expected = &resource.info.kind;
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if resource.info.custom {
        if kind.is_empty() {
            let why = "Object 'Kind' is missing";
            return Err(Status::patch_invalid(&patch.shown(object), why));
        }
        if api_version.is_empty() {
            let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
            return Err(Status::internal(why));
        }
        let mut errors = Vec::new();
        let fields = [
            ("kind", kind, expected.as_str()),
            ("apiVersion", api_version, resource.api_version()),
        ];
        for (field, value, expected) in fields {
            if value != expected {
                let why = format!("must be {expected}");
                errors.push(FieldError::invalid(field, &value.into(), why));
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        let about = About {
            group: api_version.split_once('/').map_or("", |(group, _)| group),
            resource: "",
            kind,
            name: metadata::text(object, "name"),
        };
        return Err(Status::invalid(&about, &errors));
    }
    if matches!(patch, Patch::Strategic(_)) {
        for (field, value) in [("apiVersion", resource.api_version()), ("kind", expected)] {
            if object[field].is_string() {
                object[field] = value.into();
            }
        }
    } else if !kind.is_empty() && kind != expected {
        let why = if typed::kind(api_version, kind).is_some() {
            format!("{kind} in version {api_version:?} cannot be handled as a {expected}")
        } else {
            format!(
                "no kind {kind:?} is registered for version {api_version:?} {}",
                decode::SCHEME
            )
        };
        return Err(Status::patch_invalid(&patch.shown(object), &why));
    }
    Ok(())
}

pub(in super::super) fn check_name(key: &Key, object: &Value) -> Result<(), Status> {
    let name = metadata::text(object, "name");
    if name == &*key.name {
        return Ok(());
    }
    Err(Status::bad_request(if name.is_empty() {
        format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            key.name
        )
    } else {
        format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )
    }))
}
