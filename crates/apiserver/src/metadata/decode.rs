//! Decodes the metadata of an object: keeps the known fields, and checks their types.

use serde_json::{Map, Value};

use super::of;
use crate::json::type_name;
use crate::timestamp;

/// The fields of an owner reference.
const OWNER_FIELDS: &[&str] = &[
    "apiVersion",
    "blockOwnerDeletion",
    "controller",
    "kind",
    "name",
    "uid",
];

/// The fields of an entry of `managedFields`.
const ENTRY_FIELDS: &[&str] = &[
    "apiVersion",
    "fieldsType",
    "fieldsV1",
    "manager",
    "operation",
    "subresource",
    "time",
];

/// The fields of `ObjectMeta`. Other fields are dropped.
const FIELDS: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Converts `metadata` to its stored form, which has only known fields that are not empty. Returns the
/// sorted paths of the dropped unknown fields.
///
/// # Errors
///
/// The message of a typed decoder for a field of the wrong type, in which `root` is the path of the
/// metadata.
pub(crate) fn decode(object: &mut Value, root: &str) -> Result<Vec<String>, String> {
    match object.get("metadata") {
        None | Some(Value::Null | Value::Object(_)) => {}
        Some(other) => return Err(mistyped(root, other, "v1.ObjectMeta")),
    }
    let metadata = of(object);
    let mut unknown = Vec::new();
    keep_known(metadata, FIELDS, "metadata", &mut unknown);
    // An empty value of another type is kept, because it is an error.
    metadata.retain(|field, value| {
        let is_map = matches!(field.as_str(), "labels" | "annotations");
        let is_list = matches!(field.as_str(), "finalizers" | "ownerReferences");
        match value {
            Value::Null => false,
            Value::String(text) => !text.is_empty() || is_map || is_list,
            // An empty list is kept, because it requests the removal of all entries.
            Value::Array(list) => !(list.is_empty() && is_list),
            Value::Object(map) => !(map.is_empty() && is_map),
            Value::Bool(_) | Value::Number(_) => true,
        }
    });
    for (field, value) in metadata.iter_mut() {
        let mistyped =
            |value: &Value, wanted: &str| mistyped(&format!("{root}.{field}"), value, wanted);
        match field.as_str() {
            "generation" | "deletionGracePeriodSeconds" => {
                if value.as_i64().is_none() {
                    return Err(mistyped(value, "int64"));
                }
            }
            "labels" | "annotations" => {
                let Some(map) = value.as_object_mut() else {
                    return Err(mistyped(value, "map[string]string"));
                };
                for value in map.values_mut() {
                    match value {
                        Value::Null => *value = "".into(),
                        Value::String(_) => {}
                        other => return Err(mistyped(other, "string")),
                    }
                }
            }
            "ownerReferences" | "managedFields" => {
                let Some(list) = value.as_array_mut() else {
                    return Err(mistyped(value, "[]object"));
                };
                let known = if field == "ownerReferences" {
                    OWNER_FIELDS
                } else {
                    ENTRY_FIELDS
                };
                for (at, item) in list.iter_mut().enumerate() {
                    let Value::Object(item) = item else {
                        return Err(mistyped(item, "object"));
                    };
                    keep_known(
                        item,
                        known,
                        &format!("metadata.{field}[{at}]"),
                        &mut unknown,
                    );
                }
            }
            "finalizers" => {
                let Some(list) = value.as_array() else {
                    return Err(mistyped(value, "[]string"));
                };
                if let Some(other) = list.iter().find(|item| !item.is_string()) {
                    return Err(mistyped(other, "string"));
                }
            }
            "creationTimestamp" | "deletionTimestamp" => match value {
                Value::String(text) => *text = timestamp::seconds(text)?,
                other => return Err(mistyped(other, "string")),
            },
            _ if value.is_string() => {}
            _ => return Err(mistyped(value, "string")),
        }
    }
    unknown.sort();
    Ok(unknown)
}

/// Drops the members of `object` that are not in `known`, and adds their paths to `unknown`; `path` is
/// the path of `object`.
fn keep_known(
    object: &mut Map<String, Value>,
    known: &[&str],
    path: &str,
    unknown: &mut Vec<String>,
) {
    object.retain(|field, _| {
        let is_known = known.contains(&field.as_str());
        if !is_known {
            unknown.push(format!("{path}.{field}"));
        }
        is_known
    });
}

fn mistyped(path: &str, value: &Value, wanted: &str) -> String {
    let found = type_name(value);
    let place = if path.contains('.') {
        format!("struct field {path}")
    } else {
        "value".to_owned()
    };
    format!("json: cannot unmarshal {found} into Go {place} of type {wanted}")
}
