//! From the body of a request to an object in the form in which it is stored.

use serde_json::Value;

use super::{Part, defaults};
use crate::metadata;
use crate::registry::Resource;
use crate::status::{About, FieldError, Status};
use crate::wire::UnknownFields;

/// An object in the form in which it is stored.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) object: Value,
    /// What the client should know about what it sent.
    pub(super) warnings: Vec<String>,
}

/// Brings `body` into the form in which objects of `resource` are stored, but for what
/// create and update do to it.
///
/// # Errors
///
/// 400 if it isn't an object of this kind, in this version, for this URL.
pub(super) fn decode(
    resource: &Resource,
    namespace: Option<&str>,
    mut body: Value,
    unknown_fields: UnknownFields,
) -> Result<Decoded, Status> {
    let mut warnings = Vec::new();
    if !body.is_object() {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): not a JSON object",
            resource.info.kind
        )));
    }
    check_type(resource, &body)?;
    let root = if resource.info.custom {
        "ObjectMeta"
    } else {
        "ObjectMeta.metadata"
    };
    metadata::decode(&mut body, root).map_err(|error| cannot_handle(resource, &error))?;
    place(resource, namespace, &mut body)?;
    if let Some(schema) = &resource.schema {
        body["apiVersion"] = resource.api_version().into();
        body["kind"] = resource.info.kind.as_str().into();
        let unknown: Vec<_> = schema
            .prune(&mut body)
            .into_iter()
            .map(|path| format!("unknown field {path:?}"))
            .collect();
        match unknown_fields {
            UnknownFields::Refuse if !unknown.is_empty() => {
                let error = format!("strict decoding error: {}", unknown.join(", "));
                return Err(cannot_handle(resource, &error));
            }
            UnknownFields::Warn => warnings = unknown,
            UnknownFields::Refuse | UnknownFields::Ignore | UnknownFields::Applied => {}
        }
        if unknown_fields == UnknownFields::Applied {
            schema.fill(&mut body);
        } else {
            schema.default(&mut body);
        }
    } else {
        if unknown_fields == UnknownFields::Applied {
            drop_nulls(&mut body);
        }
        for part in ["spec", "status"] {
            match body.get(part) {
                Some(Value::Null) => _ = body.as_object_mut().map(|body| body.remove(part)),
                Some(value) if !value.is_object() => {
                    let found = kind_of(value);
                    let error = format!(
                        "json: cannot unmarshal {found} into Go struct field {}.{part} of type \
                         {}{}",
                        resource.info.kind,
                        resource.info.kind,
                        if part == "spec" { "Spec" } else { "Status" },
                    );
                    return Err(cannot_handle(resource, &error));
                }
                _ => {}
            }
        }
    }
    check_data(resource, &body)?;
    resource.view.store(&mut body);
    defaults::decoded(resource, &mut body);
    if let Some(members) = body.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    Ok(Decoded {
        object: body,
        warnings,
    })
}

/// What the schema of `resource` says of a decoded object.
pub(super) fn check_schema(resource: &Resource, part: Part, object: &mut Value) -> Vec<FieldError> {
    let Some(schema) = &resource.schema else {
        return Vec::new();
    };
    // The schema may speak of both, and they aren't stored.
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.info.kind.as_str().into();
    let errors = match part {
        Part::Status => schema.validate_status(object),
        Part::Main | Part::Finalize => schema.validate(object),
    };
    if let Some(members) = object.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    errors
}

/// Drops each member that is `null`, as decoding to a type does.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The values of config maps and secrets are texts, and a number is a common slip.
fn check_data(resource: &Resource, body: &Value) -> Result<(), Status> {
    if !matches!(&*resource.table, "configmaps" | "secrets") {
        return Ok(());
    }
    for field in ["data", "binaryData", "stringData"] {
        let strange = match body.get(field) {
            None | Some(Value::Null) => None,
            Some(Value::Object(data)) => data
                .values()
                .find(|value| !value.is_string() && !value.is_null()),
            Some(other) => Some(other),
        };
        if let Some(value) = strange {
            let (found, kind) = (kind_of(value), &resource.info.kind);
            return Err(cannot_handle(
                resource,
                &format!(
                    "json: cannot unmarshal {found} into Go struct field {kind}.{field} of type \
                     string"
                ),
            ));
        }
    }
    Ok(())
}

fn check_type(resource: &Resource, body: &Value) -> Result<(), Status> {
    let text = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let expected = resource.api_version();
    if resource.info.custom && (kind.is_empty() || api_version.is_empty()) {
        let missing = if kind.is_empty() {
            "Kind"
        } else {
            "apiVersion"
        };
        // The body itself is not quoted: it may hold what should not be in a log.
        return Err(Status::bad_request(format!(
            "Object '{missing}' is missing"
        )));
    }
    let strange_version = !api_version.is_empty() && api_version != expected;
    let strange_kind = !kind.is_empty() && kind != resource.info.kind;
    if resource.info.custom && strange_version {
        Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version \
             ({expected})"
        )))
    } else if resource.info.custom && strange_kind {
        let about = About {
            kind,
            ..resource.about(metadata::text(body, "name"))
        };
        let detail = format!("must be {}", resource.info.kind);
        Err(Status::invalid(
            &about,
            &[FieldError::invalid("kind", &kind.into(), detail)],
        ))
    } else if strange_version {
        Err(cannot_handle(
            resource,
            &format!(
                "no kind {:?} is registered for version {api_version:?}",
                if kind.is_empty() {
                    &resource.info.kind
                } else {
                    kind
                }
            ),
        ))
    } else if strange_kind {
        Err(Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}",
            resource.info.version, resource.info.kind
        )))
    } else {
        Ok(())
    }
}

fn place(resource: &Resource, namespace: Option<&str>, body: &mut Value) -> Result<(), Status> {
    let sent = metadata::text(body, "namespace").to_owned();
    match namespace {
        Some(namespace) if resource.info.namespaced => {
            if !sent.is_empty() && sent != namespace {
                return Err(Status::bad_request(
                    "the namespace of the provided object does not match the namespace sent on \
                     the request",
                ));
            }
            metadata::of(body).insert("namespace".to_owned(), namespace.into());
        }
        _ => _ = metadata::of(body).remove("namespace"),
    }
    Ok(())
}

fn cannot_handle(resource: &Resource, error: &str) -> Status {
    let kind = &resource.info.kind;
    Status::bad_request(format!(
        "{kind} in version {:?} cannot be handled as a {kind}: {error}",
        resource.info.version
    ))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
