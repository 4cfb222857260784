//! The old elements of a list, by the keys of the new ones.

use std::collections::HashMap;

use serde_json::Value;

use crate::schema::node::{List, Node};

/// The elements of the old value of a list with keys. Those of other lists have no old values.
#[derive(Debug, Default)]
pub(super) struct OldElements<'a> {
    keys: &'a [String],
    elements: HashMap<String, &'a Value>,
}

// === impl OldElements ===

impl<'a> OldElements<'a> {
    pub(super) fn of<'b: 'a>(node: &'a Node, old: Option<&'b Value>) -> Self {
        let (List::Map(keys), Some(Value::Array(old))) = (&node.list, old) else {
            return Self::default();
        };
        let mut elements = HashMap::new();
        for element in old {
            // The first of several elements with the same keys is used.
            elements.entry(key(keys, element)).or_insert(element);
        }
        Self { keys, elements }
    }

    /// The old element with the keys of `element`.
    pub(super) fn find(&self, element: &Value) -> Option<&'a Value> {
        if self.elements.is_empty() {
            return None;
        }
        self.elements.get(&key(self.keys, element)).copied()
    }
}

fn key(keys: &[String], element: &Value) -> String {
    let values = keys.iter().map(|key| element.get(key).cloned());
    Value::Array(values.map(Option::unwrap_or_default).collect()).to_string()
}
