//! The types of the built-in kinds, from the table of their Go types.

use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, OnceLock};

use serde_json::Value;

use super::{List, ListKind, Map, Node, Scalar, Shape, TypeId, Types};
use crate::typed::{self, Empty, Field, Struct};

/// The type of the metadata of an object.
const OBJECT_META: &str = "meta.v1.ObjectMeta";

/// The types whose JSON fields are leaves: the schema of a definition, and revisions.
const WITH_VALUES: [&str; 2] = [
    "apiextensions.v1.JSONSchemaProps",
    "apps.v1.ControllerRevision",
];

/// The types of each kind, by its name. They are created when the first object is written.
static KINDS: LazyLock<HashMap<&str, OnceLock<Types>>> = LazyLock::new(|| {
    let kinds = typed::kinds().filter_map(|(api_version, kind)| typed::kind(api_version, kind));
    kinds.map(|kind| (kind.name, OnceLock::new())).collect()
});

/// The type of kinds that are not in the table.
static UNKNOWN: LazyLock<Types> = LazyLock::new(Types::new);

/// Returns the type of a built-in kind in a version; a type for any value if it is unknown.
pub(crate) fn builtin(api_version: &str, kind: &str) -> Shape<'static> {
    let known = typed::kind(api_version, kind).and_then(|root| {
        let types = KINDS.get(root.name)?;
        let types = types.get_or_init(|| read(api_version, kind));
        types.kind(api_version, kind)
    });
    known.unwrap_or_else(|| UNKNOWN.deduced())
}

/// Adds the type of metadata to `types`.
pub(super) fn object_meta(types: &mut Types) -> TypeId {
    let mut reader = Reader {
        types: std::mem::replace(types, Types::new()),
        names: HashMap::new(),
    };
    let id = reader.named(OBJECT_META, false);
    *types = reader.types;
    id
}

fn read(api_version: &str, kind: &str) -> Types {
    let mut reader = Reader {
        types: Types::new(),
        names: HashMap::new(),
    };
    if let Some(root) = typed::kind(api_version, kind) {
        let id = reader.named(root.name, false);
        let key = (api_version.to_owned(), kind.to_owned());
        reader.types.roots.insert(key, id);
    }
    reader.note_structs();
    reader.types
}

/// Types while they are created from the table.
struct Reader {
    types: Types,
    /// The ids of the types, also of those that are not created yet, by name and by whether they are
    /// granular although they are atomic elsewhere.
    names: HashMap<(&'static str, bool), TypeId>,
}

// === impl Reader ===

impl Reader {
    /// Marks the types that have fields which a Go value always has, also at deeper levels. The
    /// metadata of the object does not count: no manager owns it as a whole.
    fn note_structs(&mut self) {
        let mut has_changed = true;
        while std::mem::take(&mut has_changed) {
            for at in 0..self.types.nodes.len() {
                let node = &self.types.nodes[at];
                let has = |id: &TypeId| self.types.nodes[id.0].has_structs;
                let in_map = node.map.as_ref().is_some_and(|map| {
                    let own = map.structs.iter().any(|name| name != "metadata");
                    let below = map
                        .fields
                        .iter()
                        .any(|(name, id)| name != "metadata" && has(id));
                    own || below || !map.zeros.is_empty() || map.rest.as_ref().is_some_and(has)
                });
                let in_list = node
                    .list
                    .as_ref()
                    .is_some_and(|list| !matches!(list.kind, ListKind::Atomic) && has(&list.items));
                if !node.has_structs && (in_map || in_list) {
                    self.types.nodes[at].has_structs = true;
                    has_changed = true;
                }
            }
        }
    }

    /// Returns the id of a type.
    fn named(&mut self, name: &'static str, is_granular: bool) -> TypeId {
        if let Some(id) = self.names.get(&(name, is_granular)) {
            return *id;
        }
        let id = self.types.add(Node::default());
        self.names.insert((name, is_granular), id);
        if let Some(found) = typed::named(name) {
            let map = self.fields(found, found.is_atomic && !is_granular);
            self.types.nodes[id.0].map = Some(map);
        }
        id
    }

    fn fields(&mut self, found: &'static Struct, is_atomic: bool) -> Map {
        let mut fields = BTreeMap::new();
        let (mut structs, mut zeros) = (Vec::new(), Vec::new());
        for (name, field) in &found.fields {
            let is_struct = matches!(field.shape, typed::FieldType::Struct(_)) && !field.is_pointer;
            if is_struct && field.empty != Empty::Zero {
                structs.push((*name).to_owned());
            } else if let Some(zero) = typed::zero_member(field).filter(|_| !is_struct) {
                zeros.push(((*name).to_owned(), zero));
            }
            // Values of any type, such as defaults in the schema of a definition.
            let is_value = match &field.shape {
                typed::FieldType::List(_, items) => **items == typed::FieldType::Json,
                shape => *shape == typed::FieldType::Json,
            };
            let id = if is_value && WITH_VALUES.contains(&found.name) {
                TypeId::LEAF
            } else {
                self.field(field)
            };
            fields.insert((*name).to_owned(), id);
        }
        Map {
            is_atomic,
            fields,
            structs,
            zeros,
            rest: None,
        }
    }

    fn field(&mut self, field: &'static Field) -> TypeId {
        match &field.shape {
            typed::FieldType::Struct(name) => self.named(name, field.map == Some("granular")),
            typed::FieldType::List(_, items) => {
                let kind = match &field.list {
                    typed::ListKind::Atomic => ListKind::Atomic,
                    typed::ListKind::Set => ListKind::Set,
                    typed::ListKind::Map(keys) => ListKind::Map(keys_of(keys, items)),
                };
                let items = self.shape(items);
                self.types.add(Node {
                    list: Some(List { kind, items }),
                    ..Node::default()
                })
            }
            typed::FieldType::Map(_, values) if field.map == Some("atomic") => {
                let values = self.shape(values);
                self.types.add(map(true, values))
            }
            shape => self.shape(shape),
        }
    }

    fn shape(&mut self, shape: &'static typed::FieldType) -> TypeId {
        use typed::FieldType as S;
        let node = match shape {
            S::Struct(name) => return self.named(name, false),
            S::Map(_, values) => {
                let values = self.shape(values);
                map(false, values)
            }
            S::List(_, items) => {
                let items = self.shape(items);
                Node {
                    list: Some(List {
                        kind: ListKind::Atomic,
                        items,
                    }),
                    ..Node::default()
                }
            }
            S::Text(_) | S::Bytes | S::Duration => scalar(Scalar::Text),
            S::Int32(_) | S::Int64(_) | S::Double => scalar(Scalar::Number),
            S::Bool => scalar(Scalar::Boolean),
            S::Time | S::MicroTime | S::Quantity => scalar(Scalar::Any),
            // Its type is checked when the object is decoded.
            S::IntOrString => return TypeId::LEAF,
            S::Json => map(true, TypeId::LEAF),
            S::SchemaOr => return TypeId::DEDUCED,
        };
        self.types.add(node)
    }
}

fn scalar(scalar: Scalar) -> Node {
    Node {
        scalar: Some(scalar),
        ..Node::default()
    }
}

fn map(is_atomic: bool, rest: TypeId) -> Node {
    Node {
        map: Some(Map::of_any(is_atomic, rest)),
        ..Node::default()
    }
}

/// Returns the keys of a list, with their defaults in its items.
fn keys_of(keys: &[&str], items: &typed::FieldType) -> Vec<(String, Option<Value>)> {
    let item = match items {
        typed::FieldType::Struct(name) => typed::named(name),
        _ => None,
    };
    let default = |key: &str| {
        let default = item?.fields.get(key)?.default?;
        serde_json::from_str(default).ok()
    };
    let keys = keys.iter().map(|key| ((*key).to_owned(), default(key)));
    keys.collect()
}

#[cfg(test)]
mod tests {
    use super::super::{ListKind, Shape};
    use super::builtin;
    use crate::typed;

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
    fn the_table_defines_which_values_are_atomic() {
        let deployment = builtin("apps/v1", "Deployment");
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
        let volume = builtin("v1", "PersistentVolume");
        assert!(!at(volume, "spec.claimRef").is_atomic());
        assert!(deployment.has_structs());
        assert!(!builtin("v1", "ConfigMap").has_structs());
        assert!(at(builtin("v1", "Event"), "involvedObject").is_atomic());
    }

    #[test]
    fn every_referenced_type_is_described() {
        for (api_version, kind) in typed::kinds() {
            let shape = builtin(api_version, kind);
            assert!(shape.names("metadata"), "{api_version} {kind}");
            for (at, node) in shape.types.nodes.iter().enumerate() {
                let described = node.scalar.is_some() || node.list.is_some() || node.map.is_some();
                assert!(described, "type {at} of {kind} is named and not described");
            }
        }
    }
}
