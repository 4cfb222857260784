//! Sets of paths as JSON: the `fieldsV1` of an entry of `managedFields`.
//!
//! A stored object contains this JSON as a string, which takes less memory than a tree of empty
//! objects, and is sent without changes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::path::PathElement;
use super::set::Set;

/// The key of the path to the object itself.
const SELF: &str = ".";

/// The JSON of a set, which is written sequentially.
#[derive(Debug)]
pub(super) struct FieldsText(String);

/// Encodes a set as JSON.
pub(super) fn encode(set: &Set) -> String {
    let mut text = FieldsText::default();
    text.set(set);
    text.close()
}

/// Parses a set from JSON.
///
/// # Errors
///
/// The reason why it is invalid.
pub(super) fn parse(text: &str) -> Result<Set, String> {
    let value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    decode(&value)
}

/// Decodes a set.
///
/// # Errors
///
/// The reason why it is invalid.
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
        let Some(step) = PathElement::decode(key)? else {
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

// === impl FieldsText ===

impl Default for FieldsText {
    fn default() -> Self {
        // Few objects have a shorter text.
        let mut text = String::with_capacity(512);
        text.push('{');
        Self(text)
    }
}

impl FieldsText {
    /// Adds the field `name` if `is_member`, and the paths that `below` adds below it.
    pub(super) fn field(&mut self, name: &str, is_member: bool, below: impl FnOnce(&mut Self)) {
        let key = |text: &mut String| {
            // Few names need escapes.
            if name
                .bytes()
                .any(|byte| matches!(byte, 0..0x20 | b'"' | b'\\'))
            {
                *text += &Value::from(PathElement::field(name).encode()).to_string();
            } else {
                text.push_str("\"f:");
                text.push_str(name);
                text.push('"');
            }
        };
        self.member(key, is_member, below);
    }

    /// Adds the path `step` if `is_member`, and the paths that `below` adds below it.
    pub(super) fn step(
        &mut self,
        step: &PathElement,
        is_member: bool,
        below: impl FnOnce(&mut Self),
    ) {
        if let PathElement::Field(name) = step {
            return self.field(name, is_member, below);
        }
        let key = |text: &mut String| *text += &Value::from(step.encode()).to_string();
        self.member(key, is_member, below);
    }

    /// Adds a member of the open object, unless it is not a path and there are no paths below it.
    fn member(
        &mut self,
        key: impl FnOnce(&mut String),
        is_member: bool,
        below: impl FnOnce(&mut Self),
    ) {
        let start = self.0.len();
        if !self.0.ends_with('{') {
            self.0.push(',');
        }
        key(&mut self.0);
        self.0.push_str(":{");
        let inside = self.0.len();
        if is_member {
            self.0.push_str(r#"".":{}"#);
        }
        let before = self.0.len();
        below(self);
        match (self.0.len() > before, is_member) {
            (true, _) => {}
            (false, true) => self.0.truncate(inside),
            (false, false) => return self.0.truncate(start),
        }
        self.0.push('}');
    }

    /// Adds the paths of a set.
    fn set(&mut self, set: &Set) {
        let steps: BTreeSet<_> = set.members.iter().chain(set.children.keys()).collect();
        for step in steps {
            self.step(step, set.members.contains(step), |text| {
                if let Some(child) = set.children.get(step) {
                    text.set(child);
                }
            });
        }
    }

    /// Returns the text; `None` if nothing was added.
    pub(super) fn finish(self) -> Option<String> {
        (self.0.len() > 1).then(|| self.close())
    }

    fn close(mut self) -> String {
        self.0.push('}');
        // It is stored with the object.
        self.0.shrink_to_fit();
        self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{decode, parse};

    fn encode(set: &super::Set) -> Value {
        let text = super::encode(set);
        serde_json::from_str(&text).expect("JSON")
    }

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
        assert_eq!(parse(&fields.to_string()), Ok(set.clone()));
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
