//! The rules of structural schemas.
//!
//! The types, fields and items of an object are defined once, outside of `allOf`, `anyOf`, `oneOf`
//! and `not`, which contain only rules about values. So pruning and defaulting do not depend on the
//! clause that applies.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/validation.go` and
//! `complete.go`, Kubernetes 1.36.

use serde_json::{Map, Value};

use super::{
    compile::Level,
    keywords::Keywords,
    node::{Node, Types},
    value_path::ValuePath,
};
use crate::status::FieldError;

/// Checks a schema that is not nested.
pub(super) fn check(
    words: &Keywords<'_>,
    at: &ValuePath<'_>,
    level: Level,
    faults: &mut Vec<FieldError>,
) {
    let types = words
        .raw("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let flag = |keyword| words.raw(keyword) == Some(&Value::Bool(true));
    let open = flag("x-kubernetes-preserve-unknown-fields");
    let embedded = flag("x-kubernetes-embedded-resource");
    let int_or_string = flag("x-kubernetes-int-or-string");
    let path = |keyword| at.child(keyword).to_string();

    if types == "array" && words.raw("items").is_none() {
        faults.push(FieldError::required(path("items"), "must be specified"));
    }
    if level == Level::Root && flag("nullable") {
        let why = "nullable cannot be true at the root";
        faults.push(FieldError::forbidden(path("nullable"), why));
    }
    if level == Level::Root && words.raw("additionalProperties").is_some() {
        let why = "must not be used at the root";
        faults.push(FieldError::forbidden(path("additionalProperties"), why));
    }
    if int_or_string {
        let why = "must be false if x-kubernetes-int-or-string is true";
        for (other, is_set) in [
            ("x-kubernetes-preserve-unknown-fields", open),
            ("x-kubernetes-embedded-resource", embedded),
        ] {
            if is_set {
                faults.push(FieldError::invalid(path(other), &true.into(), why));
            }
        }
    }

    let missing = match (embedded, types) {
        (true, "") => Some("must be object if x-kubernetes-embedded-resource is true"),
        (false, "") if !int_or_string && !open => Some(match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field | Level::Nested => "must not be empty for specified object fields",
        }),
        _ => None,
    };
    if let Some(why) = missing {
        faults.push(FieldError::required(path("type"), why));
    }
    if embedded && !matches!(types, "" | "object") {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        faults.push(FieldError::invalid(path("type"), &types.into(), why));
    }
    if level == Level::Root && !matches!(types, "" | "object") {
        let why = "must be object at the root";
        faults.push(FieldError::invalid(path("type"), &types.into(), why));
    }
    if embedded {
        check_embedded(words, open, at, faults);
    }
    if embedded || level == Level::Root {
        check_meta(words, at, level, faults);
    }
}

/// Checks that the schemas of `apiVersion`, `kind` and `metadata` only repeat their types.
fn check_meta(
    words: &Keywords<'_>,
    at: &ValuePath<'_>,
    level: Level,
    faults: &mut Vec<FieldError>,
) {
    let properties = words.raw("properties").and_then(Value::as_object);
    let field = |name| {
        properties
            .and_then(|fields| fields.get(name))
            .and_then(Value::as_object)
    };
    let all = at.child("properties");
    for (name, wanted) in [
        ("kind", "string"),
        ("apiVersion", "string"),
        ("metadata", "object"),
    ] {
        let Some(field) = field(name) else { continue };
        let named = field
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if named != wanted {
            let path = all.key(name).child("type").to_string();
            let why = format!("must be {wanted}");
            faults.push(FieldError::invalid(path, &named.into(), why));
        }
    }
    if level == Level::Root && field("metadata").is_some_and(restricts_more_than_names) {
        let why = "must not specify anything other than name and generateName, but metadata is \
                   implicitly specified";
        faults.push(FieldError::forbidden(all.key("metadata").to_string(), why));
    }
}

/// Returns whether a schema of `metadata` restricts more than `name` and `generateName`.
fn restricts_more_than_names(metadata: &Map<String, Value>) -> bool {
    metadata
        .iter()
        .any(|(keyword, value)| match keyword.as_str() {
            "type" | "default" => false,
            "properties" => value
                .as_object()
                .is_some_and(|fields| fields.keys().any(|k| k != "name" && k != "generateName")),
            _ => !is_zero(value),
        })
}

/// Returns whether `value` is a zero value in Go.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

fn check_embedded(
    words: &Keywords<'_>,
    open: bool,
    at: &ValuePath<'_>,
    faults: &mut Vec<FieldError>,
) {
    if words.raw("additionalProperties").is_some() {
        let path = at.child("additionalProperties").to_string();
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        faults.push(FieldError::forbidden(path, why));
    }
    if !open && words.raw("properties").is_none_or(is_zero) {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        faults.push(FieldError::required(
            at.child("properties").to_string(),
            why,
        ));
    }
}

/// Checks a schema below `allOf`, `anyOf`, `oneOf` or `not`.
pub(super) fn check_nested(words: &Keywords<'_>, at: &ValuePath<'_>, faults: &mut Vec<FieldError>) {
    /// The keywords that are not allowed in a nested schema, and the values that Kubernetes requires.
    const FORBIDDEN: [(&str, &str); 13] = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        (
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-embedded-resource",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-int-or-string",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-list-map-keys",
            "must be empty to be structural",
        ),
        (
            "x-kubernetes-list-type",
            "must be undefined to be structural",
        ),
        (
            "x-kubernetes-map-type",
            "must be undefined to be structural",
        ),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ];
    for (keyword, why) in FORBIDDEN {
        let is_default = keyword == "default";
        if words
            .raw(keyword)
            .is_some_and(|value| is_default || !is_zero(value))
        {
            faults.push(FieldError::forbidden(at.child(keyword).to_string(), why));
        }
    }
    if words
        .raw("properties")
        .is_some_and(|fields| fields.get("metadata").is_some())
    {
        let all = at.child("properties");
        let why = "must not be specified in a nested context";
        faults.push(FieldError::forbidden(all.key("metadata").to_string(), why));
    }
}

/// Returns whether `any_of` is exactly "`integer` or `string`".
pub(super) fn is_int_or_string(any_of: &[Value]) -> bool {
    let has_type = |schema: &Value, name: &str| {
        schema.as_object().is_some_and(|words| words.len() == 1)
            && schema.get("type").and_then(Value::as_str) == Some(name)
    };
    matches!(any_of, [first, second] if has_type(first, "integer") && has_type(second, "string"))
}

/// Checks that the fields in the clauses of the root are also defined outside of them.
///
/// Kubernetes checks only the clauses of the root.
pub(super) fn check_complete(root: &Node, at: &ValuePath<'_>, faults: &mut Vec<FieldError>) {
    check_clauses(root, Some(root), at, at, faults);
}

fn check_clauses(
    rules: &Node,
    shape: Option<&Node>,
    at: &ValuePath<'_>,
    from: &ValuePath<'_>,
    faults: &mut Vec<FieldError>,
) {
    if let Some(not) = &rules.rules.not {
        check_clause(not, shape, at, &from.child("not"), faults);
    }
    for (keyword, clauses) in [
        ("allOf", &rules.rules.all_of),
        ("anyOf", &rules.rules.any_of),
        ("oneOf", &rules.rules.one_of),
    ] {
        let all = from.child(keyword);
        for (i, clause) in clauses.iter().enumerate() {
            check_clause(clause, shape, at, &all.index(i), faults);
        }
    }
}

fn check_clause(
    clause: &Node,
    shape: Option<&Node>,
    at: &ValuePath<'_>,
    from: &ValuePath<'_>,
    faults: &mut Vec<FieldError>,
) {
    let Some(node) = shape else {
        let why = format!("because it is defined in {from}");
        faults.push(FieldError::required(at.to_string(), why));
        return;
    };
    if clause.types != Types::Any {
        // One half of "integer or string".
        return;
    }
    check_clauses(clause, shape, at, from, faults);
    if let Some(items) = &clause.items {
        let (at, from) = (at.child("items"), from.child("items"));
        check_clause(items, node.items.as_deref(), &at, &from, faults);
    }
    let (all, all_from) = (at.child("properties"), from.child("properties"));
    for (name, field) in &clause.properties {
        let (at, from) = (all.key(name), all_from.key(name));
        check_clause(field, node.properties.get(name), &at, &from, faults);
    }
}
