//! Encodes stored objects as the bodies of responses and the events of watches. *(pure)*

use std::sync::Arc;

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

mod protobuf;
mod sorted;

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

/// Encodes the events of a watch as lines or frames.
#[derive(Debug)]
pub(crate) struct EventEncoder {
    resource: Arc<Resource>,
    format: Format,
    /// Whether the column definitions were sent: only the first event with a table has them.
    has_sent_columns: bool,
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

// === impl EventEncoder ===

impl EventEncoder {
    pub(crate) fn new(resource: Arc<Resource>, format: Format) -> Self {
        Self {
            resource,
            format,
            has_sent_columns: false,
        }
    }

    /// Appends the line or frame of an event of type `kind`.
    pub(crate) fn event(&mut self, out: &mut Vec<u8>, kind: &str, stored: &Stored, now: Timestamp) {
        let presentation = self.format.presentation;
        if self.format.encoding != Encoding::Json {
            let object = protobuf::object(&self.resource, stored, presentation);
            protobuf::event(out, kind, object);
            return;
        }
        open(out, kind);
        if let Presentation::Table(include, version) = presentation {
            let object = row_object(&self.resource, stored, include);
            let table = self.table(&object, include, version, now);
            out.extend_from_slice(table.to_string().as_bytes());
        } else {
            write_object(out, &self.resource, stored, presentation, true);
        }
        close(out);
    }

    /// Appends the beginning of the line of an event with a large object, and returns the serialized
    /// object, which all watches share. The caller sends it, and then calls [`close_shared`].
    ///
    /// Returns `None` if the object is small or is not sent as stored.
    pub(crate) fn shared_event(
        &self,
        out: &mut Vec<u8>,
        kind: &str,
        stored: &Stored,
    ) -> Option<Bytes> {
        /// Smaller objects are copied, which costs less than a separate write.
        const LARGE: usize = 4 * 1024;
        let resource = &*self.resource;
        let as_stored = self.format.encoding == Encoding::Json
            && self.format.presentation == Presentation::Object
            && resource.view == View::Same
            && resource.is_up_to_date(stored);
        let body = as_stored.then(|| stored.body().clone());
        let body = body.filter(|body| body.len() >= LARGE)?;
        open(out, kind);
        out.push(b'{');
        out.extend_from_slice(resource.type_members().as_bytes());
        out.push(b',');
        Some(body)
    }

    /// Appends the line or frame of a bookmark. `initial` marks the end of the initial events.
    pub(crate) fn bookmark(
        &mut self,
        out: &mut Vec<u8>,
        revision: u64,
        initial: bool,
        now: Timestamp,
    ) {
        let mut metadata = json!({ "resourceVersion": revision.to_string() });
        if initial {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let (kind, api_version) = match self.format.presentation {
            Presentation::Metadata(version) => ("PartialObjectMetadata", version.api_version()),
            _ => (
                self.resource.info.kind.as_str(),
                self.resource.api_version(),
            ),
        };
        let mut object = json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata });
        if self.format.encoding != Encoding::Json {
            protobuf::event(out, "BOOKMARK", windlass_protobuf::encode(&object));
            return;
        }
        if let Presentation::Table(include, version) = self.format.presentation {
            // As in Kubernetes, a bookmark is a table with one row, for an object without a name.
            object = self.table(&object, include, version, now);
        }
        open(out, "BOOKMARK");
        out.extend_from_slice(object.to_string().as_bytes());
        close(out);
    }

    fn table(
        &mut self,
        object: &Value,
        include: IncludeObject,
        version: MetaVersion,
        now: Timestamp,
    ) -> Value {
        let list_meta = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
        let mut table = self
            .resource
            .columns
            .table(&[object], &list_meta, include, version, now);
        if self.has_sent_columns {
            table["columnDefinitions"] = Value::Null;
        }
        self.has_sent_columns = true;
        table
    }
}

/// Appends the end of the line of an event that [`EventEncoder::shared_event`] began.
pub(crate) fn close_shared(out: &mut Vec<u8>) {
    out.push(b'}');
    close(out);
}

/// Encodes an `ERROR` event as a line or frame.
pub(crate) fn error_line(status: &Status, encoding: Encoding) -> Bytes {
    let mut out = Vec::new();
    if encoding != Encoding::Json {
        protobuf::event(
            &mut out,
            "ERROR",
            windlass_protobuf::encode(&status.to_value()),
        );
        return out.into();
    }
    open(&mut out, "ERROR");
    out.extend_from_slice(status.to_json().as_bytes());
    close(&mut out);
    out.into()
}

fn open(out: &mut Vec<u8>, kind: &str) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
}

fn close(out: &mut Vec<u8>) {
    out.extend_from_slice(b"}\n");
}
