//! The schemas of built-in kinds, generated from the table of their types. They equal those of
//! kube-apiserver, except the descriptions, which `descriptions` adds, and the differences in
//! `docs/apiserver.md`.

use serde_json::{Map, Value, json};

use crate::typed::{self, Empty, Field, FieldType, ListKind, Struct};

/// The schemas of types other than structs.
const SPECIAL: [(&str, &str); 8] = [
    (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        r#"{"oneOf":[{"type":"string"},{"type":"number"}]}"#,
    ),
    (
        "io.k8s.apimachinery.pkg.apis.meta.v1.Duration",
        r#"{"type":"string"}"#,
    ),
    (
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
        r#"{"format":"date-time","type":"string"}"#,
    ),
    (
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
        r#"{"format":"date-time","type":"string"}"#,
    ),
    (
        "io.k8s.apimachinery.pkg.runtime.RawExtension",
        r#"{"type":"object"}"#,
    ),
    (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        r#"{"format":"int-or-string","oneOf":[{"type":"integer"},{"type":"string"}]}"#,
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
        "{}",
    ),
    (
        "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
        r#"{"type":"object"}"#,
    ),
];

/// Returns the name of the schema of a type, such as `io.k8s.api.apps.v1.Deployment`.
pub(super) fn definition(name: &str) -> String {
    let prefix = match name.split('.').next() {
        Some("meta") => "io.k8s.apimachinery.pkg.apis",
        Some("apiextensions") => "io.k8s.apiextensions-apiserver.pkg.apis",
        Some("apiregistration") => "io.k8s.kube-aggregator.pkg.apis",
        _ => "io.k8s.api",
    };
    format!("{prefix}.{name}")
}

/// Adds the schema of a type, and the schemas of all types to which it refers.
pub(super) fn add(kind: &'static Struct, schemas: &mut Map<String, Value>) {
    let mut waiting = vec![kind];
    while let Some(found) = waiting.pop() {
        let name = definition(found.name);
        if schemas.contains_key(&name) {
            continue;
        }
        let mut properties = Map::new();
        for (name, field) in &found.fields {
            let property = match (found.name, *name) {
                // The table of types does not distinguish it from other JSON.
                ("meta.v1.ManagedFieldsEntry", "fieldsV1") => special(SPECIAL[7], schemas),
                _ => property(field, schemas, &mut waiting),
            };
            properties.insert((*name).to_owned(), property);
        }
        let required = found.fields.iter().filter(|(_, field)| field.is_required);
        let required: Vec<_> = required.map(|(name, _)| *name).collect();
        let mut schema = json!({ "type": "object" });
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if found.is_atomic {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        schemas.insert(name, schema);
    }
}

fn property(
    field: &'static Field,
    schemas: &mut Map<String, Value>,
    waiting: &mut Vec<&'static Struct>,
) -> Value {
    let mut schema = shape(&field.shape, schemas, waiting);
    if let Some(Ok(default)) = field.default.map(serde_json::from_str::<Value>) {
        schema["default"] = default;
    } else if is_struct(&field.shape) && !field.is_pointer && field.empty != Empty::Zero {
        schema["default"] = json!({});
    }
    if !field.values.is_empty() && matches!(field.shape, FieldType::Text(_)) {
        schema["enum"] = json!(field.values);
    }
    if matches!(field.shape, FieldType::List(..)) {
        schema["x-kubernetes-list-type"] = match &field.list {
            ListKind::Atomic => "atomic".into(),
            ListKind::Set => "set".into(),
            ListKind::Map(keys) => {
                schema["x-kubernetes-list-map-keys"] = json!(keys);
                "map".into()
            }
        };
    }
    if let Some(kind) = field.map {
        schema["x-kubernetes-map-type"] = kind.into();
    }
    if !field.strategy.is_empty() {
        schema["x-kubernetes-patch-strategy"] = field.strategy.into();
    }
    if !field.merge_key.is_empty() {
        schema["x-kubernetes-patch-merge-key"] = field.merge_key.into();
    }
    schema
}

fn is_struct(shape: &FieldType) -> bool {
    matches!(shape, FieldType::Struct(_))
}

fn shape(
    found: &'static FieldType,
    schemas: &mut Map<String, Value>,
    waiting: &mut Vec<&'static Struct>,
) -> Value {
    let found = match found {
        FieldType::Text(_) => return json!({ "type": "string" }),
        FieldType::Bytes => return json!({ "format": "byte", "type": "string" }),
        FieldType::Int32(_) => return json!({ "format": "int32", "type": "integer" }),
        FieldType::Int64(_) => return json!({ "format": "int64", "type": "integer" }),
        FieldType::Double => return json!({ "format": "double", "type": "number" }),
        FieldType::Bool => return json!({ "type": "boolean" }),
        FieldType::List(_, items) => {
            let items = element(items, schemas, waiting);
            return json!({ "items": items, "type": "array" });
        }
        FieldType::Map(_, values) => {
            let values = element(values, schemas, waiting);
            return json!({ "additionalProperties": values, "type": "object" });
        }
        FieldType::Struct(name) => {
            if let Some(named) = typed::named(name) {
                waiting.push(named);
            }
            return reference(&definition(name));
        }
        FieldType::Quantity => SPECIAL[0],
        FieldType::Duration => SPECIAL[1],
        FieldType::MicroTime => SPECIAL[2],
        FieldType::Time => SPECIAL[3],
        FieldType::Json => SPECIAL[4],
        FieldType::IntOrString => SPECIAL[5],
        FieldType::SchemaOr => SPECIAL[6],
    };
    special(found, schemas)
}

/// Returns the schema of the items of a list or the values of a map, with the default of their type.
fn element(
    found: &'static FieldType,
    schemas: &mut Map<String, Value>,
    waiting: &mut Vec<&'static Struct>,
) -> Value {
    let mut schema = shape(found, schemas, waiting);
    let default = match found {
        FieldType::Text(_) => json!(""),
        FieldType::Int32(_) | FieldType::Int64(_) | FieldType::Double => json!(0),
        FieldType::Bool => json!(false),
        FieldType::Struct(_) => json!({}),
        FieldType::Bytes | FieldType::List(..) | FieldType::Map(..) => return schema,
        // A reference without a default is not in `allOf`.
        _ => return schema["allOf"][0].take(),
    };
    schema["default"] = default;
    schema
}

/// Adds a schema of [`SPECIAL`], and returns a reference to it.
fn special(
    (name, schema): (&'static str, &'static str),
    schemas: &mut Map<String, Value>,
) -> Value {
    if !schemas.contains_key(name)
        && let Ok(schema) = serde_json::from_str::<Value>(schema)
    {
        schemas.insert(name.to_owned(), schema);
    }
    reference(name)
}

fn reference(name: &str) -> Value {
    json!({ "allOf": [{ "$ref": format!("#/components/schemas/{name}") }] })
}
