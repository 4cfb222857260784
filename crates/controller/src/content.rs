//! Comparison of two states of an object without a generation, in what handlers work on.

use serde_json::Value;
use windlass_informer::ErasedObject;

/// The fields of `metadata` that change without anybody changing the content.
pub(crate) const NOISE: [&str; 4] = [
    "resourceVersion",
    "managedFields",
    "finalizers",
    "generation",
];

/// Whether `old` and `new` differ in more than `status`, finalizers, and what changes with each
/// write.
///
/// What a store keeps as JSON is compared field by field. Of decoded objects nothing but the
/// metadata can be seen here: a write that changed the finalizers is then taken to have changed
/// nothing else, and any other to have changed the content.
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

/// The object less what is not its content.
fn parse(json: &str) -> Option<Value> {
    let mut value: Value = serde_json::from_str(json).ok()?;
    let object = value.as_object_mut()?;
    object.remove("status");
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in NOISE {
            metadata.remove(field);
        }
    }
    Some(value)
}
