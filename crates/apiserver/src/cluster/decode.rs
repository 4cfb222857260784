//! Decodes the body of a request into an object in the form in which it is stored.

use http::StatusCode;
use serde_json::{Map, Value};

use super::{Part, defaults};
use crate::metadata;
use crate::registry::{Resource, View};
use crate::schema::{DefaultsTooLarge, Schema, write_whole};
use crate::status::{About, FieldError, Status};
use crate::typed;
use crate::wire::{UnknownFields, WriteOptions, yaml};

/// How the error about unknown and duplicate fields begins.
const STRICT: &str = "strict decoding error: ";

/// How the error about a custom resource without its type begins.
const MISSING: &str = "Object '";

/// The place of the types in the code of Kubernetes, which ends the error about a kind without one.
pub(super) const SCHEME: &str = "in scheme \"pkg/runtime/scheme.go:111\"";

/// An object in the form in which it is stored.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(super) object: Value,
    /// The warnings about the body.
    pub(super) warnings: Vec<String>,
}

/// Converts `body` into the form in which objects of `resource` are stored, before the changes of
/// create and update.
///
/// # Errors
///
/// 400 if it isn't an object of this kind, in this version, for this URL.
pub(super) fn decode(
    resource: &Resource,
    namespace: Option<&str>,
    mut body: Value,
    options: &WriteOptions,
) -> Result<Decoded, Status> {
    let unknown_fields = options.unknown_fields;
    let mut warnings = Vec::new();
    if body.is_null() && !resource.info.custom {
        // Go decodes it into an object without fields.
        body = Value::Object(Map::new());
    }
    if !body.is_object() {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): not a JSON object",
            resource.info.kind
        )));
    }
    check_type(resource, &body)?;
    let mut unknown = Vec::new();
    if let Some(kind) = resource.typed() {
        unknown = decode_typed(resource, kind, &mut body)?;
    }
    let root = if resource.info.custom {
        "ObjectMeta"
    } else {
        "ObjectMeta.metadata"
    };
    let metadata = metadata::decode(&mut body, root);
    unknown.extend(metadata.map_err(|error| cannot_handle(resource, &error))?);
    place(resource, namespace, &mut body)?;
    if let Some(schema) = &resource.schema {
        body["apiVersion"] = resource.api_version().into();
        body["kind"] = resource.info.kind.as_str().into();
        unknown.extend(decode_custom(resource, schema, &mut body, unknown_fields)?);
    }
    let strict = strict_errors(resource, options, unknown);
    match unknown_fields {
        UnknownFields::Refuse => {
            if !strict.is_empty() {
                let error = format!("{STRICT}{}", strict.join(", "));
                return Err(cannot_handle(resource, &error));
            }
        }
        UnknownFields::Warn => {
            warnings = strict
                .into_iter()
                .flat_map(yaml::duplicate_warnings)
                .collect();
        }
        UnknownFields::Ignore | UnknownFields::Applied => {}
    }
    resource.view.store(&mut body);
    if resource.view == View::Autoscaler
        && let Some(kind) = resource.stored_type()
    {
        // The annotations of the other version fill fields, which have defaults.
        typed::decode(kind, &mut body).map_err(|error| cannot_handle(resource, &error))?;
    }
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

/// Drops the fields of a custom resource that its schema does not have, and fills in its defaults.
/// Returns the paths of the dropped fields.
///
/// # Errors
///
/// 400 if an embedded resource has no type, 413 if the defaults are too large.
fn decode_custom(
    resource: &Resource,
    schema: &Schema,
    body: &mut Value,
    unknown_fields: UnknownFields,
) -> Result<Vec<String>, Status> {
    let mut unknown = schema.prune(body);
    let embedded = schema.decode_embedded(body);
    let embedded = embedded.map_err(|error| cannot_handle(resource, &error.to_string()));
    unknown.extend(embedded?);
    let filled = if unknown_fields == UnknownFields::Applied {
        schema.fill(body)
    } else {
        schema.default(body)
    };
    filled.map_err(|DefaultsTooLarge| {
        Status::failure(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: the defaults of {} take more than 16 MiB; use smaller \
                 defaults in its CustomResourceDefinition, or fewer list elements",
                resource.info.kind
            ),
        )
    })?;
    Ok(unknown)
}

/// The errors of strict decoding, in the order of Kubernetes: duplicate fields, and the fields with
/// the paths `unknown`.
fn strict_errors(resource: &Resource, options: &WriteOptions, unknown: Vec<String>) -> Vec<String> {
    let mut strict = options.duplicates.clone();
    if !resource.info.custom {
        // Go's decoder of a type skips unknown fields without looking into them.
        strict.retain(|report| !unknown.iter().any(|path| is_about(report, path)));
    }
    let unknown = unknown
        .into_iter()
        .map(|path| format!("unknown field {path:?}"));
    if resource.info.custom {
        // The duplicates are found when the text is read, and the unknown fields by the schema.
        options.field_order.sort(&mut strict);
        strict.extend(unknown);
    } else {
        // The duplicates of YAML are found before the fields of the type are known, and those of JSON
        // with them.
        let first = strict
            .iter()
            .take_while(|it| !it.starts_with("duplicate field "))
            .count();
        strict.splice(first..first, unknown);
        options.field_order.sort(&mut strict);
    }
    strict
}

/// The schema errors of a decoded object. `before` is the old object of an update.
pub(super) fn check_schema(
    resource: &Resource,
    part: Part,
    before: Option<&Value>,
    object: &mut Value,
) -> Vec<FieldError> {
    let is_whole = matches!(part, Part::Main | Part::EphemeralContainers | Part::Resize);
    if let Some(kind) = resource.stored_type().filter(|_| is_whole) {
        return typed::validate(kind.name, object);
    }
    let Some(schema) = &resource.schema else {
        return Vec::new();
    };
    // Rules of the schema can refer to both fields, which are not stored.
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.info.kind.as_str().into();
    let validate = |old: Option<&Value>| match part {
        Part::Status => schema.validate_status(object, old),
        _ => schema.validate(object, old),
    };
    let mut errors = validate(None);
    // Unchanged parts of the object can violate a schema that is newer than the object. Most
    // updates are valid and need no comparison with the old object.
    if let (false, Some(before)) = (errors.is_empty(), before) {
        errors = validate(Some(before));
    }
    if let Some(members) = object.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    write_whole(object);
    errors
}

/// Whether a report is about the field at `path`, or about a field below it.
fn is_about(report: &str, path: &str) -> bool {
    let quoted = format!("{path:?}");
    let start = quoted.strip_suffix('"').unwrap_or(&quoted);
    let rest = report.strip_prefix("duplicate field ");
    let rest = rest.and_then(|rest| rest.strip_prefix(start));
    rest.is_some_and(|rest| rest.starts_with(['"', '.', '[']))
}

/// Decodes the body of a built-in kind into the form of its type. Returns the paths of unknown
/// fields.
fn decode_typed(
    resource: &Resource,
    kind: &'static typed::Struct,
    body: &mut Value,
) -> Result<Vec<String>, Status> {
    // An empty list removes the managedFields. An absent list keeps them.
    let entries = metadata::field(body, "managedFields")
        .is_some_and(|entries| entries.as_array().is_some_and(Vec::is_empty));
    let unknown = typed::decode(kind, body).map_err(|error| cannot_handle(resource, &error))?;
    if entries {
        metadata::of(body).insert("managedFields".to_owned(), Value::Array(Vec::new()));
    }
    Ok(unknown)
}

pub(super) fn check_type(resource: &Resource, body: &Value) -> Result<(), Status> {
    if !(body.is_object() || body.is_null()) {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): not a JSON object",
            resource.info.kind
        )));
    }
    for field in ["apiVersion", "kind"] {
        let value = body.get(field).unwrap_or(&Value::Null);
        if !(value.is_null() || value.is_string()) {
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get \
                 version/kind; json parse error: the field {field:?} is not a string",
                resource.info.kind
            )));
        }
    }
    let text = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let expected = resource.api_version();
    if api_version.matches('/').count() > 1 {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; \
             unexpected GroupVersion string: {api_version}",
            resource.info.kind
        )));
    }
    if resource.info.custom && (kind.is_empty() || api_version.is_empty()) {
        let missing = if kind.is_empty() {
            "Kind"
        } else {
            "apiVersion"
        };
        // The error does not quote the body, which can contain secrets.
        return Err(Status::bad_request(format!(
            "{MISSING}{missing}' is missing"
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
    } else if strange_version || strange_kind {
        let expected_kind = resource.info.kind.as_str();
        let kind = if kind.is_empty() { expected_kind } else { kind };
        let api_version = if api_version.is_empty() {
            expected
        } else {
            api_version
        };
        let version = api_version.rsplit('/').next().unwrap_or_default();
        // These kinds are in every version, and have no row in the table of types.
        let is_common = ["DeleteOptions", "List", "Status"].contains(&kind);
        let why = if is_common || typed::kind(api_version, kind).is_some() {
            let package = match resource.info.group.split('.').next().unwrap_or_default() {
                "" | "events" => "core",
                package => package,
            };
            format!(
                "converting ({version}.{kind}) to ({package}.{expected_kind}): unknown conversion"
            )
        } else {
            format!("no kind {kind:?} is registered for version {api_version:?} {SCHEME}")
        };
        Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {expected_kind}: {why}"
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

/// The type error of a body of a built-in kind. `None` if `status` is another error.
pub(super) fn type_error<'a>(resource: &Resource, status: &'a Status) -> Option<&'a str> {
    let why = unhandled(resource, status)?;
    // The fields of a custom resource are checked later, by its schema.
    (!resource.info.custom || why.starts_with(STRICT)).then_some(why)
}

/// The reason why a body cannot be decoded. `None` if `status` is another error.
pub(super) fn unhandled<'a>(resource: &Resource, status: &'a Status) -> Option<&'a str> {
    let kind = &resource.info.kind;
    let unrecognized = format!("the object provided is unrecognized (must be of type {kind}): ");
    if let Some(why) = status.message().strip_prefix(&unrecognized) {
        return (!resource.info.custom).then_some(why);
    }
    if status.message().starts_with(MISSING) {
        return Some(status.message());
    }
    // The error begins with the kind and the version of the body.
    let ends = format!(" cannot be handled as a {kind}: ");
    let (start, why) = status.message().split_once(&ends)?;
    start.contains(" in version ").then_some(why)
}

fn cannot_handle(resource: &Resource, error: &str) -> Status {
    let kind = &resource.info.kind;
    Status::bad_request(format!(
        "{kind} in version {:?} cannot be handled as a {kind}: {error}",
        resource.info.version
    ))
}
