//! The part of an object that a request can change.

use serde_json::Value;

use super::super::strategy::{self, signing};
use super::super::{NAMESPACES, ownership, pods};
use crate::metadata;
use crate::registry::Resource;
use crate::status::FieldError;

/// The part of an object that a request can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All fields, except the status if it is a subresource.
    Main,
    /// The status.
    Status,
    /// The finalizers in the spec of a namespace.
    Finalize,
    /// The number of desired replicas of a workload.
    Scale,
    /// The ephemeral containers of a pod.
    EphemeralContainers,
    /// The resources of the containers of a pod.
    Resize,
    /// The approval conditions of a certificate signing request.
    Approval,
}

/// The errors of a write to a subresource that its own rules reject.
pub(super) fn check_part(
    part: Part,
    resource: &Resource,
    before: &Value,
    object: &Value,
) -> Vec<FieldError> {
    match part {
        Part::EphemeralContainers => pods::check_ephemeral(before, object),
        Part::Resize => pods::check_resize(before, object),
        Part::Finalize => metadata::validate_namespace_finalizers(object, false),
        Part::Approval => signing::check(before, object, true),
        Part::Status if &*resource.table == strategy::SIGNING_REQUESTS => {
            signing::check(before, object, false)
        }
        _ => Vec::new(),
    }
}

/// Combines the part `part` of `object` with the other parts of the old object.
pub(super) fn limit_to(
    part: Part,
    resource: &Resource,
    before: &Value,
    mut object: Value,
) -> Value {
    let copy = |from: &Value, to: &mut Value, field: &str| match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => _ = to.as_object_mut().map(|to| to.remove(field)),
    };
    match part {
        Part::Main | Part::Scale => {
            if resource.has_subresource("status") {
                copy(before, &mut object, "status");
            }
            // The spec of a namespace is only changed by a subresource. The spec of a certificate
            // signing request is immutable, because it contains the identity of its creator.
            if [NAMESPACES, strategy::SIGNING_REQUESTS].contains(&&*resource.table) {
                copy(before, &mut object, "spec");
            }
            object
        }
        Part::Status
        | Part::Finalize
        | Part::EphemeralContainers
        | Part::Resize
        | Part::Approval => {
            let mut whole = before.clone();
            match part {
                Part::Status if !resource.rules.status_alone => {
                    copy(&object, &mut whole, "status");
                    copy(&object, &mut whole, "metadata");
                }
                Part::Status => {
                    copy(&object, &mut whole, "status");
                    // It is checked although the other metadata is ignored.
                    let uid = metadata::text(&object, "uid");
                    if !uid.is_empty() {
                        metadata::of(&mut whole).insert("uid".to_owned(), uid.into());
                    }
                }
                Part::Resize => pods::copy_resources(&object, &mut whole["spec"]),
                Part::Approval => {
                    copy(&object["status"], &mut whole["status"], "conditions");
                    copy(&object, &mut whole, "metadata");
                }
                Part::EphemeralContainers => {
                    copy(&object["spec"], &mut whole["spec"], "ephemeralContainers");
                }
                _ => {
                    copy(&object, &mut whole, "spec");
                    copy(&object, &mut whole, "metadata");
                }
            }
            // The managedFields of the request include the ownership of the changed part.
            let entries = metadata::of(&mut object).remove("managedFields");
            ownership::set_entries(&mut whole, entries);
            whole
        }
    }
}
