//! Compares the content of two states of an object that has no generation.

use serde_json::Value;
use windlass_informer::ErasedObject;

/// The fields of `metadata` that change although the content does not.
pub(crate) const IGNORED_METADATA: [&str; 4] = [
    "resourceVersion",
    "managedFields",
    "finalizers",
    "generation",
];

/// Whether `old` and `new` differ in more than the status, the finalizers, and the fields that
/// change with each write.
///
/// Objects that are kept as JSON are compared field by field. Of decoded objects only the metadata
/// are visible here: a write that changed the finalizers counts as no change of content, and any
/// other write as a change.
pub(crate) fn differs(old: &dyn ErasedObject, new: &dyn ErasedObject) -> bool {
    if let Some((old, new)) = old.json().zip(new.json()) {
        return match (parse(old), parse(new)) {
            (Some(old), Some(new)) => old != new,
            _ => true,
        };
    }
    let (old, new) = (old.metadata(), new.metadata());
    old.labels != new.labels
        || old.annotations != new.annotations
        || old.owner_references != new.owner_references
        || (old.finalizers == new.finalizers && old.resource_version != new.resource_version)
}

/// Parses the content of an object.
fn parse(json: &str) -> Option<Value> {
    let mut value: Value = serde_json::from_str(json).ok()?;
    let object = value.as_object_mut()?;
    object.remove("status");
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in IGNORED_METADATA {
            metadata.remove(field);
        }
    }
    Some(value)
}
