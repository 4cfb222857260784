//! Embedded objects: decodes and validates their `apiVersion`, `kind` and `metadata`.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/objectmeta`, Kubernetes 1.36.

use serde_json::{Map, Value};

use super::{
    node::{Additional, Node},
    value_path::ValuePath,
};
use crate::metadata::{self, syntax};
use crate::status::FieldError;

/// The message of Kubernetes about an invalid kind.
const NOT_A_KIND: &str = "may have mixed case, but should otherwise match: a DNS-1035 label must \
    consist of lower case alphanumeric characters or '-', start with an alphabetic character, and \
    end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation \
    is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Returns whether `node` describes an embedded object or contains one.
pub(super) fn occurs(node: &Node) -> bool {
    let additional = match &node.additional {
        Additional::Each(each) => Some(&**each),
        Additional::Unsaid | Additional::Anything | Additional::Refused => None,
    };
    let below = node.properties.values().chain(additional);
    node.embedded || below.chain(node.items.as_deref()).any(occurs)
}

/// Converts the metadata of each embedded object to its stored form. Adds the paths of the dropped
/// fields to `unknown`.
///
/// # Errors
///
/// An `apiVersion`, a `kind` or a field of the metadata of the wrong type.
pub(super) fn decode(
    node: &Node,
    value: &mut Value,
    at: &ValuePath<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    if node.embedded && value.is_object() {
        decode_object(value, at, unknown)?;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(field) = node.properties.get(name) {
                    decode(field, value, &at.child(name), unknown)?;
                } else if let Some(each) = node.field(name) {
                    decode(each, value, &at.key(name), unknown)?;
                }
            }
        }
        Value::Array(elements) => {
            if let Some(items) = &node.items {
                for (i, element) in elements.iter_mut().enumerate() {
                    decode(items, element, &at.index(i), unknown)?;
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn decode_object(
    object: &mut Value,
    at: &ValuePath<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    for name in ["apiVersion", "kind"] {
        if let Some(other) = object.get(name).filter(|value| !value.is_string()) {
            let path = at.child(name).to_string();
            return Err(FieldError::invalid(path, other, "must be a string"));
        }
    }
    let Some(before) = object.get("metadata").cloned() else {
        return Ok(());
    };
    match metadata::decode(object, "ObjectMeta") {
        Ok(dropped) => {
            unknown.extend(dropped.into_iter().map(|path| format!("{at}.{path}")));
            Ok(())
        }
        Err(why) => {
            let path = at.child("metadata").to_string();
            Err(FieldError::invalid(path, &before, why))
        }
    }
}

/// Adds the errors in the `apiVersion`, `kind` and metadata of each embedded object.
pub(super) fn check(node: &Node, value: &Value, at: &ValuePath<'_>, faults: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if node.embedded {
                check_object(fields, at, faults);
                let errors = metadata::validate_embedded(value).into_iter();
                faults.extend(errors.map(|error| FieldError {
                    path: format!("{at}.{}", error.path),
                    ..error
                }));
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

fn check_object(fields: &Map<String, Value>, at: &ValuePath<'_>, faults: &mut Vec<FieldError>) {
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
}

fn is_kind(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(inner)
}
