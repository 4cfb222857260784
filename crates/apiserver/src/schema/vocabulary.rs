//! The allowed keywords of a schema, and their values.
//!
//! Source: apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go`,
//! Kubernetes 1.36.

use serde_json::Value;

use super::{compile::Scope, keywords::Keywords, node::Type, value_path::ValuePath};
use crate::status::FieldError;

/// Checks the keywords of one schema, nested or not.
pub(super) fn check(
    words: &Keywords<'_>,
    at: &ValuePath<'_>,
    scope: Scope,
    faults: &mut Vec<FieldError>,
) {
    let path = |keyword| at.child(keyword).to_string();
    check_unsupported(words, at, faults);

    let types = words.text("type", faults).unwrap_or_default();
    if !types.is_empty() && Type::named(types).is_none() {
        let known = Type::ALL.map(Type::name);
        faults.push(FieldError::not_supported(
            path("type"),
            &types.into(),
            known,
        ));
    }
    if types == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        faults.push(FieldError::forbidden(path("type"), why));
    }
    if let (Some(why), Some(_)) = (scope.no_default, words.raw("default")) {
        faults.push(FieldError::forbidden(
            path("default"),
            format!("must not be set {why}"),
        ));
    }
    if words.raw("uniqueItems") == Some(&Value::Bool(true)) {
        let why =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        faults.push(FieldError::forbidden(path("uniqueItems"), why));
    }
    let fields = words
        .entries("properties", faults)
        .is_some_and(|fields| !fields.is_empty());
    if fields
        && words
            .raw("additionalProperties")
            .is_some_and(|more| *more != Value::Bool(true))
    {
        let why = "additionalProperties and properties are mutual exclusive";
        faults.push(FieldError::forbidden(path("additionalProperties"), why));
    }
    let open = "x-kubernetes-preserve-unknown-fields";
    if words.raw(open) == Some(&Value::Bool(false)) {
        let why = "must be true or undefined";
        faults.push(FieldError::invalid(path(open), &false.into(), why));
    }
    let embedded = "x-kubernetes-embedded-resource";
    if scope.in_meta && words.raw(embedded) == Some(&Value::Bool(true)) {
        let why = "must not be used inside of resource meta";
        faults.push(FieldError::forbidden(path(embedded), why));
    }
    check_map_type(words, types, at, faults);
    check_list_type(words, types, at, faults);
}

fn check_unsupported(words: &Keywords<'_>, at: &ValuePath<'_>, faults: &mut Vec<FieldError>) {
    for keyword in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        // An empty object has no effect, and is dropped when a definition is decoded.
        let value = words.raw(keyword);
        if value.is_some_and(|value| value.as_object().is_none_or(|value| !value.is_empty())) {
            let why = format!("{keyword} is not supported");
            faults.push(FieldError::forbidden(at.child(keyword).to_string(), why));
        }
    }
    if words.raw("items").is_some_and(Value::is_array) {
        let why = "items must be a schema object and not an array";
        faults.push(FieldError::forbidden(at.child("items").to_string(), why));
    }
}

fn check_map_type(
    words: &Keywords<'_>,
    types: &str,
    at: &ValuePath<'_>,
    faults: &mut Vec<FieldError>,
) {
    let Some(map) = words.text("x-kubernetes-map-type", faults) else {
        return;
    };
    must_be(
        types,
        "object",
        "must be object if x-kubernetes-map-type is specified",
        at,
        faults,
    );
    if !matches!(map, "atomic" | "granular") {
        let path = at.child("x-kubernetes-map-type").to_string();
        faults.push(FieldError::not_supported(
            path,
            &map.into(),
            ["atomic", "granular"],
        ));
    }
}

fn check_list_type(
    words: &Keywords<'_>,
    types: &str,
    at: &ValuePath<'_>,
    faults: &mut Vec<FieldError>,
) {
    let keys = words.texts("x-kubernetes-list-map-keys", faults);
    let list_at = at.child("x-kubernetes-list-type");
    let list = words.text("x-kubernetes-list-type", faults);
    if !keys.is_empty() && list != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        faults.push(match list {
            None => FieldError::required(list_at.to_string(), why),
            Some(list) => FieldError::invalid(list_at.to_string(), &list.into(), why),
        });
    }
    let Some(list) = list else { return };
    must_be(
        types,
        "array",
        "must be array if x-kubernetes-list-type is specified",
        at,
        faults,
    );
    if !matches!(list, "atomic" | "set" | "map") {
        let known = ["atomic", "set", "map"];
        faults.push(FieldError::not_supported(
            list_at.to_string(),
            &list.into(),
            known,
        ));
    }
    let items = words.raw("items");
    let items_at = at.child("items");
    if matches!(list, "set" | "map") && keyword_in(items, "nullable") == Some(&Value::Bool(true)) {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list}");
        faults.push(FieldError::forbidden(
            items_at.child("nullable").to_string(),
            why,
        ));
    }
    match list {
        "set" => check_set(items, &items_at, faults),
        "map" => check_map(items, &keys, at, faults),
        _ => {}
    }
}

/// Checks that the elements of a set are scalars or atomic, because they are compared as a whole.
fn check_set(items: Option<&Value>, at: &ValuePath<'_>, faults: &mut Vec<FieldError>) {
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let (keyword, is_atomic) = match keyword_in(items, "type").and_then(Value::as_str) {
        Some("array") => {
            let list = keyword_in(items, "x-kubernetes-list-type").and_then(Value::as_str);
            (
                "x-kubernetes-list-type",
                list.is_none_or(|list| list == "atomic"),
            )
        }
        Some("object") => {
            let map = keyword_in(items, "x-kubernetes-map-type").and_then(Value::as_str);
            ("x-kubernetes-map-type", map == Some("atomic"))
        }
        _ => return,
    };
    if !is_atomic {
        let value = keyword_in(items, keyword).unwrap_or(&Value::Null);
        faults.push(FieldError::invalid(
            at.child(keyword).to_string(),
            value,
            why,
        ));
    }
}

/// Checks the fields in `keys`, which identify the elements of a map.
fn check_map(
    items: Option<&Value>,
    keys: &[String],
    at: &ValuePath<'_>,
    faults: &mut Vec<FieldError>,
) {
    let keys_at = at.child("x-kubernetes-list-map-keys");
    let items_at = at.child("items");
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        faults.push(FieldError::required(keys_at.to_string(), why));
    }
    if items.is_none() {
        let why = "must have a schema if x-kubernetes-list-type is map";
        faults.push(FieldError::required(items_at.to_string(), why));
        return;
    }
    let types = keyword_in(items, "type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if types != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        faults.push(FieldError::invalid(
            items_at.child("type").to_string(),
            &types.into(),
            why,
        ));
        return;
    }
    let fields_at = items_at.child("properties");
    let required = keyword_in(items, "required").and_then(Value::as_array);
    for (i, key) in keys.iter().enumerate() {
        if keys[..i].contains(key) {
            let why = "must not contain duplicate entries";
            faults.push(FieldError::invalid(keys_at.to_string(), &keys.into(), why));
        }
        let Some(field) = keyword_in(items, "properties").and_then(|fields| fields.get(key)) else {
            let why = "entries must all be names of item properties";
            faults.push(FieldError::invalid(keys_at.to_string(), &keys.into(), why));
            continue;
        };
        let at = fields_at.key(key);
        if matches!(
            field.get("type").and_then(Value::as_str),
            Some("array" | "object")
        ) {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            faults.push(FieldError::invalid(
                at.child("type").to_string(),
                &types.into(),
                why,
            ));
        }
        let is_required = required.is_some_and(|names| names.iter().any(|name| name == key));
        if !is_required && field.get("default").is_none_or(Value::is_null) {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default \
                       or be a required property";
            faults.push(FieldError::required(at.child("default").to_string(), why));
        }
        if field.get("nullable") == Some(&Value::Bool(true)) {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            faults.push(FieldError::forbidden(at.child("nullable").to_string(), why));
        }
    }
}

fn must_be(types: &str, wanted: &str, why: &str, at: &ValuePath<'_>, faults: &mut Vec<FieldError>) {
    let path = || at.child("type").to_string();
    match types {
        "" => faults.push(FieldError::required(path(), why)),
        other if other == wanted => {}
        other => faults.push(FieldError::invalid(path(), &other.into(), why)),
    }
}

/// Returns a keyword of another part of the schema.
fn keyword_in<'a>(schema: Option<&'a Value>, keyword: &str) -> Option<&'a Value> {
    schema?.get(keyword)
}
