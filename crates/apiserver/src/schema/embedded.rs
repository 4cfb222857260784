//! Embedded objects: checks their `apiVersion` and `kind`.
//!
//! Not checked, although Kubernetes does: the syntax of what is in their `metadata`.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/objectmeta`, Kubernetes 1.36.

use serde_json::{Map, Value};

use super::{node::Node, place::Place};
use crate::metadata::syntax;
use crate::status::FieldError;

/// What Kubernetes says of a kind that could not be a name.
const NOT_A_KIND: &str = "may have mixed case, but should otherwise match: a DNS-1035 label must \
    consist of lower case alphanumeric characters or '-', start with an alphabetic character, and \
    end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation \
    is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Notes every embedded object without a proper `apiVersion` and `kind`.
pub(super) fn check(node: &Node, value: &Value, at: &Place<'_>, faults: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if node.embedded {
                check_object(fields, at, faults);
            }
            for (name, value) in fields {
                if let Some(field) = node.properties.get(name) {
                    check(field, value, &at.child(name), faults);
                } else if let Some(each) = node.field(name) {
                    check(each, value, &at.key(name), faults);
                }
            }
        }
        Value::Array(elements) => {
            if let Some(items) = &node.items {
                for (i, element) in elements.iter().enumerate() {
                    check(items, element, &at.index(i), faults);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_object(fields: &Map<String, Value>, at: &Place<'_>, faults: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let path = || at.child(name).to_string();
        match fields.get(name) {
            None => faults.push(FieldError::required(path(), "")),
            Some(Value::String(text)) if name == "kind" && !text.is_empty() => {
                if !is_kind(text) {
                    faults.push(FieldError::invalid(
                        path(),
                        &text.as_str().into(),
                        NOT_A_KIND,
                    ));
                }
            }
            Some(Value::String(text)) if !text.is_empty() => {
                if let Some(why) = syntax::api_version(text) {
                    faults.push(FieldError::invalid(path(), &text.as_str().into(), why));
                }
            }
            Some(Value::String(text)) => {
                let text = text.as_str().into();
                faults.push(FieldError::invalid(path(), &text, "must not be empty"));
            }
            Some(other) => faults.push(FieldError::invalid(path(), other, "must be a string")),
        }
    }
    if let Some(other) = fields
        .get("metadata")
        .filter(|metadata| !metadata.is_object())
    {
        let why = "must be an object";
        faults.push(FieldError::invalid(
            at.child("metadata").to_string(),
            other,
            why,
        ));
    }
}

fn is_kind(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(inner)
}
