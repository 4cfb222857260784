//! The fields that a write changes, by type.

use std::collections::BTreeMap;

use serde_json::Value;

use super::path::{Step, members};
use super::set::Set;
use super::types::{List, ListKind, Map, Shape};
use super::walk::{Choice, Form, has_parts, item_step, items};

/// The fields in which two values differ. No field is in two of the sets.
#[derive(Debug, Clone, Default)]
pub(super) struct Comparison {
    pub(super) added: Set,
    pub(super) modified: Set,
    pub(super) removed: Set,
}

// === impl Comparison ===

impl Comparison {
    /// Compares two values of one type.
    pub(super) fn of(before: &Value, after: &Value, shape: Shape<'_>) -> Self {
        let mut comparison = Self::default();
        let mut path = Vec::new();
        comparison.compare(Some(before), Some(after), shape, &mut path);
        comparison
    }

    /// The differences but for `ignored` and what lies below.
    pub(super) fn without(self, ignored: &Set) -> Self {
        Self {
            added: self.added.without_below(ignored),
            modified: self.modified.without_below(ignored),
            removed: self.removed.without_below(ignored),
        }
    }

    fn compare(
        &mut self,
        before: Option<&Value>,
        after: Option<&Value>,
        shape: Shape<'_>,
        path: &mut Vec<Step>,
    ) {
        let (left, right) = (Choice::of(shape, before), Choice::of(shape, after));
        let is_leaf = if after.is_none() {
            self.as_form(left.form(shape), before, after, shape, path)
        } else if before.is_none() || left == right {
            self.as_form(right.form(shape), before, after, shape, path)
        } else {
            // The value is of another kind now.
            self.as_form(left.form(shape), before, after, shape, path);
            self.as_form(right.form(shape), before, after, shape, path)
        };
        if !is_leaf {
            match (before, after) {
                (None, _) => self.added.insert(path),
                (_, None) => self.removed.insert(path),
                (Some(_), Some(_)) => {}
            }
        }
    }

    /// Compares two values as `form`; whether they are leaves.
    fn as_form(
        &mut self,
        form: Form<'_>,
        before: Option<&Value>,
        after: Option<&Value>,
        shape: Shape<'_>,
        path: &mut Vec<Step>,
    ) -> bool {
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
            Form::Nothing => return false,
        };
        match form {
            _ if is_leaf => match (before, after) {
                (None, _) => self.added.insert(path),
                (_, None) => self.removed.insert(path),
                (Some(before), Some(after)) if before != after => self.modified.insert(path),
                (Some(_), Some(_)) => {}
            },
            Form::List(list) => self.lists(list, items(before), items(after), shape, path),
            Form::Map(map) => self.maps(map, before, after, shape, path),
            Form::Scalar(_) | Form::Nothing => {}
        }
        is_leaf
    }

    fn maps(
        &mut self,
        map: &Map,
        before: Option<&Value>,
        after: Option<&Value>,
        shape: Shape<'_>,
        path: &mut Vec<Step>,
    ) {
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
            path.push(Step::field(name));
            let before = before.and_then(|before| before.get(name));
            let after = after.and_then(|after| after.get(name));
            self.compare(before, after, shape.at(id), path);
            path.pop();
        }
    }

    fn lists(
        &mut self,
        list: &List,
        before: &[Value],
        after: &[Value],
        shape: Shape<'_>,
        path: &mut Vec<Step>,
    ) {
        type Sides<'a> = (Vec<&'a Value>, Vec<&'a Value>);
        let mut sides: BTreeMap<Step, Sides<'_>> = BTreeMap::new();
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
            path.push(step);
            match (left.as_slice(), right.as_slice()) {
                // Items that are the same as others are owned together, as one leaf.
                ([_, _, ..], [_, _, ..]) => {
                    if left != right {
                        self.modified.insert(path);
                    }
                }
                ([_, _, ..], right) => {
                    if let [one] = right {
                        self.compare(None, Some(one), items, path);
                    }
                    self.removed.insert(path);
                }
                (left, [_, _, ..]) => {
                    if let [one] = left {
                        self.compare(Some(one), None, items, path);
                    }
                    self.added.insert(path);
                }
                (left, right) => {
                    let (left, right) = (left.first().copied(), right.first().copied());
                    self.compare(left, right, items, path);
                }
            }
            path.pop();
        }
    }
}
