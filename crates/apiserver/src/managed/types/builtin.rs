//! The types of the built-in kinds, from a table.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde_json::Value;

use super::{List, ListKind, Map, Node, Scalar, TypeId, Types};

/// The table; its head says what its lines mean.
const TABLE: &str = include_str!("builtin.txt");

/// The type of the metadata of an object.
const OBJECT_META: &str = "meta.v1.ObjectMeta";

/// Read when the first object is written, not when a server starts.
static BUILTIN: LazyLock<Types> = LazyLock::new(|| Reader::read(TABLE).types);

/// The types of the built-in kinds.
pub(crate) fn builtin() -> &'static Types {
    &BUILTIN
}

/// Adds the type of the metadata of an object to other types.
pub(super) fn object_meta(types: &mut Types) -> TypeId {
    // No type of the table refers to more than it needs, and metadata needs few.
    let lines = TABLE
        .lines()
        .filter(|line| line.starts_with("type meta.v1.O"));
    let mut reader = Reader::new(types.clone());
    lines.for_each(|line| reader.line(line));
    let id = reader.named(OBJECT_META);
    *types = reader.types;
    id
}

/// A table that is being read.
struct Reader {
    types: Types,
    /// The places of the types, those that are still to come included.
    names: HashMap<String, TypeId>,
}

// === impl Reader ===

impl Reader {
    fn new(types: Types) -> Self {
        Self {
            types,
            names: HashMap::new(),
        }
    }

    fn read(table: &str) -> Self {
        let mut reader = Self::new(Types::new());
        table.lines().for_each(|line| reader.line(line));
        // A type that is not atomic in one place, although it is elsewhere.
        let overridden: Vec<_> = reader
            .names
            .iter()
            .map(|(n, id)| (n.clone(), *id))
            .collect();
        for (name, id) in overridden {
            if let Some(original) = name.strip_prefix('~') {
                let mut node = reader.node_of(original);
                if let Some(map) = &mut node.map {
                    map.is_atomic = false;
                }
                reader.types.nodes[id.0] = node;
            }
        }
        reader.note_structs();
        reader
    }

    /// Notes which types have fields that are always there, in them or further down. The
    /// metadata of the object itself does not count: no manager owns it as a whole.
    fn note_structs(&mut self) {
        let mut has_changed = true;
        while std::mem::take(&mut has_changed) {
            for at in 0..self.types.nodes.len() {
                let node = &self.types.nodes[at];
                let has = |id: &TypeId| self.types.nodes[id.0].has_structs;
                let in_map = node.map.as_ref().is_some_and(|map| {
                    let own = map.structs.iter().any(|name| name != "metadata");
                    let below = map.fields.iter().any(|(_, id)| has(id));
                    own || below || !map.nulls.is_empty() || map.rest.as_ref().is_some_and(has)
                });
                let in_list = node.list.as_ref().is_some_and(|list| has(&list.items));
                if !node.has_structs && (in_map || in_list) {
                    self.types.nodes[at].has_structs = true;
                    has_changed = true;
                }
            }
        }
    }

    fn node_of(&mut self, name: &str) -> Node {
        let id = self.named(name);
        self.types.nodes[id.0].clone()
    }

    /// The place of a type, which may be read later.
    fn named(&mut self, name: &str) -> TypeId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = self.types.add(Node::default());
        self.names.insert(name.to_owned(), id);
        id
    }

    fn line(&mut self, line: &str) {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("kind"), Some(api_version), Some(kind)) => {
                let id = self.named(words.next().unwrap_or_default());
                let key = (api_version.to_owned(), kind.to_owned());
                self.types.roots.insert(key, id);
            }
            (Some("type"), Some(name), first) => {
                let node = match first {
                    Some(word) if word.starts_with('=') => self.node(&word[1..]),
                    Some("{}") => self.object(true, words),
                    first => self.object(false, first.into_iter().chain(words)),
                };
                let id = self.named(name);
                self.types.nodes[id.0] = node;
            }
            _ => {}
        }
    }

    fn object<'a>(&mut self, is_atomic: bool, words: impl Iterator<Item = &'a str>) -> Node {
        let mut fields = BTreeMap::new();
        let (mut structs, mut nulls) = (Vec::new(), Vec::new());
        for word in words.filter(|word| !word.is_empty()) {
            let (name, shape) = word.split_once(':').unwrap_or((word, ""));
            let plain = shape.strip_prefix('/');
            fields.insert(name.to_owned(), self.shape(plain.unwrap_or(shape)));
            if shape.starts_with('+') {
                structs.push(name.to_owned());
            } else if plain.is_some() {
                nulls.push(name.to_owned());
            }
        }
        let map = Map {
            is_atomic,
            fields,
            structs,
            nulls,
            rest: None,
        };
        Node {
            map: Some(map),
            ..Node::default()
        }
    }

    /// The place of the type that `shape` describes.
    fn shape(&mut self, shape: &str) -> TypeId {
        match shape.chars().next() {
            Some('@' | '+') => self.named(&shape[1..]),
            Some('~') => self.named(shape),
            Some('*') => TypeId::DEDUCED,
            _ => {
                let node = self.node(shape);
                self.types.add(node)
            }
        }
    }

    fn node(&mut self, shape: &str) -> Node {
        let scalar = |scalar| Node {
            scalar: Some(scalar),
            ..Node::default()
        };
        let list = |kind, items| Node {
            list: Some(List { kind, items }),
            ..Node::default()
        };
        let map = |is_atomic, rest| Node {
            map: Some(Map::of_any(is_atomic, rest)),
            ..Node::default()
        };
        match shape {
            "" => scalar(Scalar::Text),
            "#" => scalar(Scalar::Number),
            "!" => scalar(Scalar::Boolean),
            "?" => scalar(Scalar::Any),
            "*" => self.types.nodes[TypeId::DEDUCED.0].clone(),
            "{}" => map(true, TypeId::LEAF),
            "[]" => list(ListKind::Atomic, TypeId::LEAF),
            "[=]" => {
                let items = self.types.add(scalar(Scalar::Any));
                list(ListKind::Set, items)
            }
            shape => match (shape.strip_prefix("{*}"), shape.split_once(']')) {
                (Some(rest), _) => map(false, self.shape(rest)),
                (None, Some((keys, items))) => {
                    let items = self.shape(items);
                    list(ListKind::Map(keys_of(keys)), items)
                }
                (None, None) => self.types.nodes[TypeId::LEAF.0].clone(),
            },
        }
    }
}

/// The keys of a list, as in `[containerPort=0,protocol="TCP"`.
fn keys_of(text: &str) -> Vec<(String, Option<Value>)> {
    let keys = text.trim_start_matches('[').split(',');
    let keys = keys.map(|key| match key.split_once('=') {
        Some((name, default)) => (name.to_owned(), serde_json::from_str(default).ok()),
        None => (key.to_owned(), None),
    });
    keys.collect()
}

#[cfg(test)]
mod tests {
    use super::super::{ListKind, Shape};
    use super::builtin;

    fn at<'a>(mut shape: Shape<'a>, path: &str) -> Shape<'a> {
        for name in path.split('.') {
            shape = shape
                .member(name)
                .unwrap_or_else(|| panic!("{name} of {path}"));
            if let Some(list) = &shape.node().list
                && !matches!(list.kind, ListKind::Atomic)
            {
                shape = shape.at(list.items);
            }
        }
        shape
    }

    #[test]
    fn the_table_says_what_is_a_leaf() {
        let deployment = builtin()
            .kind("apps/v1", "Deployment")
            .expect("it is there");
        assert!(at(deployment, "spec.selector").is_atomic());
        assert!(!at(deployment, "spec.template").is_atomic());
        assert!(at(deployment, "spec.template.spec.tolerations").is_atomic());
        let port = at(deployment, "spec.template.spec.containers.ports");
        assert!(port.names("containerPort"));
        assert!(
            at(deployment, "metadata.labels")
                .member("anything")
                .is_some()
        );
        let volume = builtin()
            .kind("v1", "PersistentVolume")
            .expect("it is there");
        assert!(!at(volume, "spec.claimRef").is_atomic());
        assert!(deployment.has_structs());
        let map = builtin().kind("v1", "ConfigMap").expect("it is there");
        assert!(!map.has_structs());
        let pod = builtin().kind("v1", "Event").expect("it is there");
        assert!(at(pod, "involvedObject").is_atomic());
    }

    #[test]
    fn every_type_that_is_named_is_described() {
        for ((api_version, kind), id) in &builtin().roots {
            let shape = Shape {
                types: builtin(),
                id: *id,
            };
            assert!(shape.names("metadata"), "{api_version} {kind}");
        }
        for (at, node) in builtin().nodes.iter().enumerate() {
            let described = node.scalar.is_some() || node.list.is_some() || node.map.is_some();
            assert!(described, "type {at} is named and not described");
        }
    }
}
