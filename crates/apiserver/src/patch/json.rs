//! JSON patches, with the leniency of Kubernetes.
//!
//! RFC 6902 asks that what is replaced or tested be there. Kubernetes takes a member that
//! isn't there for `null`: it may be replaced, and tested to be `null`.
//!
//! Source: measured on kube-apiserver v1.36.3.

use json_patch::{AddOperation, Patch, PatchError, PatchOperation};
use serde_json::Value;

/// Changes `object`, or leaves it as it is if an operation doesn't fit.
pub(super) fn apply(object: &mut Value, patch: &Patch) -> Result<(), PatchError> {
    let mut changed = object.clone();
    for operation in &patch.0 {
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
            operation => json_patch::patch(&mut changed, std::slice::from_ref(operation))?,
        }
    }
    *object = changed;
    Ok(())
}

/// Whether `pointer` names a member that its object, which is there, doesn't have.
fn lacks(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).is_none()
        && pointer
            .rsplit_once('/')
            .is_some_and(|(parent, _)| object.pointer(parent).is_some_and(Value::is_object))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::apply;

    fn patched(patch: Value) -> Option<Value> {
        let mut object = json!({ "a": { "b": 1 }, "l": [] });
        let patch = serde_json::from_value(patch).expect("a patch");
        apply(&mut object, &patch).ok().map(|()| object)
    }

    #[test]
    fn a_member_that_is_not_there_counts_as_null() {
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
