//! Sets of paths as JSON: the `fieldsV1` of an entry of `managedFields`.

use serde_json::{Map, Value};

use super::path::Step;
use super::set::Set;

/// What stands for the path to the object itself.
const SELF: &str = ".";

/// The set as JSON.
pub(super) fn encode(set: &Set) -> Value {
    let mut object = Map::new();
    for step in &set.members {
        object.insert(step.encode(), Map::new().into());
    }
    for (step, child) in &set.children {
        let Value::Object(mut below) = encode(child) else {
            continue;
        };
        if set.members.contains(step) {
            below.insert(SELF.to_owned(), Map::new().into());
        }
        object.insert(step.encode(), below.into());
    }
    object.into()
}

/// Reads a set.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn decode(value: &Value) -> Result<Set, String> {
    let Value::Object(object) = value else {
        return Err("fieldsV1 must be an object".to_owned());
    };
    let mut set = Set::default();
    for (key, below) in object {
        if key == SELF {
            continue;
        }
        // A step of an unknown form is from a newer server.
        let Some(step) = Step::decode(key)? else {
            continue;
        };
        let child = decode(below)?;
        let is_leaf = below.as_object().is_some_and(Map::is_empty);
        if is_leaf || below.get(SELF).is_some() {
            set.members.insert(step.clone());
        }
        if !child.is_empty() {
            set.children.insert(step, child);
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{decode, encode};

    #[test]
    fn a_parsed_set_equals_the_written_set() {
        let fields = json!({
            "f:metadata": { "f:labels": { ".": {}, "f:a": {} } },
            "f:spec": {
                "f:ports": { r#"k:{"port":80}"#: { ".": {}, "f:port": {} } },
                "f:names": { ".": {}, r#"v:"x""#: {} },
            },
        });
        let set = decode(&fields).expect("a set");
        assert_eq!(encode(&set), fields);
        assert_eq!(set.paths().len(), 6);
    }

    #[test]
    fn invalid_sets_are_rejected_and_unknown_steps_are_skipped() {
        assert!(decode(&json!([])).is_err());
        assert!(decode(&json!({ "spec": {} })).is_err());
        assert!(decode(&json!({ "f:a": 1 })).is_err());
        let set = decode(&json!({ "z:new": {}, "f:a": {} })).expect("a set");
        assert_eq!(encode(&set), json!({ "f:a": {} }));
    }
}
