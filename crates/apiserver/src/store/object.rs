//! A stored object at one revision, with its serialized bytes.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{json, managed};

/// A stored object at one revision, with its serialized bytes, which the first use caches.
///
/// It has no `apiVersion` and `kind`, because they depend on the version of the request. The encoder
/// prepends them, so that the watches of all versions share one serialization. Each `fieldsV1` of
/// its `managedFields` is a string, which [`managed::expand`] parses.
#[derive(Debug)]
pub(crate) struct Stored {
    value: Value,
    revision: u64,
    schema: u64,
    /// The estimated size of the object in memory, in bytes.
    size: usize,
    body: OnceLock<Bytes>,
    metadata: OnceLock<Bytes>,
}

// === impl Stored ===

impl Stored {
    pub(super) fn new(mut value: Value, revision: u64, schema: u64) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
        }
        let size = size_of::<Self>().saturating_add(estimated_size(&value));
        Self {
            value,
            revision,
            schema,
            size,
            body: OnceLock::new(),
            metadata: OnceLock::new(),
        }
    }

    /// Creates an object that is not stored, for the response to a dry run.
    pub(crate) fn unsaved(value: Value) -> Self {
        Self {
            value,
            revision: 0,
            schema: 0,
            size: 0,
            body: OnceLock::new(),
            metadata: OnceLock::new(),
        }
    }

    /// Returns a copy of the object at another revision.
    pub(crate) fn at(&self, revision: u64) -> Self {
        Self::new(self.value.clone(), revision, self.schema)
    }

    /// Returns an object with another value at the same revision.
    pub(crate) fn rewritten(&self, value: Value) -> Self {
        Self::new(value, self.revision, self.schema)
    }

    /// Returns the value of the object, without `apiVersion` and `kind`.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the revision at which the object was written.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the number of the schema to which the object conforms.
    pub(crate) fn schema(&self) -> u64 {
        self.schema
    }

    /// Returns the estimated size of the object in memory, in bytes.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns a field of `metadata`.
    pub(crate) fn metadata(&self, field: &str) -> Option<&Value> {
        self.value.get("metadata")?.get(field)
    }

    /// Returns the uid; empty if the object has none.
    pub(crate) fn uid(&self) -> &str {
        self.metadata("uid")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Returns whether the object has a deletionTimestamp.
    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata("deletionTimestamp").is_some()
    }

    /// Returns whether the object has at least one finalizer.
    pub(crate) fn has_finalizers(&self) -> bool {
        self.metadata("finalizers")
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty())
    }

    /// Returns the members of the serialized object, without the braces.
    pub(crate) fn body(&self) -> &Bytes {
        self.body.get_or_init(|| match &self.value {
            Value::Object(object) => stored_members(object),
            _ => Bytes::new(),
        })
    }

    /// Returns the serialized member `metadata`, without braces around it.
    pub(crate) fn metadata_body(&self) -> &Bytes {
        self.metadata.get_or_init(|| {
            let metadata = self.value.get("metadata").cloned().unwrap_or_default();
            stored_members(&Map::from_iter([("metadata".to_owned(), metadata)]))
        })
    }
}

/// Returns the estimated size of `value` in memory, including its JSON, in bytes.
pub(crate) fn estimated_size(value: &Value) -> usize {
    /// The size of a member of a map: its key, its value, and a part of the tree nodes.
    const MEMBER: usize = 2 * (size_of::<String>() + size_of::<Value>());

    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len().saturating_mul(2),
        Value::Array(items) => items
            .iter()
            .map(|item| estimated_size(item).saturating_add(size_of::<Value>()))
            .fold(0, usize::saturating_add),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| {
                estimated_size(value)
                    .saturating_add(key.len().saturating_mul(2))
                    .saturating_add(MEMBER)
            })
            .fold(0, usize::saturating_add),
    }
}

/// Serializes the members of an object of the API, without the braces.
pub(crate) fn members(object: &Map<String, Value>) -> Bytes {
    let mut out = Vec::new();
    json::write_members(&mut out, object, |out, _, value| json::write(out, value));
    out.into()
}

/// Serializes the members of a stored object, without the braces.
fn stored_members(object: &Map<String, Value>) -> Bytes {
    // Most objects are smaller.
    let mut out = Vec::with_capacity(2048);
    json::write_members(&mut out, object, |out, name, value| match value {
        Value::Object(metadata) if name == "metadata" => {
            out.push(b'{');
            json::write_members(out, metadata, |out, name, value| match name {
                "managedFields" => managed::write_entries(out, value),
                _ => json::write(out, value),
            });
            out.push(b'}');
        }
        value => json::write(out, value),
    });
    // The bytes are cached as long as the object is stored.
    out.into_boxed_slice().into()
}
