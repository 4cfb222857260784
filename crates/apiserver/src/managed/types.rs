//! Types, as far as ownership depends on them: leaves, and how items of lists are identified.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::path::Step;

mod builtin;
mod structural;

pub(crate) use builtin::builtin;

/// The types of one or more kinds, which refer to each other.
#[derive(Debug, Clone)]
pub(crate) struct Types {
    nodes: Vec<Node>,
    /// The types of kinds, by `apiVersion` and kind.
    roots: HashMap<(String, String), TypeId>,
}

/// A type in its [`Types`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypeId(usize);

/// A type together with those that it refers to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    types: &'a Types,
    id: TypeId,
}

/// What a value of a type may be: most types allow one of the three.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<List>,
    pub(super) map: Option<Map>,
    /// Whether a typed object has something in it that is not said, but for its metadata.
    pub(super) has_structs: bool,
}

/// Which scalars are allowed.
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

/// How the items of a list are identified.
#[derive(Debug, Clone)]
pub(super) enum ListKind {
    /// They are not: the list is one leaf.
    Atomic,
    /// By their value.
    Set,
    /// By the values of these members, with what counts where one is absent.
    Map(Vec<(String, Option<Value>)>),
}

/// An object.
#[derive(Debug, Clone)]
pub(super) struct Map {
    /// Whether it is one leaf.
    pub(super) is_atomic: bool,
    pub(super) fields: BTreeMap<String, TypeId>,
    /// The fields that a typed object always has: as an empty object if nothing is said.
    pub(super) structs: Vec<String>,
    /// The other fields that a typed object always has, and what they are if nothing is said.
    pub(super) zeros: Vec<(String, Value)>,
    /// The type of members that are not named; nothing if there may be none.
    pub(super) rest: Option<TypeId>,
}

impl TypeId {
    /// Anything, and a leaf whatever it is.
    const LEAF: Self = Self(0);
    /// Anything: objects are maps of the same, and lists are leaves.
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

    /// The types of the versions of a custom resource, from their structural schemas.
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

    /// The type of a kind in a version.
    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Option<Shape<'_>> {
        let key = (api_version.to_owned(), kind.to_owned());
        let id = *self.roots.get(&key)?;
        Some(Shape { types: self, id })
    }

    /// A type that knows nothing: objects are maps, and lists are leaves.
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
        // Ids are made by `add` only, so that they are never out of range.
        &self.types.nodes[self.id.0.min(self.types.nodes.len() - 1)]
    }

    /// Another type among the same.
    pub(super) fn at(self, id: TypeId) -> Self {
        Self { id, ..self }
    }

    /// Whether objects of this type have a field of that name.
    pub(super) fn names(self, field: &str) -> bool {
        let map = self.node().map.as_ref();
        map.is_some_and(|map| map.fields.contains_key(field))
    }

    /// The type of a member of an object of this type; nothing if there may be none.
    pub(super) fn member(self, name: &str) -> Option<Self> {
        let map = self.node().map.as_ref()?;
        let id = map.fields.get(name).copied().or(map.rest)?;
        Some(self.at(id))
    }

    /// The type of what `step` leads to; of what the type does not know, anything.
    pub(super) fn step(self, step: &Step) -> Self {
        let known = match step {
            Step::Field(name) => self.member(name),
            Step::Key(_) | Step::Item(_) | Step::Index(_) => {
                self.node().list.as_ref().map(|list| self.at(list.items))
            }
        };
        known.unwrap_or_else(|| self.types.deduced())
    }

    /// Whether [`with_structs`](Self::with_structs) changes anything that can be owned.
    pub(super) fn has_structs(self) -> bool {
        self.node().has_structs
    }

    /// `value` with the fields that a typed object of Go has where nothing is
    /// said. The real server compares such objects, and so no manager owns a `spec` by
    /// creating it.
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

    /// Whether a value of this type is owned as a whole, although it could have parts.
    pub(super) fn is_atomic(self) -> bool {
        let node = self.node();
        match (&node.map, node.scalar, &node.list) {
            (Some(map), _, _) => map.is_atomic,
            (None, None, Some(list)) => matches!(list.kind, ListKind::Atomic),
            (None, _, _) => false,
        }
    }
}
