//! The sizes that a JSON Patch reaches, which are limited as on the real server.

use json_patch::PatchOperation;
use json_patch::jsonptr::Pointer;
use serde_json::Value;

/// The maximum size that the `copy` operations of one patch add, in bytes of JSON: the maximum size
/// of a body, as in kube-apiserver.
pub(super) const MAX_COPIED: usize = 3 * 1024 * 1024;

/// The maximum depth of an object, which is that of a body.
pub(super) const MAX_DEPTH: usize = 128;

/// The maximum number of values that the operations of one patch visit to determine the depth of the
/// object, or shift in lists. They take less than a second. An object has at most 1.5 million values,
/// and is visited only if its depth is near the maximum.
pub(super) const MAX_STEPS: usize = 10_000_000;

/// The number of list items that are shifted in the time of a visit of one value.
pub(super) const SHIFTED_IN_A_STEP: usize = 4;

/// Returns an upper bound of the depth of the values that `operation` writes, in an object of the
/// depth `deepest`. Does not visit values of the object.
pub(super) fn reach(operation: &PatchOperation, deepest: usize) -> usize {
    match operation {
        PatchOperation::Add(add) => levels(add.path.as_str()) + depth(&add.value),
        PatchOperation::Replace(replace) => levels(replace.path.as_str()) + depth(&replace.value),
        PatchOperation::Copy(copy) => levels(copy.path.as_str()).saturating_add(deepest),
        PatchOperation::Move(from) => levels(from.path.as_str()).saturating_add(deepest),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => 0,
    }
}

/// Returns the exact depth, for which it visits values of the object; `None` if this takes more than
/// `steps`.
pub(super) fn exact_reach(
    object: &Value,
    operation: &PatchOperation,
    steps: &mut usize,
) -> Option<usize> {
    let (from, to) = match operation {
        PatchOperation::Copy(copy) => (copy.from.as_str(), copy.path.as_str()),
        PatchOperation::Move(from) => (from.from.as_str(), from.path.as_str()),
        operation => return Some(reach(operation, 0)),
    };
    let value = object.pointer(from);
    let depth = value.map_or(Some(0), |value| depth_within(value, steps))?;
    Some(levels(to).saturating_add(depth))
}

/// Returns the maximum number of list items that `operation` shifts.
pub(super) fn shifted(object: &Value, operation: &PatchOperation) -> usize {
    let items = |pointer: &Pointer| {
        let list = (pointer.as_str().rsplit_once('/'))
            // An item at the end shifts no other item.
            .filter(|(_, last)| *last != "-")
            .and_then(|(list, _)| object.pointer(list)?.as_array());
        list.map_or(0, Vec::len)
    };
    match operation {
        PatchOperation::Add(add) => items(&add.path),
        PatchOperation::Copy(copy) => items(&copy.path),
        PatchOperation::Move(from) => items(&from.from).saturating_add(items(&from.path)),
        PatchOperation::Remove(remove) => items(&remove.path),
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    }
}

/// Returns the depth of `pointer`.
fn levels(pointer: &str) -> usize {
    pointer.bytes().filter(|byte| *byte == b'/').count()
}

/// Returns the depth of `value`; 0 for a scalar and for an empty list or object.
pub(super) fn depth(value: &Value) -> usize {
    depth_within(value, &mut usize::MAX.clone()).unwrap_or(usize::MAX)
}

/// Returns the depth of `value`, and takes the number of its values from `steps`; `None` if it has
/// more.
pub(super) fn depth_within(value: &Value, steps: &mut usize) -> Option<usize> {
    *steps = steps.checked_sub(1)?;
    let mut deepest = 0;
    let mut inner = |value| {
        deepest = deepest.max(depth_within(value, steps)?);
        Some(())
    };
    match value {
        Value::Array(items) => items.iter().try_for_each(&mut inner)?,
        Value::Object(members) => members.values().try_for_each(&mut inner)?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Some(0),
    }
    Some(deepest + 1)
}

/// Returns the size of `value` in bytes of JSON.
pub(super) fn json_size(value: &Value) -> usize {
    /// Counts the written bytes.
    struct Count(usize);

    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    // Neither the serialization of a `Value` nor the writer can fail.
    _ = serde_json::to_writer(&mut count, value);
    count.0
}
