//! Encodes stored objects as the bodies of responses and the events of watches. *(pure)*

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::Page;
use crate::managed;
use crate::registry::{Resource, View};
use crate::status::Status;
use crate::store::{Stored, members};
use crate::table::{IncludeObject, MetaVersion};
use crate::wire::{Encoding, Format, Presentation};

mod event;
mod protobuf;
mod sorted;

pub(crate) use self::event::{EventEncoder, close_shared, error_line};

pub(crate) use protobuf::has_protobuf;

/// The media type of YAML.
pub(crate) const YAML: &str = "application/yaml";

/// Encodes a value as YAML, with the members of objects in alphabetical order.
pub(crate) fn yaml_of(value: &Value) -> Option<Vec<u8>> {
    serde_yaml_ng::to_string(value).ok().map(String::into_bytes)
}

/// The body of a response, and its media type.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) media_type: &'static str,
}

/// Encodes one object as the body of a response.
///
/// The ages in tables are relative to `now`.
///
/// # Errors
///
/// 500 if protobuf cannot encode the object and the client accepts no other encoding.
pub(crate) fn object(
    resource: &Resource,
    stored: &Stored,
    format: Format,
    now: Timestamp,
) -> Result<Encoded, Status> {
    if let Encoding::Protobuf { or_json } = format.encoding {
        match protobuf::object(resource, stored, format.presentation) {
            Ok(bytes) => return Ok(Encoded::protobuf(bytes)),
            Err(error) if !or_json => return Err(protobuf::refusal(&error)),
            Err(_) => {}
        }
    }
    let json = match format.presentation {
        Presentation::Table(include, version) => {
            let object = row_object(resource, stored, include);
            // A dry run stores no object, which then has no version.
            let list_meta = match stored.revision() {
                0 => json!({}),
                version => json!({ "resourceVersion": version.to_string() }),
            };
            resource
                .columns
                .table(&[&object], &list_meta, include, version, now)
                .to_string()
                .into_bytes()
        }
        presentation => {
            let mut out = Vec::new();
            write_object(&mut out, resource, stored, presentation, true);
            out
        }
    };
    Ok(Encoded::text(json, format.encoding))
}

/// Encodes a list, or a page of a list, as the body of a response.
///
/// # Errors
///
/// 500 if protobuf cannot encode an object and the client accepts no other encoding.
pub(crate) fn list(
    resource: &Resource,
    page: &Page,
    format: Format,
    now: Timestamp,
) -> Result<Encoded, Status> {
    let presentation = format.presentation;
    let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
    // As in Kubernetes, complete lists of custom resources have an empty `continue`, and other
    // complete lists have none.
    let is_metadata = matches!(presentation, Presentation::Metadata(_));
    if !page.continue_token.is_empty() || resource.info.custom && !is_metadata {
        metadata["continue"] = page.continue_token.as_str().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    if let Encoding::Protobuf { or_json } = format.encoding {
        match protobuf::list(resource, page, &metadata, presentation) {
            Ok(bytes) => return Ok(Encoded::protobuf(bytes)),
            Err(error) if !or_json => return Err(protobuf::refusal(&error)),
            Err(_) => {}
        }
    }
    if let Presentation::Table(include, version) = presentation {
        let objects: Vec<_> = page
            .items
            .iter()
            .map(|stored| row_object(resource, stored, include))
            .collect();
        let objects: Vec<_> = objects.iter().collect();
        let table = resource
            .columns
            .table(&objects, &metadata, include, version, now);
        let table = table.to_string().into_bytes();
        return Ok(Encoded::text(table, format.encoding));
    }
    let (kind, api_version) = match presentation {
        Presentation::Metadata(version) => ("PartialObjectMetadataList", version.api_version()),
        _ => (resource.info.list_kind.as_str(), resource.api_version()),
    };
    if format.encoding == Encoding::Yaml {
        let head = json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata });
        if let Some(encoded) = yaml_list(resource, page, presentation, head) {
            return Ok(encoded);
        }
    }
    let size: usize = page
        .items
        .iter()
        .map(|stored| stored.body().len() + 128)
        .sum();
    let mut out = Vec::with_capacity(size + 256);
    let (json_kind, json_version) = (json!(kind), json!(api_version));
    // The list of a custom resource is a map in Go, whose members are sorted.
    let (head, tail) = if resource.info.custom && !is_metadata {
        (
            format!("{{\"apiVersion\":{json_version},\"items\":["),
            format!(",\"kind\":{json_kind},\"metadata\":{metadata}"),
        )
    } else {
        let head = format!(
            "{{\"kind\":{json_kind},\"apiVersion\":{json_version},\"metadata\":{metadata},\"items\":["
        );
        (head, String::new())
    };
    out.extend_from_slice(head.as_bytes());
    for (at, stored) in page.items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        // As in Kubernetes, only custom resources have `apiVersion` and `kind` in each item.
        write_object(
            &mut out,
            resource,
            stored,
            presentation,
            resource.info.custom,
        );
    }
    out.push(b']');
    out.extend_from_slice(tail.as_bytes());
    out.push(b'}');
    Ok(Encoded::text(out, format.encoding))
}

/// Encodes a list as YAML. It parses the items separately, so that the depth limit of the parser
/// does not depend on the list.
fn yaml_list(
    resource: &Resource,
    page: &Page,
    presentation: Presentation,
    mut list: Value,
) -> Option<Encoded> {
    let items = page.items.iter().map(|stored| {
        let mut item = Vec::new();
        write_object(
            &mut item,
            resource,
            stored,
            presentation,
            resource.info.custom,
        );
        serde_json::from_slice::<Value>(&item).ok()
    });
    list["items"] = items.collect::<Option<Vec<_>>>()?.into();
    let bytes = yaml_of(&list)?;
    Some(Encoded {
        bytes,
        media_type: YAML,
    })
}

fn write_object(
    out: &mut Vec<u8>,
    resource: &Resource,
    stored: &Stored,
    presentation: Presentation,
    typed: bool,
) {
    let (kind, body) = if let Presentation::Metadata(version) = presentation {
        (partial(version), stored.metadata_body().clone())
    } else {
        (
            if typed { resource.type_members() } else { "" },
            body(resource, stored),
        )
    };
    if resource.info.custom
        && !matches!(presentation, Presentation::Metadata(_))
        && let Some(object) = sorted::sorted(kind, &body)
    {
        out.extend_from_slice(&object);
        return;
    }
    out.reserve(kind.len() + body.len() + "{,}".len());
    out.push(b'{');
    out.extend_from_slice(kind.as_bytes());
    if !kind.is_empty() && !body.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(&body);
    out.push(b'}');
}

/// Returns the members `apiVersion` and `kind` of a `PartialObjectMetadata`.
fn partial(version: MetaVersion) -> &'static str {
    match version {
        MetaVersion::V1 => r#""kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1""#,
        MetaVersion::V1Beta1 => {
            r#""kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1""#
        }
    }
}

/// Serializes the members of an object except `apiVersion` and `kind`.
fn body(resource: &Resource, stored: &Stored) -> Bytes {
    if resource.view == View::Same && resource.is_up_to_date(stored) {
        return stored.body().clone();
    }
    let mut object = in_version(resource, stored);
    let Some(object) = object.as_object_mut() else {
        return Bytes::new();
    };
    object.remove("apiVersion");
    object.remove("kind");
    members(object)
}

/// Converts a stored object to the version of `resource`.
fn in_version(resource: &Resource, stored: &Stored) -> Value {
    let Some(mut migrated) = resource.migrated(stored) else {
        return resource.present(stored.value());
    };
    managed::expand(&mut migrated);
    migrated
}

/// Returns the object for the row of a table. The rows of autoscalers print the stored version, which
/// preserves the order of all metrics.
fn row_object(resource: &Resource, stored: &Stored, include: IncludeObject) -> Value {
    if resource.view == View::Autoscaler && include != IncludeObject::Object {
        return stored.value().clone();
    }
    in_version(resource, stored)
}

// === impl Encoded ===

impl Encoded {
    /// Returns JSON with a newline at its end, as Go writes it, or converts it to YAML.
    fn text(mut json: Vec<u8>, encoding: Encoding) -> Self {
        let yaml = (encoding == Encoding::Yaml)
            .then(|| serde_json::from_slice::<Value>(&json).ok())
            .flatten();
        if let Some(bytes) = yaml.and_then(|value| yaml_of(&value)) {
            return Self {
                bytes,
                media_type: YAML,
            };
        }
        json.push(b'\n');
        Self {
            bytes: json,
            media_type: "application/json",
        }
    }

    fn protobuf(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            media_type: windlass_protobuf::MEDIA_TYPE,
        }
    }
}
