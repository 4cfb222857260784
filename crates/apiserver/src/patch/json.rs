//! JSON patches, as lenient as in Kubernetes, with limits on the result.
//!
//! RFC 6902 requires that a replaced or tested member exists. Kubernetes reads a missing member as
//! `null`: it may be replaced, and tested for `null`. It parses the index of a list like a number
//! in Go, and a negative index counts from the end: `-1` is the last item, or, where a value is
//! added, the position after it.
//!
//! A short patch can create a huge object: each `copy` of an object into itself doubles its size. So
//! the size that `copy` adds is limited, as in kube-apiserver, and so is the depth of values. The
//! values that operations read or move are limited too.
//!
//! Source: measured on kube-apiserver v1.36.3.

use std::borrow::Cow;

use json_patch::jsonptr::{Pointer, PointerBuf};
use json_patch::{AddOperation, Patch, PatchError, PatchOperation, RemoveOperation};
use serde_json::Value;

mod limits;

use self::limits::{
    MAX_COPIED, MAX_DEPTH, MAX_STEPS, SHIFTED_IN_A_STEP, depth, depth_within, exact_reach,
    json_size, reach, shifted,
};

/// The reason why a patch was not applied. The object has not changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApplyError {
    /// The path of an operation does not exist, or a test failed.
    #[error(transparent)]
    Operation(#[from] PatchError),
    /// An operation would change the whole document, which Kubernetes does not support.
    #[error("an operation of a JSON patch has no path")]
    Root,
    /// The `copy` operations exceed the maximum size.
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {size}, exceeding \
         the limit {MAX_COPIED}"
    )]
    Copied {
        /// The size that the operations up to this one add, in bytes of JSON.
        size: usize,
    },
    /// An operation creates a value that exceeds the maximum depth.
    #[error("Unable to apply the operation, the object would nest deeper than {MAX_DEPTH} levels")]
    Depth,
    /// All operations together take too long.
    #[error(
        "Unable to apply the operations, together they visit or shift more than {MAX_STEPS} values"
    )]
    Steps,
}

/// Applies the operations to `object`, which is not changed if one of them fails.
pub(super) fn apply(object: &mut Value, patch: &Patch) -> Result<(), ApplyError> {
    let mut changed = object.clone();
    let mut copied: usize = 0;
    let mut deepest = depth(&changed);
    let mut steps = MAX_STEPS;
    for operation in &patch.0 {
        let operation = &*with_indices(&changed, operation);
        if let PatchOperation::Copy(copy) = operation
            && let Some(value) = changed.pointer(copy.from.as_str())
        {
            copied = copied.saturating_add(json_size(value));
            if copied > MAX_COPIED {
                return Err(ApplyError::Copied { size: copied });
            }
        }
        let shifted = shifted(&changed, operation) / SHIFTED_IN_A_STEP;
        steps = steps.checked_sub(shifted).ok_or(ApplyError::Steps)?;
        deepest = deepest.max(reach(operation, deepest));
        if deepest > MAX_DEPTH {
            // The estimate can be too high: the moved value may not be the deepest one.
            let exact = exact_reach(&changed, operation, &mut steps).ok_or(ApplyError::Steps)?;
            let whole = depth_within(&changed, &mut steps).ok_or(ApplyError::Steps)?;
            deepest = exact.max(whole);
            if deepest > MAX_DEPTH {
                return Err(ApplyError::Depth);
            }
        }
        let whole = match operation {
            PatchOperation::Add(add) => Some(&add.path),
            PatchOperation::Remove(remove) => Some(&remove.path),
            PatchOperation::Replace(replace) => Some(&replace.path),
            _ => None,
        };
        if whole.is_some_and(|path| path.is_root()) {
            // In contrast to RFC 6902, an operation cannot change the whole document.
            return Err(ApplyError::Root);
        }
        match operation {
            PatchOperation::Replace(replace) if lacks(&changed, replace.path.as_str()) => {
                let add = AddOperation {
                    path: replace.path.clone(),
                    value: replace.value.clone(),
                };
                json_patch::patch(&mut changed, &[PatchOperation::Add(add)])?;
            }
            PatchOperation::Test(test)
                if test.value.is_null() && lacks(&changed, test.path.as_str()) => {}
            PatchOperation::Move(from) if has_other_index(&from.path) => {
                // The index applies to the list without the value.
                let value = changed.pointer_mut(from.from.as_str()).map(Value::take);
                let remove = RemoveOperation {
                    path: from.from.clone(),
                };
                json_patch::patch(&mut changed, &[PatchOperation::Remove(remove)])?;
                let add = AddOperation {
                    path: from.path.clone(),
                    value: value.unwrap_or_default(),
                };
                let add = PatchOperation::Add(add);
                let add = with_indices(&changed, &add).into_owned();
                json_patch::patch(&mut changed, &[add])?;
            }
            operation => json_patch::patch(&mut changed, std::slice::from_ref(operation))?,
        }
    }
    *object = changed;
    Ok(())
}

/// Returns `operation` with list indices in the form of RFC 6901, except in the path of a move, which
/// applies to the list without the value.
fn with_indices<'a>(object: &Value, operation: &'a PatchOperation) -> Cow<'a, PatchOperation> {
    let mut operation = Cow::Borrowed(operation);
    let from = match &*operation {
        PatchOperation::Copy(copy) => with_index(object, &copy.from, false),
        PatchOperation::Move(from) => with_index(object, &from.from, false),
        _ => None,
    };
    let path = match &*operation {
        PatchOperation::Add(add) => with_index(object, &add.path, true),
        PatchOperation::Copy(copy) => with_index(object, &copy.path, true),
        PatchOperation::Remove(remove) => with_index(object, &remove.path, false),
        PatchOperation::Replace(replace) => with_index(object, &replace.path, false),
        PatchOperation::Test(test) => with_index(object, &test.path, false),
        PatchOperation::Move(_) => None,
    };
    if let Some(path) = path {
        match operation.to_mut() {
            PatchOperation::Add(add) => add.path = path,
            PatchOperation::Copy(copy) => copy.path = path,
            PatchOperation::Remove(remove) => remove.path = path,
            PatchOperation::Replace(replace) => replace.path = path,
            PatchOperation::Test(test) => test.path = path,
            PatchOperation::Move(_) => {}
        }
    }
    if let Some(path) = from {
        match operation.to_mut() {
            PatchOperation::Copy(copy) => copy.from = path,
            PatchOperation::Move(from) => from.from = path,
            _ => {}
        }
    }
    operation
}

/// Returns `pointer` with list indices in the form of RFC 6901; `None` if they have this form. With
/// `adds`, the last index may be the position after the last item.
fn with_index(object: &Value, pointer: &Pointer, adds: bool) -> Option<PointerBuf> {
    if !has_other_index(pointer) {
        return None;
    }
    let last = pointer.count().saturating_sub(1);
    let mut at = Some(object);
    let mut tokens = Vec::new();
    for (number, token) in pointer.tokens().enumerate() {
        let mut token = token.decoded().into_owned();
        if let Some(Value::Array(items)) = at {
            let end = items.len() + usize::from(adds && number == last);
            if let Some(index) = index(&token, end) {
                token = index.to_string();
            }
        }
        at = at.and_then(|value| match value {
            Value::Array(items) => items.get(token.parse::<usize>().ok()?),
            Value::Object(members) => members.get(&token),
            _ => None,
        });
        tokens.push(token);
    }
    Some(PointerBuf::from_tokens(tokens))
}

/// Returns whether `pointer` may have an index that RFC 6901 does not allow, such as `-1` or `01`.
fn has_other_index(pointer: &Pointer) -> bool {
    let mut parts = pointer.as_str().split('/');
    parts.any(|part| part.len() > 1 && part.starts_with(['-', '+', '0']))
}

/// Parses the index `text` of a list of `len` items.
fn index(text: &str, len: usize) -> Option<usize> {
    let number: i64 = text.parse().ok()?;
    if number < 0 {
        len.checked_sub(usize::try_from(number.unsigned_abs()).ok()?)
    } else {
        usize::try_from(number).ok()
    }
}

/// Returns whether `pointer` is the path of a missing member of an existing object.
fn lacks(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).is_none()
        && pointer
            .rsplit_once('/')
            .is_some_and(|(parent, _)| object.pointer(parent).is_some_and(Value::is_object))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ApplyError, apply};

    fn patched(patch: Value) -> Option<Value> {
        let mut object = json!({ "a": { "b": 1 }, "l": [] });
        let patch = serde_json::from_value(patch).expect("a patch");
        apply(&mut object, &patch).ok().map(|()| object)
    }

    #[test]
    fn copies_that_double_the_object_are_rejected_without_a_change() {
        let doubling = json!({ "op": "copy", "from": "", "path": "/l/-" });
        assert_eq!(patched(Value::Array(vec![doubling; 40])), None);
        let wide = json!([
            { "op": "add", "path": "/a/b", "value": "x".repeat(1024 * 1024) },
            { "op": "copy", "from": "/a/b", "path": "/a/c" },
            { "op": "copy", "from": "/a/b", "path": "/a/d" },
            { "op": "copy", "from": "/a/b", "path": "/a/e" },
        ]);
        assert_eq!(patched(wide), None, "4 MiB, of which 3 are copied");
        let narrow = json!([{ "op": "copy", "from": "/a/b", "path": "/a/c" }]);
        assert_eq!(
            patched(narrow),
            Some(json!({ "a": { "b": 1, "c": 1 }, "l": [] }))
        );
    }

    #[test]
    fn operations_cannot_nest_deeper_than_a_body() {
        let nest = |operation: &str| {
            let value = json!({ "op": operation, "from": "", "path": "/a", "value": { "a": {} } });
            Value::Array(vec![value; 200])
        };
        assert_eq!(patched(nest("copy")), None);
        let mut path = String::new();
        let mut adds = Vec::new();
        for _ in 0..140 {
            path += "/a";
            adds.push(json!({ "op": "add", "path": path, "value": {} }));
        }
        assert_eq!(patched(Value::Array(adds)), None);
    }

    /// Each of these operations takes long and changes little, and a patch has up to 10,000 of them.
    #[test]
    fn operations_that_visit_or_shift_too_many_values_are_refused() {
        let mut object = json!({ "wide": vec![0; 100_000], "a": 1 });
        let deep = (0..127).fold(json!(1), |inner, _| json!({ "x": inner }));
        object["deep"] = deep;
        let before = object.clone();
        let there = json!({ "op": "move", "from": "/a", "path": "/b" });
        let back = json!({ "op": "move", "from": "/b", "path": "/a" });
        let shift = json!({ "op": "move", "from": "/wide/0", "path": "/wide/0" });
        for (operations, count) in [(vec![there, back], 200), (vec![shift], 1_000)] {
            let mut patched = |count: usize| {
                let operations = operations.iter().cloned().cycle().take(count).collect();
                let patch = serde_json::from_value(Value::Array(operations)).expect("a patch");
                apply(&mut object, &patch)
            };
            patched(20).expect("few are applied");
            let error = patched(count).expect_err("many are not");
            assert!(matches!(error, ApplyError::Steps), "{error}");
        }
        assert_eq!(object, before);
    }

    #[test]
    fn a_missing_member_counts_as_null() {
        let replace = json!([{ "op": "replace", "path": "/a/c", "value": 2 }]);
        assert_eq!(
            patched(replace),
            Some(json!({ "a": { "b": 1, "c": 2 }, "l": [] }))
        );
        let test = json!([{ "op": "test", "path": "/a/c", "value": null }]);
        assert!(patched(test).is_some());
        for operation in [
            json!({ "op": "test", "path": "/a/c", "value": 1 }),
            json!({ "op": "test", "path": "/x/c", "value": null }),
            json!({ "op": "replace", "path": "/x/c", "value": 1 }),
            json!({ "op": "replace", "path": "/l/0", "value": 1 }),
            json!({ "op": "remove", "path": "/a/c" }),
        ] {
            assert_eq!(patched(json!([operation])), None, "{operation}");
        }
    }
}
