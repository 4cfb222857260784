//! The set of all fields of a value, which its manager owns.

use std::collections::BTreeMap;

use serde_json::Value;

use super::path::PathElement;
use super::set::Set;
use super::types::{List, ListKind, Shape};
use super::walk::{Choice, Form, item_step};

/// Returns each leaf and each item of `value`.
pub(super) fn fields(value: &Value, shape: Shape<'_>) -> Set {
    let mut set = Set::default();
    walk(value, shape, &mut Vec::new(), &mut set);
    set
}

fn walk(value: &Value, shape: Shape<'_>, path: &mut Vec<PathElement>, set: &mut Set) {
    match Choice::of(shape, Some(value)).form(shape) {
        Form::Scalar(_) => set.insert(path),
        Form::List(list) if matches!(list.kind, ListKind::Atomic) => set.insert(path),
        Form::Map(map) if map.is_atomic => set.insert(path),
        Form::List(list) => walk_items(value, list, shape, path, set),
        Form::Map(map) => {
            for (name, value) in value.as_object().into_iter().flatten() {
                let Some(member) = shape.member(name) else {
                    continue;
                };
                path.push(PathElement::field(name));
                walk(value, member, path, set);
                let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
                if value.is_null() || is_empty || !map.fields.contains_key(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Form::Nothing => {}
    }
}

fn walk_items(
    value: &Value,
    list: &List,
    shape: Shape<'_>,
    path: &mut Vec<PathElement>,
    set: &mut Set,
) {
    let items = value.as_array().into_iter().flatten();
    let steps: Vec<_> = items
        .filter_map(|item| Some((item_step(list, item).ok()?, item)))
        .collect();
    let mut counts: BTreeMap<&PathElement, usize> = BTreeMap::new();
    for (step, _) in &steps {
        *counts.entry(step).or_default() += 1;
    }
    for (step, item) in &steps {
        path.push(step.clone());
        // Of equal items, only the existence is owned.
        if counts.get(step) == Some(&1) {
            walk(item, shape.at(list.items), path, set);
        }
        set.insert(path);
        path.pop();
    }
}
