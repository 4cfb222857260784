//! The fields that a write changes, by type.

use std::collections::BTreeMap;

use serde_json::Value;

use super::path::{PathElement, members};
use super::set::Set;
use super::types::{List, ListKind, Map, Shape};
use super::walk::{Choice, Form, has_parts, item_step, items};

/// The fields in which two values differ.
#[derive(Debug, Clone, Default)]
pub(super) struct Comparison {
    pub(super) added: Set,
    pub(super) modified: Set,
    pub(super) removed: Set,
}

/// The change of a value itself, without its fields and items.
#[derive(Debug, Clone, Copy, Default)]
struct ValueChange {
    is_added: bool,
    is_modified: bool,
    is_removed: bool,
}

// === impl ValueChange ===

impl ValueChange {
    /// Returns the change of a value from `before` to `after`, of which at least one exists.
    fn of(before: Option<&Value>, after: Option<&Value>) -> Self {
        Self {
            is_added: before.is_none(),
            is_modified: false,
            is_removed: before.is_some() && after.is_none(),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            is_added: self.is_added || other.is_added,
            is_modified: self.is_modified || other.is_modified,
            is_removed: self.is_removed || other.is_removed,
        }
    }
}

// === impl Comparison ===

impl Comparison {
    /// Compares two values of one type.
    pub(super) fn of(before: &Value, after: &Value, shape: Shape<'_>) -> Self {
        let mut comparison = Self::default();
        comparison.compare(Some(before), Some(after), shape);
        comparison
    }

    /// Removes `ignored` and all paths below it.
    pub(super) fn without(self, ignored: &Set) -> Self {
        Self {
            added: self.added.without_below(ignored),
            modified: self.modified.without_below(ignored),
            removed: self.removed.without_below(ignored),
        }
    }

    /// Returns the added and modified fields, and the removed fields.
    pub(super) fn into_written_and_removed(self) -> (Set, Set) {
        (self.modified.union(self.added), self.removed)
    }

    /// Adds the differences of the fields and items of two values, and returns the change of the value
    /// itself.
    fn compare(
        &mut self,
        before: Option<&Value>,
        after: Option<&Value>,
        shape: Shape<'_>,
    ) -> ValueChange {
        let (left, right) = (Choice::of(shape, before), Choice::of(shape, after));
        let (is_leaf, change) = if after.is_none() {
            self.as_form(left.form(shape), before, after, shape)
        } else if before.is_none() || left == right {
            self.as_form(right.form(shape), before, after, shape)
        } else {
            // The type of the value has changed.
            let (_, first) = self.as_form(left.form(shape), before, after, shape);
            let (is_leaf, second) = self.as_form(right.form(shape), before, after, shape);
            (is_leaf, first.or(second))
        };
        if is_leaf {
            change
        } else {
            change.or(ValueChange::of(before, after))
        }
    }

    /// Compares two values as `form`.
    fn as_form(
        &mut self,
        form: Form<'_>,
        before: Option<&Value>,
        after: Option<&Value>,
        shape: Shape<'_>,
    ) -> (bool, ValueChange) {
        let is_leaf = match form {
            Form::Scalar(_) => true,
            Form::List(list) => {
                let lists = |value: Option<&Value>| value.is_some_and(Value::is_array);
                matches!(list.kind, ListKind::Atomic)
                    || !(lists(before) && has_parts(before) || lists(after) && has_parts(after))
            }
            Form::Map(map) => {
                let maps = |value: Option<&Value>| value.is_some_and(Value::is_object);
                map.is_atomic
                    || !(maps(before) && has_parts(before) || maps(after) && has_parts(after))
            }
            Form::Nothing => false,
        };
        match form {
            _ if is_leaf => {
                let mut change = ValueChange::of(before, after);
                change.is_modified = before.is_some() && after.is_some() && before != after;
                return (true, change);
            }
            Form::List(list) => self.lists(list, items(before), items(after), shape),
            Form::Map(map) => self.maps(map, before, after, shape),
            Form::Scalar(_) | Form::Nothing => {}
        }
        (false, ValueChange::default())
    }

    fn maps(&mut self, map: &Map, before: Option<&Value>, after: Option<&Value>, shape: Shape<'_>) {
        let (before, after) = (members(before), members(after));
        let new = after
            .into_iter()
            .flatten()
            .filter(|(name, _)| !before.is_some_and(|before| before.contains_key(*name)));
        let names = before
            .into_iter()
            .flatten()
            .chain(new)
            .map(|(name, _)| name);
        for name in names {
            let Some(id) = map.fields.get(name).copied().or(map.rest) else {
                continue;
            };
            let before = before.and_then(|before| before.get(name));
            let after = after.and_then(|after| after.get(name));
            let mut parts = Self::default();
            let change = parts.compare(before, after, shape.at(id));
            self.add(|| PathElement::field(name), change, parts);
        }
    }

    fn lists(&mut self, list: &List, before: &[Value], after: &[Value], shape: Shape<'_>) {
        type Sides<'a> = (Vec<&'a Value>, Vec<&'a Value>);
        if before == after {
            return;
        }
        let mut sides: BTreeMap<PathElement, Sides<'_>> = BTreeMap::new();
        for item in before {
            if let Ok(step) = item_step(list, item) {
                sides.entry(step).or_default().0.push(item);
            }
        }
        for item in after {
            if let Ok(step) = item_step(list, item) {
                sides.entry(step).or_default().1.push(item);
            }
        }
        let items = shape.at(list.items);
        for (step, (left, right)) in sides {
            let mut parts = Self::default();
            let change = match (left.as_slice(), right.as_slice()) {
                // Equal items have one owner, as one leaf.
                ([_, _, ..], [_, _, ..]) => ValueChange {
                    is_modified: left != right,
                    ..ValueChange::default()
                },
                ([_, _, ..], right) => {
                    let mut change = match right {
                        [one] => parts.compare(None, Some(one), items),
                        _ => ValueChange::default(),
                    };
                    change.is_removed = true;
                    change
                }
                (left, [_, _, ..]) => {
                    let mut change = match left {
                        [one] => parts.compare(Some(one), None, items),
                        _ => ValueChange::default(),
                    };
                    change.is_added = true;
                    change
                }
                (left, right) => {
                    let (left, right) = (left.first().copied(), right.first().copied());
                    parts.compare(left, right, items)
                }
            };
            self.add(|| step.clone(), change, parts);
        }
    }

    /// Adds the change of the value at `step`, and the differences of its fields and items.
    fn add(&mut self, step: impl Fn() -> PathElement, change: ValueChange, parts: Self) {
        self.added.add(&step, change.is_added, parts.added);
        self.modified.add(&step, change.is_modified, parts.modified);
        self.removed.add(&step, change.is_removed, parts.removed);
    }
}
