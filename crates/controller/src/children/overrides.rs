//! Overrides: a part of an object that is merged into a desired child. *(pure)*

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::InvalidChild;

/// Merges `overrides` into `object`. Null is no overrides.
///
/// # Errors
///
/// [`InvalidChild::Overridden`] if they have a field that identifies the object, and
/// [`InvalidChild::NotAMap`] if they are not a map.
pub(super) fn apply(
    object: &mut Map<String, Value>,
    overrides: &Value,
) -> Result<(), InvalidChild> {
    let fields = match overrides {
        Value::Null => return Ok(()),
        Value::Object(fields) => fields,
        _ => return Err(InvalidChild::NotAMap { field: "overrides" }),
    };
    let empty = Map::new();
    let metadata = match fields.get("metadata") {
        None => &empty,
        Some(Value::Object(metadata)) => metadata,
        Some(_) => {
            return Err(InvalidChild::NotAMap {
                field: "overrides.metadata",
            });
        }
    };
    for (fields, field, name) in [
        (fields, "apiVersion", "apiVersion"),
        (fields, "kind", "kind"),
        (metadata, "metadata.name", "name"),
        (metadata, "metadata.generateName", "generateName"),
        (metadata, "metadata.namespace", "namespace"),
        (metadata, "metadata.uid", "uid"),
        (metadata, "metadata.ownerReferences", "ownerReferences"),
    ] {
        if fields.contains_key(name) {
            return Err(InvalidChild::Overridden { field });
        }
    }
    merge_fields(object, fields);
    Ok(())
}

fn merge_fields(object: &mut Map<String, Value>, overrides: &Map<String, Value>) {
    for (name, value) in overrides {
        if value.is_null() {
            object.remove(name);
        } else {
            let field = object.entry(name.as_str()).or_insert(Value::Null);
            merge(field, value, key_of(name));
        }
    }
}

/// Merges a value that is not null. Items of lists are identified by the field `key`.
fn merge(value: &mut Value, overrides: &Value, key: &str) {
    match (&mut *value, overrides) {
        (Value::Object(fields), Value::Object(overrides)) => merge_fields(fields, overrides),
        (Value::Array(items), Value::Array(overrides))
            if !overrides.is_empty() && are_keyed(items, key) && are_keyed(overrides, key) =>
        {
            for item in overrides {
                match items.iter_mut().find(|it| it[key] == item[key]) {
                    Some(found) => merge(found, item, key),
                    None => items.push(without_nulls(item)),
                }
            }
        }
        _ => *value = without_nulls(overrides),
    }
}

/// The field that identifies the items of the list called `list`.
fn key_of(list: &str) -> &'static str {
    match list {
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        _ => "name",
    }
}

/// Whether each item has a `key` of its own.
fn are_keyed(items: &[Value], key: &str) -> bool {
    let mut keys = HashSet::new();
    let is_keyed = |item: &Value| item.get(key).and_then(Value::as_str).map(str::to_owned);
    (items.iter()).all(|item| is_keyed(item).is_some_and(|key| keys.insert(key)))
}

/// A value to be added: `null` is a field that it does not have.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut object = Map::new();
            merge_fields(&mut object, fields);
            Value::Object(object)
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(object: &Value, overrides: &Value, expected: &Value) {
        let Value::Object(mut merged) = object.clone() else {
            panic!("no object: {object}");
        };
        apply(&mut merged, overrides).expect("valid overrides");
        assert_eq!(Value::Object(merged), *expected);
    }

    /// Rows: BO-66
    #[test]
    fn objects_are_merged_and_null_removes_a_field() {
        let object = json!({ "spec": { "a": 1, "b": { "c": 2, "d": 3 }, "e": "f" } });
        let overrides = json!({ "spec": { "a": null, "b": { "d": 4, "g": { "h": null, "i": 5 } }, "e": { "j": 6 } } });
        let merged =
            json!({ "spec": { "b": { "c": 2, "d": 4, "g": { "i": 5 } }, "e": { "j": 6 } } });
        check(&object, &overrides, &merged);
        check(&object, &json!({}), &object);
        check(&object, &Value::Null, &object);
        check(
            &object,
            &json!({ "spec": null, "metadata": {} }),
            &json!({ "metadata": {} }),
        );
    }

    /// Rows: BO-66
    #[test]
    fn lists_of_named_items_are_merged_by_name_and_others_are_replaced() {
        let list = |items: &[Value]| json!({ "list": items });
        let (a, b) = (
            json!({ "name": "a", "x": 1 }),
            json!({ "name": "b", "x": 2 }),
        );
        let both = list(&[a.clone(), b.clone()]);
        let c = json!({ "name": "c", "y": 3 });
        let changed = json!({ "name": "b", "x": null, "y": 4 });
        let overrides = list(&[c.clone(), changed]);
        check(
            &both,
            &overrides,
            &list(&[a.clone(), json!({ "name": "b", "y": 4 }), c.clone()]),
        );
        check(&both, &list(&[]), &list(&[]));
        let one = list(&[c]);
        check(&json!({}), &one, &one);
        for unnamed in [
            list(&[a.clone(), json!({ "x": 3 })]),
            list(&[json!("d")]),
            list(&[json!({ "name": 1 })]),
            // Which one is meant is not known.
            list(&[a.clone(), a.clone()]),
        ] {
            check(&both, &unnamed, &unnamed);
            check(&unnamed, &both, &both);
        }
    }

    /// Rows: BO-66
    #[test]
    fn mounts_are_merged_by_their_path() {
        let mount = |name: &str, path: &str| json!({ "name": name, "mountPath": path });
        let mounts = |items: &[Value]| json!({ "volumeMounts": items });
        let (data, logs) = (mount("data", "/data"), mount("data", "/logs"));
        let object = mounts(&[data.clone(), logs.clone()]);
        let overrides = mounts(&[mount("logs", "/logs"), mount("data", "/more")]);
        let merged = mounts(&[data, mount("logs", "/logs"), mount("data", "/more")]);
        check(&object, &overrides, &merged);
    }

    /// Rows: BO-66
    #[test]
    fn what_identifies_a_child_is_not_overridden() {
        for (overrides, error) in [
            (json!({ "kind": "Pod" }), "its kind cannot be overridden"),
            (
                json!({ "apiVersion": null }),
                "its apiVersion cannot be overridden",
            ),
            (
                json!({ "metadata": { "name": "b" } }),
                "its metadata.name cannot",
            ),
            (
                json!({ "metadata": { "generateName": "b-" } }),
                "its metadata.generateName cannot",
            ),
            (
                json!({ "metadata": { "namespace": "b" } }),
                "its metadata.namespace cannot",
            ),
            (
                json!({ "metadata": { "uid": "b" } }),
                "its metadata.uid cannot",
            ),
            (
                json!({ "metadata": { "ownerReferences": [] } }),
                "its metadata.ownerReferences cannot",
            ),
            (
                json!({ "metadata": null }),
                "its overrides.metadata must be a map",
            ),
            (json!([]), "its overrides must be a map"),
        ] {
            let mut object = Map::new();
            let refused = apply(&mut object, &overrides)
                .expect_err("refused")
                .to_string();
            assert!(refused.starts_with(error), "{refused}");
            assert!(object.is_empty());
        }
    }
}
