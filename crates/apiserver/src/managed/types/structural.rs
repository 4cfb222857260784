//! Types from the structural schema of a custom resource.
//!
//! Source: kube-openapi `pkg/schemaconv`.

use serde_json::Value;

use super::{List, ListKind, Map, Node, Scalar, TypeId, Types, builtin};

/// Adds the type of complete objects.
pub(super) fn convert(types: &mut Types, schema: &Value) -> TypeId {
    let mut node = node(types, schema, false);
    describe_object(types, &mut node);
    types.add(node)
}

/// Adds the fields of every complete object, which its schema does not have to define.
fn describe_object(types: &mut Types, node: &mut Node) {
    let text = types.add(scalar(Scalar::Text));
    let metadata = builtin::object_meta(types);
    if let Some(map) = &mut node.map {
        map.fields.insert("apiVersion".to_owned(), text);
        map.fields.insert("kind".to_owned(), text);
        map.fields.insert("metadata".to_owned(), metadata);
    }
}

/// Returns the type of `schema`. `open`: whether the parent allows unknown fields.
fn node(types: &mut Types, schema: &Value, open: bool) -> Node {
    let is = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
    let open = open || is("x-kubernetes-preserve-unknown-fields");
    let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str);
    let mut node = match text("type") {
        Some("object") => Node {
            map: Some(map(types, schema, open)),
            ..Node::default()
        },
        Some("array") => Node {
            list: Some(list(types, schema, open)),
            ..Node::default()
        },
        Some("integer" | "number") => scalar(Scalar::Number),
        Some("boolean") => scalar(Scalar::Boolean),
        Some("string") => scalar(match text("format") {
            None | Some("" | "byte") => Scalar::Text,
            Some(_) => Scalar::Any,
        }),
        _ => Node {
            scalar: Some(Scalar::Any),
            list: Some(list(types, schema, open)),
            map: Some(map(types, schema, open)),
            ..Node::default()
        },
    };
    if is("x-kubernetes-embedded-resource") {
        describe_object(types, &mut node);
    }
    node
}

fn scalar(scalar: Scalar) -> Node {
    Node {
        scalar: Some(scalar),
        ..Node::default()
    }
}

fn map(types: &mut Types, schema: &Value, open: bool) -> Map {
    let properties = schema.get("properties").and_then(Value::as_object);
    let fields = properties.into_iter().flatten().map(|(name, schema)| {
        let node = node(types, schema, open);
        (name.clone(), types.add(node))
    });
    let fields: std::collections::BTreeMap<_, _> = fields.collect();
    let rest = match schema.get("additionalProperties") {
        None | Some(Value::Null) => (open || fields.is_empty()).then_some(TypeId::DEDUCED),
        Some(Value::Bool(allowed)) => allowed.then_some(TypeId::DEDUCED),
        Some(schema) => {
            let node = node(types, schema, open);
            Some(types.add(node))
        }
    };
    Map {
        is_atomic: schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
        fields,
        structs: Vec::new(),
        zeros: Vec::new(),
        rest,
    }
}

fn list(types: &mut Types, schema: &Value, open: bool) -> List {
    let items = schema.get("items").filter(|items| items.is_object());
    let kind = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListKind::Set,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys");
            let keys = keys.and_then(Value::as_array).into_iter().flatten();
            let keys = keys.filter_map(Value::as_str).map(|key| {
                let default = items
                    .and_then(|items| items.get("properties")?.get(key)?.get("default"))
                    .cloned();
                (key.to_owned(), default)
            });
            ListKind::Map(keys.collect())
        }
        _ => ListKind::Atomic,
    };
    let items = items.map_or(TypeId::LEAF, |items| {
        let node = node(types, items, open);
        types.add(node)
    });
    List { kind, items }
}
