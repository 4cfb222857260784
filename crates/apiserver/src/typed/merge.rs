//! Merges members of the same name in the body of a request, like Go. *(pure)*
//!
//! Go decodes each of these members into the same field, in order: structs and maps are merged, and
//! so are the items of lists with the same index. Other values are replaced.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use super::table::{Field, FieldType, Struct, named};

/// JSON with all members of its objects.
enum Tree {
    Scalar(Value),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

struct TreeVisitor;

/// Reads `body` as an object of type `kind`, and merges the members of the same name. `None` if it
/// is not JSON.
pub(crate) fn merge_duplicates(kind: &'static Struct, body: &[u8]) -> Option<Value> {
    match serde_json::from_slice(body).ok()? {
        Tree::Object(members) => Some(merge_struct(kind, Map::new(), members)),
        tree => Some(tree.into_value()),
    }
}

fn merge_struct(
    kind: &'static Struct,
    mut object: Map<String, Value>,
    members: Vec<(String, Tree)>,
) -> Value {
    for (name, tree) in members {
        let merged = match kind.fields.get(name.as_str()) {
            Some(field) => merge_field(field, object.remove(&name), tree),
            None => tree.into_value(),
        };
        object.insert(name, merged);
    }
    object.into()
}

/// Returns the value of a field after Go decodes `tree` into it; `before` is its value before that.
fn merge_field(field: &Field, before: Option<Value>, tree: Tree) -> Value {
    if matches!(tree, Tree::Scalar(Value::Null)) && !field.is_pointer {
        // Go does not change fields of these types.
        let is_unchanged = match field.shape {
            FieldType::Text(_)
            | FieldType::Int32(_)
            | FieldType::Int64(_)
            | FieldType::Double
            | FieldType::Bool
            | FieldType::Struct(_) => true,
            FieldType::Bytes
            | FieldType::Time
            | FieldType::MicroTime
            | FieldType::Duration
            | FieldType::Quantity
            | FieldType::IntOrString
            | FieldType::Json
            | FieldType::SchemaOr
            | FieldType::List(..)
            | FieldType::Map(..) => false,
        };
        if is_unchanged {
            return before.unwrap_or_default();
        }
    }
    merge(&field.shape, before.unwrap_or_default(), tree)
}

/// Returns the value after Go decodes `tree` into `before`. A value of the wrong type is kept,
/// because Go reports the first one.
fn merge(shape: &FieldType, before: Value, tree: Tree) -> Value {
    if !before.is_null() && !fits(shape, &before) {
        return before;
    }
    match (shape, tree) {
        (FieldType::Struct(name), Tree::Object(members)) => match named(name) {
            Some(kind) => merge_struct(kind, object(before), members),
            None => Tree::Object(members).into_value(),
        },
        (FieldType::Map(_, values), Tree::Object(members)) => {
            let mut map = object(before);
            for (name, tree) in members {
                // Go decodes each value of a map into a new value.
                let value = merge(values, Value::Null, tree);
                match map.entry(name) {
                    Entry::Vacant(entry) => {
                        entry.insert(value);
                    }
                    Entry::Occupied(mut entry) => {
                        if entry.get().is_null() || fits(values, entry.get()) {
                            entry.insert(value);
                        }
                    }
                }
            }
            map.into()
        }
        (FieldType::List(_, items), Tree::List(trees)) => {
            let mut before = match before {
                Value::Array(list) => list.into_iter(),
                _ => Vec::new().into_iter(),
            };
            let merged = trees
                .into_iter()
                .map(|tree| merge(items, before.next().unwrap_or_default(), tree));
            merged.collect()
        }
        (_, tree) => tree.into_value(),
    }
}

/// Whether Go reads the JSON type of a value into a field of this type.
fn fits(shape: &FieldType, value: &Value) -> bool {
    match shape {
        FieldType::Text(_) | FieldType::Bytes => value.is_string(),
        FieldType::Int32(_) | FieldType::Int64(_) | FieldType::Double => value.is_number(),
        FieldType::Bool => value.is_boolean(),
        FieldType::Struct(_) | FieldType::Map(..) => value.is_object(),
        FieldType::List(..) => value.is_array(),
        FieldType::Time
        | FieldType::MicroTime
        | FieldType::Duration
        | FieldType::Quantity
        | FieldType::IntOrString
        | FieldType::Json
        | FieldType::SchemaOr => true,
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

// === impl Tree ===

impl Tree {
    /// Converts to JSON. The last member of each name is kept.
    fn into_value(self) -> Value {
        match self {
            Self::Scalar(value) => value,
            Self::List(items) => items.into_iter().map(Self::into_value).collect(),
            Self::Object(members) => {
                let members = members.into_iter();
                let members = members.map(|(name, tree)| (name, tree.into_value()));
                Value::Object(members.collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

// === impl TreeVisitor ===

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        let number = Number::from_f64(value);
        let number = number.ok_or_else(|| E::custom("a number that is not finite"))?;
        Ok(Tree::Scalar(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Tree::Object(object))
    }
}
