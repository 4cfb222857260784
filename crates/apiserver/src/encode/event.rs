//! Encodes the events of a watch.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{protobuf, row_object, write_object};
use crate::registry::{Resource, View};
use crate::status::Status;
use crate::store::Stored;
use crate::table::{IncludeObject, MetaVersion};
use crate::wire::{Encoding, Format, Presentation};

/// Encodes the events of a watch as lines or frames.
#[derive(Debug)]
pub(crate) struct EventEncoder {
    resource: Arc<Resource>,
    format: Format,
    /// Whether the column definitions were sent: only the first event with a table has them.
    has_sent_columns: bool,
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

    pub(super) fn table(
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
