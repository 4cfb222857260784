//! The properties of types that determine ownership: leaves, and the identity of list items.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::path::PathElement;

mod builtin;
mod structural;

pub(crate) use builtin::builtin;

/// The types of one or more kinds, and the types to which they refer.
#[derive(Debug, Clone)]
pub(crate) struct Types {
    nodes: Vec<Node>,
    /// The types of kinds, by `apiVersion` and kind.
    roots: HashMap<(String, String), TypeId>,
}

/// A type in its [`Types`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypeId(usize);

/// A type, with the types to which it refers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    types: &'a Types,
    id: TypeId,
}

/// The allowed values of a type: most types allow one of scalars, lists and objects.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<List>,
    pub(super) map: Option<Map>,
    /// Whether a Go value of this type has fields that the JSON lacks, except in its metadata.
    pub(super) has_structs: bool,
}

/// The allowed scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Number,
    Text,
    Boolean,
    Any,
}

/// A list.
#[derive(Debug, Clone)]
pub(super) struct List {
    pub(super) kind: ListKind,
    pub(super) items: TypeId,
}

/// The identity of the items of a list.
#[derive(Debug, Clone)]
pub(super) enum ListKind {
    /// Items have no identity: the list is one leaf.
    Atomic,
    /// The value of the item.
    Set,
    /// The values of these members, each with the default for a missing one.
    Map(Vec<(String, Option<Value>)>),
}

/// An object.
#[derive(Debug, Clone)]
pub(super) struct Map {
    /// Whether the object is one leaf.
    pub(super) is_atomic: bool,
    pub(super) fields: BTreeMap<String, TypeId>,
    /// The fields that a Go value always has, as an empty object if the JSON lacks them.
    pub(super) structs: Vec<String>,
    /// The other fields that a Go value always has, and their values if the JSON lacks them.
    pub(super) zeros: Vec<(String, Value)>,
    /// The type of all other members; `None` if other members are not allowed.
    pub(super) rest: Option<TypeId>,
}

impl TypeId {
    /// Any value, as a leaf.
    const LEAF: Self = Self(0);
    /// Any value: objects are maps of this type, and lists are leaves.
    const DEDUCED: Self = Self(1);
}

// === impl Types ===

impl Types {
    fn new() -> Self {
        let anything = |map: Map| Node {
            scalar: Some(Scalar::Any),
            list: Some(List {
                kind: ListKind::Atomic,
                items: TypeId::LEAF,
            }),
            map: Some(map),
            ..Node::default()
        };
        let leaf = anything(Map::of_any(true, TypeId::LEAF));
        let deduced = anything(Map::of_any(false, TypeId::DEDUCED));
        Self {
            nodes: vec![leaf, deduced],
            roots: HashMap::new(),
        }
    }

    /// Creates the types of the versions of a custom resource from their structural schemas.
    pub(crate) fn structural<'a>(
        kind: &str,
        versions: impl IntoIterator<Item = (String, &'a Value)>,
    ) -> Self {
        let mut types = Self::new();
        for (api_version, schema) in versions {
            let root = structural::convert(&mut types, schema);
            types.roots.insert((api_version, kind.to_owned()), root);
        }
        types
    }

    /// Returns the type of a kind in a version.
    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Option<Shape<'_>> {
        let key = (api_version.to_owned(), kind.to_owned());
        let id = *self.roots.get(&key)?;
        Some(Shape { types: self, id })
    }

    /// Returns a type for any value: objects are maps, and lists are leaves.
    pub(crate) fn deduced(&self) -> Shape<'_> {
        Shape {
            types: self,
            id: TypeId::DEDUCED,
        }
    }

    fn add(&mut self, node: Node) -> TypeId {
        self.nodes.push(node);
        TypeId(self.nodes.len() - 1)
    }
}

// === impl Map ===

impl Map {
    fn of_any(is_atomic: bool, rest: TypeId) -> Self {
        Self {
            is_atomic,
            fields: BTreeMap::new(),
            structs: Vec::new(),
            zeros: Vec::new(),
            rest: Some(rest),
        }
    }
}

// === impl Shape ===

impl<'a> Shape<'a> {
    pub(super) fn node(self) -> &'a Node {
        // Only `add` creates ids, so they are never out of range.
        &self.types.nodes[self.id.0.min(self.types.nodes.len() - 1)]
    }

    /// Returns another type of the same `Types`.
    pub(super) fn at(self, id: TypeId) -> Self {
        Self { id, ..self }
    }

    /// Returns whether objects of this type have a field with this name.
    pub(super) fn names(self, field: &str) -> bool {
        let map = self.node().map.as_ref();
        map.is_some_and(|map| map.fields.contains_key(field))
    }

    /// Returns the type of a member of an object; `None` if the member is not allowed.
    pub(super) fn member(self, name: &str) -> Option<Self> {
        let map = self.node().map.as_ref()?;
        let id = map.fields.get(name).copied().or(map.rest)?;
        Some(self.at(id))
    }

    /// Returns the type at `step`; a type for any value if it is unknown.
    pub(super) fn step(self, step: &PathElement) -> Self {
        let known = match step {
            PathElement::Field(name) => self.member(name),
            PathElement::Key(_) | PathElement::Item(_) | PathElement::Index(_) => {
                self.node().list.as_ref().map(|list| self.at(list.items))
            }
        };
        known.unwrap_or_else(|| self.types.deduced())
    }

    /// Returns whether [`with_structs`](Self::with_structs) changes a field that can be owned.
    pub(super) fn has_structs(self) -> bool {
        self.node().has_structs
    }

    /// Returns `value` with the fields that a Go value has although the JSON lacks them. The real
    /// server compares Go values, so a manager does not become the owner of a `spec` by creating it.
    pub(super) fn with_structs(self, value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let filled = members.iter().map(|(name, value)| {
                    let shape = self.member(name);
                    let value = shape.map_or_else(|| value.clone(), |it| it.with_structs(value));
                    (name.clone(), value)
                });
                let mut filled: serde_json::Map<_, _> = filled.collect();
                let map = self.node().map.as_ref().filter(|map| !map.is_atomic);
                for (name, zero) in map.into_iter().flat_map(|map| &map.zeros) {
                    filled.entry(name).or_insert_with(|| zero.clone());
                }
                for name in map.into_iter().flat_map(|map| &map.structs) {
                    if !filled.contains_key(name)
                        && let Some(shape) = self.member(name)
                    {
                        let empty = Value::Object(serde_json::Map::new());
                        filled.insert(name.clone(), shape.with_structs(&empty));
                    }
                }
                filled.into()
            }
            Value::Array(items) => match &self.node().list {
                Some(list) if !matches!(list.kind, ListKind::Atomic) => {
                    let shape = self.at(list.items);
                    items.iter().map(|item| shape.with_structs(item)).collect()
                }
                _ => value.clone(),
            },
            _ => value.clone(),
        }
    }

    /// Returns whether a value of this type is owned as a whole although it has fields or items.
    pub(super) fn is_atomic(self) -> bool {
        let node = self.node();
        match (&node.map, node.scalar, &node.list) {
            (Some(map), _, _) => map.is_atomic,
            (None, None, Some(list)) => matches!(list.kind, ListKind::Atomic),
            (None, _, _) => false,
        }
    }
}
