//! Removes fields and items from a value.

use serde_json::Value;

use super::path::PathElement;
use super::set::Set;
use super::types::{ListKind, Shape};
use super::walk::{Choice, Form, item_step};

/// Returns `value` without the fields and items of `set`; `None` if an object or a list that was not
/// empty has become empty.
pub(super) fn without(value: &Value, set: &Set, shape: Shape<'_>) -> Option<Value> {
    match Choice::of(shape, Some(value)).form(shape) {
        Form::List(list) => {
            let items = value.as_array().filter(|items| !items.is_empty())?;
            if matches!(list.kind, ListKind::Atomic) {
                return None;
            }
            let rest = items.iter().filter_map(|item| {
                let Ok(step) = item_step(list, item) else {
                    return Some(item.clone());
                };
                if set.members.contains(&step) {
                    return None;
                }
                match set.below(&step) {
                    Some(below) => {
                        Some(without(item, below, shape.at(list.items)).unwrap_or_default())
                    }
                    None => Some(item.clone()),
                }
            });
            let rest: Vec<_> = rest.collect();
            (!rest.is_empty()).then(|| rest.into())
        }
        Form::Map(map) => {
            let fields = value.as_object().filter(|fields| !fields.is_empty())?;
            if map.is_atomic {
                return None;
            }
            let rest = fields.iter().filter_map(|(name, value)| {
                let step = PathElement::field(name);
                if set.members.contains(&step) {
                    return None;
                }
                let value = match set.below(&step) {
                    Some(below) => {
                        // It has become empty: a `null`, which decoding drops.
                        without(value, below, shape.step(&step)).unwrap_or_default()
                    }
                    None => value.clone(),
                };
                Some((name.clone(), value))
            });
            let rest: serde_json::Map<_, _> = rest.collect();
            (!rest.is_empty()).then(|| rest.into())
        }
        Form::Scalar(_) | Form::Nothing => Some(value.clone()),
    }
}
