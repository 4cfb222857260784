//! A stored object at one revision, with its serialized bytes.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{json, managed};

/// A stored object at one revision, and its bytes after their first use.
///
/// It has no `apiVersion` and `kind`, which depend on the version of the request. They are
/// prepended to the bytes when these are sent, so that all watches of an object share one
/// serialization in every version. The fields in its `managedFields` are texts, which
/// [`managed::expand`] parses.
#[derive(Debug)]
pub(crate) struct Stored {
    value: Value,
    revision: u64,
    schema: u64,
    /// What it takes in memory, in bytes, estimated.
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
        let size = size_of::<Self>().saturating_add(json_size(&value));
        Self {
            value,
            revision,
            schema,
            size,
            body: OnceLock::new(),
            metadata: OnceLock::new(),
        }
    }

    /// An object that was never stored, for the response to a dry run.
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

    /// The same object at another revision.
    pub(crate) fn at(&self, revision: u64) -> Self {
        Self::new(self.value.clone(), revision, self.schema)
    }

    /// The same object at the same revision, in another form.
    pub(crate) fn rewritten(&self, value: Value) -> Self {
        Self::new(value, self.revision, self.schema)
    }

    /// The object, without `apiVersion` and `kind`.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// The revision at which it was written.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The number of the schema that it conforms to.
    pub(crate) fn schema(&self) -> u64 {
        self.schema
    }

    /// What it takes in memory, in bytes, estimated.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// A field of its metadata.
    pub(crate) fn metadata(&self, field: &str) -> Option<&Value> {
        self.value.get("metadata")?.get(field)
    }

    /// Its uid, or nothing.
    pub(crate) fn uid(&self) -> &str {
        self.metadata("uid")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Whether it is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata("deletionTimestamp").is_some()
    }

    /// Whether it has a finalizer.
    pub(crate) fn has_finalizers(&self) -> bool {
        self.metadata("finalizers")
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty())
    }

    /// The members of the JSON object, without the braces.
    pub(crate) fn body(&self) -> &Bytes {
        self.body.get_or_init(|| match &self.value {
            Value::Object(object) => stored_members(object),
            _ => Bytes::new(),
        })
    }

    /// The member `metadata` alone, without braces around it.
    pub(crate) fn metadata_body(&self) -> &Bytes {
        self.metadata.get_or_init(|| {
            let metadata = self.value.get("metadata").cloned().unwrap_or_default();
            stored_members(&Map::from_iter([("metadata".to_owned(), metadata)]))
        })
    }
}

/// The estimated size of `value` in memory, and the size of its JSON, in bytes.
fn json_size(value: &Value) -> usize {
    /// A member of a map: its key, its value, and its share of the nodes of the tree.
    const MEMBER: usize = 2 * (size_of::<String>() + size_of::<Value>());

    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len().saturating_mul(2),
        Value::Array(items) => items
            .iter()
            .map(|item| json_size(item).saturating_add(size_of::<Value>()))
            .fold(0, usize::saturating_add),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| {
                json_size(value)
                    .saturating_add(key.len().saturating_mul(2))
                    .saturating_add(MEMBER)
            })
            .fold(0, usize::saturating_add),
    }
}

/// The members of an object as the API has it, without the braces around them.
pub(crate) fn members(object: &Map<String, Value>) -> Bytes {
    let mut out = Vec::new();
    json::write_members(&mut out, object, |out, _, value| json::write(out, value));
    out.into()
}

/// The members of a stored object, without the braces around them.
fn stored_members(object: &Map<String, Value>) -> Bytes {
    // Few objects are larger.
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
    // It is kept as long as the object.
    out.into_boxed_slice().into()
}
