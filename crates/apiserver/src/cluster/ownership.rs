//! Updates the `managedFields` of an object for a request.

use serde_json::{Map, Value};

use super::Part;
use super::strategy::{DEPLOYMENTS, SIGNING_REQUESTS};
use crate::managed::{self, Write};
use crate::metadata;
use crate::registry::{Resource, View};
use crate::wire::WriteOptions;

/// The write that a request makes to a part of an object.
pub(super) fn write<'a>(
    resource: &'a Resource,
    part: Part,
    options: &'a WriteOptions,
    now: &'a str,
) -> Write<'a> {
    Write {
        manager: &options.manager,
        api_version: resource.api_version(),
        kind: &resource.info.kind,
        subresource: match part {
            Part::Main => "",
            Part::Status => "status",
            Part::Finalize => "finalize",
            Part::Scale => "scale",
            Part::EphemeralContainers => "ephemeralcontainers",
            Part::Resize => "resize",
            Part::Approval => "approval",
        },
        now,
        ignored: match part {
            Part::Status if resource.rules.status_alone => &[&["metadata"], &["spec"]],
            Part::Status if &*resource.table == DEPLOYMENTS => {
                &[&["metadata", "labels"], &["spec"]]
            }
            Part::Status => &[&["spec"]],
            Part::Approval => &[&["spec"], &["status", "certificate"]],
            Part::Main if &*resource.table == SIGNING_REQUESTS => &[&["spec"], &["status"]],
            Part::Main if !resource.has_subresource("status") => &[],
            _ => &[&["status"]],
        },
    }
}

/// Updates the `managedFields` of `object` after a request that changed it from `live`, which is
/// `null` for a new object. Both have the form in which objects are stored.
pub(super) fn track(
    resource: &Resource,
    part: Part,
    live: &Value,
    object: &mut Value,
    options: &WriteOptions,
    now: &str,
) {
    // Empty lists in the metadata of a custom resource are dropped earlier, so that only a list
    // with one empty entry drops all entries there.
    let list = metadata::field(object, "managedFields");
    if resource.info.custom && list == Some(&Value::Array(Vec::new())) {
        metadata::of(object).remove("managedFields");
    }
    let write = write(resource, part, options, now);
    let empty = Value::Object(Map::new());
    let live = if live.is_null() { &empty } else { live };
    if resource.view == View::Same {
        managed::track(live, object, resource, &write);
        return;
    }
    // Fields are owned by the names that they have in the version of the request.
    let mut shown = resource.members(object);
    managed::track(&resource.members(live), &mut shown, resource, &write);
    resource.view.store(&mut shown);
    *object = shown;
}

/// Replaces the `managedFields` of `object`.
pub(super) fn set_entries(object: &mut Value, entries: Option<Value>) {
    let metadata = metadata::of(object);
    metadata.remove("managedFields");
    metadata.extend(entries.map(|entries| ("managedFields".to_owned(), entries)));
}

/// Keeps the times of entries if a request changed nothing else.
pub(super) fn keep_times(object: &mut Value, before: &Value) {
    let entries = |object: &Value| metadata::field(object, "managedFields").cloned();
    let (Some(old), Some(new)) = (entries(before), entries(object)) else {
        return;
    };
    if old == new || !managed::same_but_for_times(&old, &new) {
        return;
    }
    let field = "managedFields".to_owned();
    metadata::of(object).insert(field.clone(), old);
    if object != before {
        metadata::of(object).insert(field, new);
    }
}
