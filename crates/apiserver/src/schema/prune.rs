//! Pruning: drops unknown fields.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/pruning`, Kubernetes 1.36.

use serde_json::Value;

use super::{
    node::{Additional, Node},
    value_path::ValuePath,
};

/// Drops the unknown fields of a complete object.
///
/// Returns the paths of the dropped fields, sorted.
pub(super) fn prune_object(node: &Node, object: &mut Value) -> Vec<String> {
    let mut pruning = Pruning::default();
    pruning.walk(
        node,
        Frame {
            open: node.open,
            whole: true,
        },
        object,
        &ValuePath::root(""),
    );
    pruning.dropped.sort();
    pruning.dropped
}

/// Drops the unknown fields of a value.
pub(super) fn prune(node: &Node, value: &mut Value) {
    Pruning::default().known(node, value, &ValuePath::root(""));
}

/// The paths of the dropped fields.
#[derive(Debug, Default)]
struct Pruning {
    dropped: Vec<String>,
}

/// The properties of a value that its node does not contain.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Whether unknown fields are kept.
    open: bool,

    /// Whether the value is an object with `metadata`.
    whole: bool,
}

/// The fields of an embedded object that its schema does not have to define.
fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

// === impl Pruning ===

impl Pruning {
    /// Prunes a value with the schema `node`.
    fn known(&mut self, node: &Node, value: &mut Value, at: &ValuePath<'_>) {
        self.walk(
            node,
            Frame {
                open: node.open,
                whole: node.embedded,
            },
            value,
            at,
        );
    }

    fn walk(&mut self, node: &Node, frame: Frame, value: &mut Value, at: &ValuePath<'_>) {
        match value {
            Value::Object(fields) => fields.retain(|name, value| {
                if frame.whole && is_meta(name) {
                    return true;
                }
                let at = at.child(name);
                match (node.properties.get(name), &node.additional) {
                    (Some(field), _) => self.known(field, value, &at),
                    (None, Additional::Each(each)) => self.known(each, value, &at),
                    // The field is kept, and its contents have no schema.
                    (None, Additional::Anything | Additional::Refused) => self.unknown(value, &at),
                    (None, Additional::Unsaid) if frame.open => {}
                    (None, Additional::Unsaid) => {
                        self.dropped.push(at.to_string());
                        return false;
                    }
                }
                true
            }),
            Value::Array(elements) => {
                for (i, element) in elements.iter_mut().enumerate() {
                    let at = at.index(i);
                    match &node.items {
                        // Unknown fields of the elements are kept too.
                        Some(items) if frame.open => {
                            let frame = Frame {
                                open: true,
                                whole: items.embedded,
                            };
                            self.walk(items, frame, element, &at);
                        }
                        Some(items) => self.known(items, element, &at),
                        None if frame.open => {}
                        None => self.unknown(element, &at),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Drops all fields of a value without a schema.
    fn unknown(&mut self, value: &mut Value, at: &ValuePath<'_>) {
        match value {
            Value::Object(fields) => {
                for (name, _) in std::mem::take(fields) {
                    self.dropped.push(at.child(&name).to_string());
                }
            }
            Value::Array(elements) => {
                for (i, element) in elements.iter_mut().enumerate() {
                    self.unknown(element, &at.index(i));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}
