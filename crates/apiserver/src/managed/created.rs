//! The fields of a new object, which its creator owns.
//!
//! Most writes in a test are creates, and most objects have no other manager. Their fields are
//! written as text directly, without a set that is compared with an empty object.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::Value;

use super::fields_v1::FieldsText;
use super::path::{PathElement, members};
use super::set::Set;
use super::types::{ListKind, Shape};
use super::walk::{Choice, Form, item_step, items};

/// Fields that the creator does not own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Excluded<'a> {
    /// These fields and all fields below them.
    pub(super) with_parts: Option<&'a Set>,
    /// Only these fields, not those below them.
    pub(super) alone: Option<&'a Set>,
}

/// Returns the fields of a new object, as `fieldsV1`; `None` if it has no fields.
pub(super) fn fields(object: &Value, shape: Shape<'_>, excluded: Excluded<'_>) -> Option<String> {
    let mut text = FieldsText::default();
    write(&mut text, object, shape, excluded);
    text.finish()
}

/// Writes the fields and items of `value`.
fn write(text: &mut FieldsText, value: &Value, shape: Shape<'_>, excluded: Excluded<'_>) {
    match Choice::of(shape, Some(value)).form(shape) {
        Form::Map(map) if !map.is_atomic => {
            for (name, value) in members(Some(value)).into_iter().flatten() {
                let Some(shape) = shape.member(name) else {
                    continue;
                };
                let Some((is_owned, excluded)) = excluded.at(name) else {
                    continue;
                };
                text.field(name, is_owned, |text| write(text, value, shape, excluded));
            }
        }
        Form::List(list) if !matches!(list.kind, ListKind::Atomic) => {
            let shape = shape.at(list.items);
            // Equal items have one owner, as one leaf.
            let mut steps: BTreeMap<PathElement, Option<&Value>> = BTreeMap::new();
            for item in items(Some(value)) {
                let Ok(step) = item_step(list, item) else {
                    continue;
                };
                match steps.entry(step) {
                    Entry::Vacant(entry) => _ = entry.insert(Some(item)),
                    Entry::Occupied(mut entry) => _ = entry.insert(None),
                }
            }
            for (step, item) in steps {
                text.step(&step, true, |text| {
                    if let Some(item) = item {
                        write(text, item, shape, Excluded::NOTHING);
                    }
                });
            }
        }
        _ => {}
    }
}

// === impl Excluded ===

impl Excluded<'_> {
    const NOTHING: Self = Self {
        with_parts: None,
        alone: None,
    };

    /// Returns whether the field `name` itself is owned, and what is excluded below it; `None` if the
    /// whole field is excluded.
    fn at(&self, name: &str) -> Option<(bool, Self)> {
        if self.with_parts.is_none() && self.alone.is_none() {
            return Some((true, Self::NOTHING));
        }
        let step = PathElement::field(name);
        if self
            .with_parts
            .is_some_and(|set| set.members.contains(&step))
        {
            return None;
        }
        let is_owned = self.alone.is_none_or(|set| !set.members.contains(&step));
        let below = Self {
            with_parts: self.with_parts.and_then(|set| set.below(&step)),
            alone: self.alone.and_then(|set| set.below(&step)),
        };
        Some((is_owned, below))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::super::compare::Comparison;
    use super::super::fields_v1;
    use super::super::set::Set;
    use super::super::types::Types;
    use super::{Excluded, fields};

    fn types() -> Types {
        let text = json!({ "type": "string" });
        let item = json!({ "type": "object", "properties": { "a": text, "b": text } });
        let list = |keywords: Value| {
            let mut list = json!({ "type": "array", "items": item });
            for (keyword, value) in keywords.as_object().into_iter().flatten() {
                list[keyword] = value.clone();
            }
            list
        };
        let schema = json!({ "type": "object", "properties": {
            "a": text,
            "b": { "type": "object", "additionalProperties": text },
            "c": list(json!({
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
            })),
            "d": { "type": "array", "x-kubernetes-list-type": "set", "items": text },
            "e": list(json!({})),
            "f": { "type": "object", "x-kubernetes-map-type": "atomic", "properties": {} },
            "g": { "x-kubernetes-preserve-unknown-fields": true },
        } });
        Types::structural("Thing", [("v1".to_owned(), &schema)])
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = prop::sample::select(vec!["x", "y", "\"\\{", "ü\n"]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i8>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let name = prop::sample::select(vec!["a", "b", "c", "d", "e", "f", "g", "\"{", "ü"]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name, inner, 0..5).prop_map(|members| {
                    let members = members.into_iter();
                    members
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect()
                }),
            ]
        })
    }

    fn set(paths: &[&[&str]]) -> Set {
        let mut set = Set::default();
        for path in paths {
            set.insert_fields(path);
        }
        set
    }

    proptest! {
        #[test]
        fn a_creator_owns_the_difference_from_an_empty_object(object in value()) {
            prop_assume!(object.is_object());
            let types = types();
            let shape = types.kind("v1", "Thing").expect("it has this kind");
            let (ignored, unowned) = (set(&[&["a"], &["b", "x"]]), set(&[&["c"], &["g", "a"]]));

            let comparison = Comparison::of(&Map::new().into(), &object, shape);
            let (added, _) = comparison.without(&ignored).into_written_and_removed();
            let expected = added.difference(&unowned);

            let excluded = Excluded { with_parts: Some(&ignored), alone: Some(&unowned) };
            let text = fields(&object, shape, excluded);
            let expected = (!expected.is_empty()).then(|| fields_v1::encode(&expected));
            prop_assert_eq!(&text, &expected);
            if let Some(text) = text {
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{}", text);
            }
        }
    }
}
