//! Patches: JSON patch, merge patch, strategic merge patch and configurations to apply. *(pure)*

use std::borrow::Cow;

use http::StatusCode;
use serde_json::{Map, Value};

use crate::json::type_name;
use crate::status::Status;
use crate::typed::Struct;
use crate::wire::{Document, yaml};

mod json;
mod strategic;

/// The maximum number of operations of a JSON patch, as in Kubernetes.
const MAX_OPERATIONS: usize = 10_000;

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// A change to an object.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    /// A JSON patch: operations in their order (RFC 6902).
    Json(json_patch::Patch),
    /// A merge patch: members to set, and members to remove as `null` (RFC 7386).
    Merge(Value),
    /// A strategic merge patch: like a merge patch, but lists are merged by key.
    Strategic(Map<String, Value>),
    /// A server-side apply: the fields that a manager specifies.
    Apply(Value),
    /// A patch that can be decoded but applied to no object. Its error is reported only if the
    /// object exists.
    Inapplicable(Status),
}

/// Removes the members that are `null` from the objects in lists, which a merge patch replaces as a
/// whole. The real server does so, in contrast to RFC 7386.
fn drop_nulls_in_lists(patch: &mut Value, is_in_list: bool) {
    match patch {
        Value::Object(members) => {
            if is_in_list {
                members.retain(|_, value| !value.is_null());
            }
            for value in members.values_mut() {
                drop_nulls_in_lists(value, is_in_list);
            }
        }
        Value::Array(items) => {
            for item in items {
                drop_nulls_in_lists(item, true);
            }
        }
        _ => {}
    }
}

// === impl Patch ===

impl Patch {
    /// Checks the format of a patch.
    ///
    /// # Errors
    ///
    /// 415 if it is not supported.
    pub(crate) fn check_media_type(content_type: &str, custom: bool) -> Result<(), Status> {
        match essence(content_type) {
            JSON_PATCH | MERGE_PATCH | APPLY_PATCH => Ok(()),
            STRATEGIC_PATCH if !custom => Ok(()),
            _ => Err(unsupported(custom)),
        }
    }

    /// Returns whether a body of this type is a configuration to apply.
    pub(crate) fn is_apply(content_type: &str) -> bool {
        essence(content_type) == APPLY_PATCH
    }

    /// Parses the body of a patch request. Returns the patch, and the messages about its duplicate
    /// fields.
    ///
    /// Only built-in kinds support strategic merge patches, because a definition does not specify
    /// how lists are merged.
    ///
    /// # Errors
    ///
    /// 415 for a format that is not supported, 400 for a body that is not in that format.
    pub(crate) fn parse(
        content_type: &str,
        body: &[u8],
        custom: bool,
    ) -> Result<(Self, Vec<String>), Status> {
        match essence(content_type) {
            JSON_PATCH => {
                let document = Document::from_json(body).map_err(|error| undecodable(&error))?;
                let patch = operations(document.value)?;
                let duplicates = document.duplicates.into_iter();
                let duplicates = duplicates.map(|report| format!("json patch {report}"));
                Ok((patch, duplicates.collect()))
            }
            MERGE_PATCH => {
                let document = Document::from_json(body).map_err(|error| undecodable(&error))?;
                let patch = match document.value {
                    patch @ Value::Object(_) => Self::Merge(patch),
                    Value::Null => Self::Inapplicable(Status::bad_request("Invalid JSON Patch")),
                    other => return Err(undecodable(&mistyped(&other, MAP))),
                };
                Ok((patch, document.duplicates))
            }
            STRATEGIC_PATCH if !custom => {
                let document = Document::from_json(body)
                    .map_err(|error| Status::bad_request(error.to_string()))?;
                let patch = match document.value {
                    Value::Object(patch) => patch,
                    Value::Null => Map::new(),
                    other => return Err(Status::bad_request(mistyped(&other, MAP))),
                };
                Ok((Self::Strategic(patch), document.duplicates))
            }
            APPLY_PATCH => match yaml::from_slice(body) {
                Ok(Document {
                    value: config @ Value::Object(_),
                    duplicates,
                }) => Ok((Self::Apply(config), duplicates)),
                Ok(Document { value, .. }) => Err(Status::bad_request(format!(
                    "error decoding YAML: error unmarshaling JSON: while decoding JSON: {}",
                    mistyped(&value, MAP)
                ))),
                Err(error) => Err(Status::bad_request(format!(
                    "error decoding YAML: error converting YAML to JSON: {error}"
                ))),
            },
            _ => Err(unsupported(custom)),
        }
    }

    /// Returns the patch, or the patched `object`, as in error messages.
    pub(crate) fn shown(&self, object: &Value) -> String {
        match self {
            Self::Strategic(patch) => go_map(patch),
            _ => object.to_string(),
        }
    }

    /// Returns the error message about a result that does not match its type.
    pub(crate) fn type_fault<'a>(&self, why: &'a str) -> Cow<'a, str> {
        match self {
            Self::Strategic(_) if why.starts_with("illegal base64") => {
                format!("error decoding from json: {why}").into()
            }
            _ => why.into(),
        }
    }

    /// Applies the patch to `object`, which has the type `kind` if it is built in. Has no effect for
    /// an apply, which depends on the owners of fields.
    ///
    /// # Errors
    ///
    /// 422 if an operation cannot be applied to the object, and 500 for an item of a strategic merge
    /// patch without its key, as in Kubernetes.
    pub(crate) fn apply(
        &self,
        object: &mut Value,
        kind: Option<&'static Struct>,
    ) -> Result<(), Status> {
        match self {
            Self::Json(patch) => json::apply(object, patch).map_err(|error| match error {
                json::ApplyError::Operation(_) | json::ApplyError::Root => rejected_operation(),
                error => Status::generic(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "Invalid",
                    &error.to_string(),
                ),
            }),
            Self::Merge(patch) => {
                let mut patch = patch.clone();
                drop_nulls_in_lists(&mut patch, false);
                json_patch::merge(object, &patch);
                Ok(())
            }
            Self::Strategic(patch) => {
                if let Value::Object(object) = object {
                    strategic::merge(object, patch, kind)?;
                }
                Ok(())
            }
            Self::Apply(_) => Ok(()),
            Self::Inapplicable(status) => Err(status.clone()),
        }
    }
}

/// Prints an object like a map in Go: `map[a:1 b:[2 3]]`.
fn go_map(members: &Map<String, Value>) -> String {
    let members = members.iter();
    let members: Vec<_> = members
        .map(|(name, value)| format!("{name}:{}", go_value(value)))
        .collect();
    format!("map[{}]", members.join(" "))
}

/// Prints a value like Go does with `%v`.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => go_map(members),
        other => other.to_string(),
    }
}

/// Returns a content type without its parameters.
fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Go's name of the type of a merge patch.
const MAP: &str = "map[string]interface {}";

/// Parses the operations of a JSON patch. The real server decodes their types first, and finds later
/// that an operation is unknown or incomplete.
fn operations(mut operations: Value) -> Result<Patch, Status> {
    let items = match &mut operations {
        Value::Array(items) => items,
        Value::Null => return Ok(Patch::Json(json_patch::Patch(Vec::new()))),
        other => return Err(undecodable(&mistyped(other, "[]handlers.jsonPatchOp"))),
    };
    for item in items.iter_mut() {
        let members = match item {
            Value::Object(members) => members,
            Value::Null => continue,
            other => return Err(undecodable(&mistyped(other, "handlers.jsonPatchOp"))),
        };
        for field in ["from", "op", "path"] {
            let value = members.get(field).unwrap_or(&Value::Null);
            if !value.is_null() && !value.is_string() {
                return Err(undecodable(&format!(
                    "json: cannot unmarshal {} into Go struct field jsonPatchOp.{field} of type \
                     string",
                    type_name(value)
                )));
            }
        }
        members.entry("value").or_insert(Value::Null);
    }
    if items.len() > MAX_OPERATIONS {
        let count = items.len();
        return Err(Status::failure(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is \
                 {MAX_OPERATIONS}, got {count}"
            ),
        ));
    }
    let patch = serde_json::from_value(operations);
    Ok(patch.map_or_else(|_| Patch::Inapplicable(rejected_operation()), Patch::Json))
}

/// The error of an operation that cannot be applied. Kubernetes does not name the operation either.
fn rejected_operation() -> Status {
    Status::generic(
        StatusCode::UNPROCESSABLE_ENTITY,
        "Invalid",
        "the server rejected our request due to an error in our request",
    )
}

/// 415: the format of the patch is not supported.
fn unsupported(custom: bool) -> Status {
    if custom {
        return Status::unsupported_media_type(&[JSON_PATCH, MERGE_PATCH, APPLY_PATCH]);
    }
    // The router of Kubernetes rejects it, before its handler of patches.
    Status::generic(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        "415: Unsupported Media Type",
    )
}

/// 400: the body of a patch request cannot be decoded.
fn undecodable(error: &dyn std::fmt::Display) -> Status {
    Status::bad_request(format!("error decoding patch: {error}"))
}

/// The message of Go for a value that does not have the type `wanted`.
fn mistyped(value: &Value, wanted: &str) -> String {
    let found = type_name(value);
    format!("json: cannot unmarshal {found} into Go value of type {wanted}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{JSON_PATCH, MERGE_PATCH, Patch, STRATEGIC_PATCH};

    #[test]
    fn patches_change_the_named_fields() {
        for (kind, patch, expected) in [
            (
                MERGE_PATCH,
                r#"{"a":null,"b":{"c":2}}"#,
                json!({ "b": { "c": 2 } }),
            ),
            (MERGE_PATCH, r#"{"l":[1]}"#, json!({ "a": 1, "l": [1] })),
            (STRATEGIC_PATCH, r#"{"a":2}"#, json!({ "a": 2 })),
            (
                JSON_PATCH,
                r#"[{"op":"replace","path":"/a","value":3}]"#,
                json!({ "a": 3 }),
            ),
            (
                JSON_PATCH,
                r#"[{"op":"test","path":"/a","value":1},{"op":"remove","path":"/a"}]"#,
                json!({}),
            ),
        ] {
            let mut object = json!({ "a": 1 });
            let (patch, _) = Patch::parse(kind, patch.as_bytes(), false).expect(patch);
            patch.apply(&mut object, None).expect("it fits");
            assert_eq!(object, expected);
        }
    }

    #[test]
    fn a_failing_patch_changes_no_value() {
        let mut object = json!({ "a": 1, "b": 1 });
        let body = r#"[{"op":"remove","path":"/b"},{"op":"test","path":"/a","value":2}]"#;
        let (patch, _) = Patch::parse(JSON_PATCH, body.as_bytes(), true).expect("it parses");
        assert_eq!(
            patch
                .apply(&mut object, None)
                .map_err(|status| status.code()),
            Err(422)
        );
        assert_eq!(object, json!({ "a": 1, "b": 1 }));
    }

    #[test]
    fn unsupported_patch_formats_are_rejected() {
        for (kind, custom, code) in [
            (STRATEGIC_PATCH, true, 415),
            ("application/apply-patch+cbor", false, 415),
            ("application/json", false, 415),
            ("", false, 415),
        ] {
            let status = Patch::parse(kind, b"{}", custom).expect_err(kind);
            assert_eq!(status.code(), code, "{kind}");
        }
        assert_eq!(
            Patch::parse(JSON_PATCH, b"{}", false)
                .expect_err("no list")
                .code(),
            400
        );
        assert_eq!(
            Patch::parse(MERGE_PATCH, b"[]", false)
                .expect_err("no object")
                .code(),
            400
        );
    }
}
