//! Lists that are sets or maps: finds duplicate elements.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/listtype`, Kubernetes 1.36.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    node::{Additional, List, Node},
    value_path::ValuePath,
};
use crate::status::FieldError;

/// Reports each element that a list must not contain, or contains already.
pub(super) fn check(node: &Node, value: &Value, at: &ValuePath<'_>, faults: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (node.properties.get(name), &node.additional) {
                    (Some(field), _) => check(field, value, &at.child(name), faults),
                    (None, Additional::Each(each)) => check(each, value, &at.key(name), faults),
                    (None, _) => {}
                }
            }
        }
        Value::Array(elements) => {
            match &node.list {
                List::Atomic => {}
                List::Set => {
                    let keys = elements.iter().map(ToString::to_string);
                    for i in repeated(keys) {
                        faults.push(FieldError::duplicate(at.index(i).to_string(), &elements[i]));
                    }
                }
                List::Map(keys) => check_map(keys, elements, at, faults),
            }
            if let Some(items) = &node.items {
                for (i, element) in elements.iter().enumerate() {
                    check(items, element, &at.index(i), faults);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_map(
    names: &[String],
    elements: &[Value],
    at: &ValuePath<'_>,
    faults: &mut Vec<FieldError>,
) {
    let mut keys = Vec::with_capacity(elements.len());
    for (i, element) in elements.iter().enumerate() {
        let fields = match element {
            Value::Object(fields) => Some(fields),
            Value::Null => None,
            other => {
                let why = "must be an object for an array of list-type map";
                faults.push(FieldError::invalid(at.index(i).to_string(), other, why));
                return;
            }
        };
        let value = |name: &String| Some((name.clone(), fields?.get(name)?.clone()));
        keys.push(Value::Object(
            names.iter().filter_map(value).collect::<Map<_, _>>(),
        ));
    }
    for i in repeated(keys.iter().map(ToString::to_string)) {
        faults.push(FieldError::duplicate(at.index(i).to_string(), &keys[i]));
    }
}

/// Returns the positions of the second occurrence of each key. Further occurrences are not reported.
fn repeated(keys: impl Iterator<Item = String>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut repeated = Vec::new();
    for (i, key) in keys.enumerate() {
        let times = seen.entry(key).or_default();
        *times += 1;
        if *times == 2 {
            repeated.push(i);
        }
    }
    repeated
}
