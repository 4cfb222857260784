//! The body of a request. *(pure)*

use serde_json::Value;
use windlass_protobuf::Envelope;

use crate::registry::Resource;
use crate::status::Status;
use crate::typed;
use crate::wire::{Document, yaml};

/// The expected type of the body.
#[derive(Debug)]
pub(super) struct Expected<'a> {
    /// The default for a protobuf body without it.
    api_version: &'a str,
    kind: &'a str,

    /// Whether it has a protobuf encoding.
    has_protobuf: bool,

    /// The type of an object of a built-in kind.
    typed: Option<&'static typed::Struct>,
}

// === impl Expected ===

impl<'a> Expected<'a> {
    /// Returns the type of the options of a deletion.
    const DELETE_OPTIONS: Expected<'static> = Expected {
        api_version: "",
        kind: "DeleteOptions",
        has_protobuf: true,
        typed: None,
    };

    /// Returns the type of an object of `resource`, or of the body for one of its subresources.
    pub(super) fn object_of(resource: &'a Resource) -> Self {
        Self {
            api_version: resource.api_version(),
            kind: &resource.info.kind,
            // kube-apiserver 1.36 closes the connection instead of sending this error.
            has_protobuf: !resource.info.custom,
            typed: resource.typed(),
        }
    }
}

/// Decodes a body by its media type.
///
/// # Errors
///
/// 415 if the media type is not supported, 400 if the body is malformed.
pub(super) fn read(
    content_type: &str,
    body: &[u8],
    expected: &Expected<'_>,
) -> Result<Document, Status> {
    let essence = supported(content_type, expected)?;
    let unreadable = |error: &dyn std::fmt::Display| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {error}",
            expected.kind
        ))
    };
    match essence.as_str() {
        "application/yaml" => yaml::from_slice(body).map_err(|error| unreadable(&error)),
        windlass_protobuf::MEDIA_TYPE => {
            if body.is_empty() {
                return Err(unreadable(&"empty data (<empty>)"));
            }
            let envelope = Envelope::parse(body).map_err(|error| unreadable(&error))?;
            let (api_version, kind) = expected.names(&envelope);
            let decoded = windlass_protobuf::decode_as(body, api_version, kind);
            let value = decoded.map_err(|error| {
                let version = api_version.rsplit('/').next().unwrap_or_default();
                let kind_expected = expected.kind;
                Status::bad_request(if error.is_unknown_kind() {
                    format!(
                        "{kind} in version {version:?} cannot be handled as a {kind_expected}: no \
                         kind {kind:?} is registered for version {api_version:?}"
                    )
                } else {
                    format!(
                        "{kind} in version {version:?} cannot be handled as a {kind_expected}: \
                         {error}"
                    )
                })
            })?;
            Ok(Document {
                value,
                duplicates: Vec::new(),
            })
        }
        _ => {
            let mut document = Document::from_json(body).map_err(|error| unreadable(&error))?;
            if !document.duplicates.is_empty()
                && let Some(kind) = expected.typed
                && let Some(merged) = typed::merge_duplicates(kind, body)
            {
                document.value = merged;
            }
            Ok(document)
        }
    }
}

/// Returns the media type of a body, without its parameters.
///
/// # Errors
///
/// 415 if it is not supported.
pub(super) fn supported(content_type: &str, expected: &Expected<'_>) -> Result<String, Status> {
    let essence = content_type.split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    match essence.as_str() {
        "" | "application/json" | "application/yaml" => Ok(essence),
        windlass_protobuf::MEDIA_TYPE if expected.has_protobuf => Ok(essence),
        // The real server names protobuf for custom resources too, but cannot decode it.
        other => Err(Status::unsupported_media_type(
            if expected.has_protobuf || other != windlass_protobuf::MEDIA_TYPE {
                &[
                    "application/json",
                    "application/yaml",
                    windlass_protobuf::MEDIA_TYPE,
                ]
            } else {
                &["application/json", "application/yaml"]
            },
        )),
    }
}

/// Decodes the body of a deletion. `null` has no options.
///
/// # Errors
///
/// 415 if the media type is not supported, 400 if the body is malformed, if it is another kind, or
/// if an option has the wrong type.
pub(super) fn delete_options(content_type: &str, body: &[u8]) -> Result<Value, Status> {
    let essence = supported(content_type, &Expected::DELETE_OPTIONS)?;
    let malformed = |error: &dyn std::fmt::Display| {
        Status::bad_request(format!(
            "couldn't get version/kind; json parse error: {error}"
        ))
    };
    let mut options = match essence.as_str() {
        windlass_protobuf::MEDIA_TYPE => read(content_type, body, &Expected::DELETE_OPTIONS)?.value,
        "application/yaml" => {
            let document = yaml::from_slice(body);
            document.map_err(|error| malformed(&error))?.value
        }
        _ => {
            let document = Document::from_json(body);
            document.map_err(|error| malformed(&error))?.value
        }
    };
    if !(options.is_object() || options.is_null()) {
        return Err(malformed(&"not a JSON object"));
    }
    for field in ["apiVersion", "kind"] {
        let value = &options[field];
        if !(value.is_null() || value.is_string()) {
            return Err(malformed(&format!("the field {field:?} is not a string")));
        }
    }
    let text = |field: &str| options[field].as_str().unwrap_or_default();
    let kind = text("kind");
    let version = text("apiVersion");
    if version.matches('/').count() > 1 {
        return Err(Status::bad_request(format!(
            "unexpected GroupVersion string: {version}"
        )));
    }
    if !(kind.is_empty() || kind == "DeleteOptions") {
        let api_version = match text("apiVersion") {
            "" => "meta.k8s.io/v1",
            version => version,
        };
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let is_common = ["List", "Status"].contains(&kind);
        return Err(Status::bad_request(if is_common {
            format!("converting ({version}.{kind}) to (v1.DeleteOptions): unknown conversion")
        } else {
            format!(
                "no kind {kind:?} is registered for version {api_version:?} in scheme \
                 \"pkg/runtime/scheme.go:111\""
            )
        }));
    }
    if let Some(kind) = typed::named("meta.v1.DeleteOptions") {
        typed::decode(kind, &mut options).map_err(Status::bad_request)?;
    }
    Ok(options)
}

impl Expected<'_> {
    /// Returns the type of a protobuf body, with the expected type as default.
    fn names<'b>(&'b self, envelope: &'b Envelope<'_>) -> (&'b str, &'b str) {
        let or = |named: &'b str, expected: &'b str| {
            if named.is_empty() { expected } else { named }
        };
        (
            or(&envelope.api_version, self.api_version),
            or(&envelope.kind, self.kind),
        )
    }
}
