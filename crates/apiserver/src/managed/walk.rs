//! The form of a value by its type, and the steps to the items of lists.

use serde_json::Value;

use super::path::{PathElement, members};
use super::types::{List, ListKind, Map, Scalar, Shape};

/// A value in the form that its type requires.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'a> {
    Scalar(Scalar),
    List(&'a List),
    Map(&'a Map),
    /// The type allows no value. No accepted schema has such a type.
    Nothing,
}

/// The forms that a type allows for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    scalar: bool,
    list: bool,
    map: bool,
}

// === impl Choice ===

impl Choice {
    /// Returns the allowed forms of `value` of type `shape`.
    pub(super) fn of(shape: Shape<'_>, value: Option<&Value>) -> Self {
        let node = shape.node();
        let all = Self {
            scalar: node.scalar.is_some(),
            list: node.list.is_some(),
            map: node.map.is_some(),
        };
        let nothing = Self {
            scalar: false,
            list: false,
            map: false,
        };
        match value {
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if all.scalar => Self {
                scalar: true,
                ..nothing
            },
            Some(Value::Array(_)) if all.list => Self {
                list: true,
                ..nothing
            },
            Some(Value::Object(_)) if all.map => Self {
                map: true,
                ..nothing
            },
            _ => all,
        }
    }

    /// Returns the form of a value of type `shape`.
    pub(super) fn form(self, shape: Shape<'_>) -> Form<'_> {
        let node = shape.node();
        match (&node.map, node.scalar, &node.list) {
            (Some(map), _, _) if self.map => Form::Map(map),
            (_, Some(scalar), _) if self.scalar => Form::Scalar(scalar),
            (_, _, Some(list)) if self.list => Form::List(list),
            _ => Form::Nothing,
        }
    }
}

/// Returns the step to `item` of a list that is not a leaf.
///
/// # Errors
///
/// The message of the real server if the item has no step.
pub(super) fn item_step(list: &List, item: &Value) -> Result<PathElement, String> {
    match &list.kind {
        ListKind::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListKind::Set => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => {
                Err("not supported: associative list with lists as elements".to_owned())
            }
            Value::Null => Err(
                "associative list without keys has an element that's an explicit null".to_owned(),
            ),
            item => Ok(PathElement::item(item)),
        },
        ListKind::Map(keys) => {
            if item.is_null() {
                let why = "associative list with keys may not have a null element";
                return Err(why.to_owned());
            }
            let Value::Object(members) = item else {
                return Err("associative list with keys may not have non-map elements".to_owned());
            };
            let found = keys.iter().filter_map(|(key, default)| {
                let value = members.get(key).or(default.as_ref())?;
                Some((key.clone(), value))
            });
            let found: Vec<_> = found.collect();
            if found.is_empty() {
                let names: Vec<_> = keys.iter().map(|(key, _)| format!("{key:?}")).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] \
                     (and doesn't have default values for any key fields)",
                    names.join(" ")
                ));
            }
            Ok(PathElement::key(found.into_iter()))
        }
    }
}

/// Returns whether all items of the lists at `path` of an object, and below, have a step.
pub(super) fn has_steps_at(object: &Value, shape: Shape<'_>, path: &[&str]) -> bool {
    let Some((name, path)) = path.split_first() else {
        return has_steps(object, shape);
    };
    match (object.get(name), shape.member(name)) {
        (Some(value), Some(shape)) => has_steps_at(value, shape, path),
        _ => true,
    }
}

fn has_steps(value: &Value, shape: Shape<'_>) -> bool {
    match Choice::of(shape, Some(value)).form(shape) {
        Form::Map(map) if !map.is_atomic => members(Some(value)).is_none_or(|members| {
            let mut fields = members.iter();
            fields.all(|(name, field)| shape.member(name).is_none_or(|it| has_steps(field, it)))
        }),
        Form::List(list) if !matches!(list.kind, ListKind::Atomic) => {
            let shape = shape.at(list.items);
            let mut items = items(Some(value)).iter();
            items.all(|item| item_step(list, item).is_ok() && has_steps(item, shape))
        }
        _ => true,
    }
}

/// Returns the items of a list; no items if `value` is not a list.
pub(super) fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns whether a value is an object with members, or a list with items.
pub(super) fn has_parts(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(members)) => !members.is_empty(),
        _ => false,
    }
}
