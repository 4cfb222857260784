//! The limits on the size of stored objects, which are those of etcd and of its client. *(pure)*

use serde_json::{Value, json};
use windlass_protobuf::encode_as;

use crate::metadata;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::{Key, Stored, estimated_size};
use crate::wire::WriteOptions;

/// The maximum size of a request to etcd, in bytes: the default of its `--max-request-bytes`.
const MAX_REQUEST: usize = 1536 * 1024;

/// The maximum size of a message of etcd's client, in bytes.
const MAX_MESSAGE: usize = 2 * 1024 * 1024;

/// The size of the fields of a write other than the object and the keys, in bytes.
const OTHER_FIELDS: usize = 64;

/// An object with a smaller estimated size is never larger than the limits. In JSON, a character
/// of a string has at most six bytes, of which the estimate counts two.
const UNCHECKED: usize = (MAX_REQUEST - 64 * 1024) / 3;

/// Checks that etcd can store `object`. If it is too large, removes its `managedFields` first, but
/// not after an apply, as on the real server.
///
/// # Errors
///
/// 500 if the object is too large.
pub(super) fn limit(
    resource: &Resource,
    key: &Key,
    object: &mut Value,
    options: &WriteOptions,
) -> Result<(), Status> {
    if options.dry_run || estimated_size(object) < UNCHECKED {
        return Ok(());
    }
    match check(resource, key, object) {
        Err(_) if !options.is_apply => {
            metadata::of(object).remove("managedFields");
            check(resource, key, object)
        }
        checked => checked,
    }
}

fn check(resource: &Resource, key: &Key, object: &Value) -> Result<(), Status> {
    // A write has the key in its condition, in its put and in the read of a conflict.
    let keys = 3 * (key.namespace.len() + key.name.len() + resource.table.len());
    let size = stored_size(resource, object) + keys + OTHER_FIELDS;
    if size > MAX_MESSAGE {
        return Err(Status::untyped(format!(
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max \
             ({size} vs. {MAX_MESSAGE})"
        )));
    }
    if size > MAX_REQUEST {
        return Err(Status::untyped("etcdserver: request is too large"));
    }
    Ok(())
}

/// Returns the size of an object in etcd: built-in kinds are stored as protobuf, others as JSON.
fn stored_size(resource: &Resource, object: &Value) -> usize {
    let (version, kind) = (resource.api_version(), &resource.info.kind);
    if !resource.info.custom
        && let Ok(bytes) = encode_as(version, kind, object)
    {
        return bytes.len();
    }
    let header = json!({ "apiVersion": version, "kind": kind }).to_string();
    let stored = Stored::unsaved(object.clone());
    let escaped = stored.body().iter().filter(|byte| b"<>&".contains(byte));
    // Go writes these characters as `\u003c`.
    header.len() + stored.body().len() + 5 * escaped.count()
}
