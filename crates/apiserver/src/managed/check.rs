//! Type checks of an applied configuration.

use std::collections::BTreeSet;

use serde_json::Value;

use super::path::PathElement;
use super::types::{List, ListKind, Map, Scalar, Shape};
use super::walk::{Choice, Form, item_step};

/// Checks that `config` has no unknown field, no value of another type, and no two items with the
/// same key.
///
/// # Errors
///
/// The messages of the real server about all errors, with their paths.
pub(super) fn check(config: &Value, shape: Shape<'_>) -> Result<(), String> {
    let mut faults = Vec::new();
    walk(config, shape, &mut String::new(), &mut faults);
    match faults.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("errors:\n  {}", several.join("\n  "))),
    }
}

fn walk(value: &Value, shape: Shape<'_>, path: &mut String, faults: &mut Vec<String>) {
    let mut fault = |what: String| {
        faults.push(if path.is_empty() {
            what
        } else {
            format!("{path}: {what}")
        });
    };
    match Choice::of(shape, Some(value)).form(shape) {
        Form::Scalar(scalar) => {
            if let Some(what) = scalar_fault(scalar, value) {
                fault(what);
            }
        }
        Form::List(list) => match value {
            Value::Null => {}
            Value::Array(items) => walk_items(items, list, shape, path, faults),
            other => fault(format!("expected list, got &{{{}}}", shown(other))),
        },
        Form::Map(map) => match value {
            Value::Null => {}
            Value::Object(members) => walk_members(members, map, shape, path, faults),
            other => fault(format!("expected map, got &{{{}}}", shown(other))),
        },
        Form::Nothing => {}
    }
}

fn walk_items(
    items: &[Value],
    list: &List,
    shape: Shape<'_>,
    path: &mut String,
    faults: &mut Vec<String>,
) {
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        let step = match &list.kind {
            ListKind::Atomic => PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX)),
            ListKind::Set | ListKind::Map(_) => match item_step(list, item) {
                Ok(step) => step,
                Err(error) => {
                    faults.push(format!("{path}: element {at}: {error}"));
                    return;
                }
            },
        };
        if !seen.insert(step.clone()) {
            faults.push(format!("{path}: duplicate entries for key {step}"));
        }
        below(item, shape.at(list.items), &step, path, faults);
    }
}

fn walk_members(
    members: &serde_json::Map<String, Value>,
    map: &Map,
    shape: Shape<'_>,
    path: &mut String,
    faults: &mut Vec<String>,
) {
    for (name, value) in members {
        let step = PathElement::field(name);
        let Some(id) = map.fields.get(name).copied().or(map.rest) else {
            faults.push(format!("{path}{step}: field not declared in schema"));
            return;
        };
        below(value, shape.at(id), &step, path, faults);
    }
}

fn below(
    value: &Value,
    shape: Shape<'_>,
    step: &PathElement,
    path: &mut String,
    faults: &mut Vec<String>,
) {
    let length = path.len();
    path.push_str(&step.to_string());
    walk(value, shape, path, faults);
    path.truncate(length);
}

fn scalar_fault(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Number, Value::Number(_))
        | (Scalar::Text, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Number, other) => Some(format!(
            "expected numeric (int or float), got {}",
            go_type(other)
        )),
        (Scalar::Text, other) => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            cut(&in_go(other))
        )),
        (Scalar::Boolean, other) => Some(format!("expected boolean, got &{{{}}}", shown(other))),
        (Scalar::Any, other) => Some(format!("expected any scalar, got &{{{}}}", shown(other))),
    }
}

/// Returns the name of the Go type into which a JSON value is decoded.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Returns a value as a Go expression.
fn in_go(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(in_go).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| format!("{name:?}:{}", in_go(value)));
            let members: Vec<_> = members.collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// Returns a value as Go prints it, truncated.
pub(crate) fn shown(value: &Value) -> String {
    cut(&match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(shown).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| format!("{name}:{}", shown(value)));
            format!("map[{}]", members.collect::<Vec<_>>().join(" "))
        }
    })
}

/// Truncates a text.
fn cut(text: &str) -> String {
    /// The maximum length that is not truncated, in characters.
    const MOST: usize = 100;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
