//! Kubernetes objects between their protobuf form and JSON, without generated types.
//!
//! An API server and its clients exchange objects of built-in kinds as
//! `application/vnd.kubernetes.protobuf`: four magic bytes, then a `runtime.Unknown` message
//! that names the kind and holds the object. This crate translates that form to the JSON
//! that kube-apiserver would have sent for the same object, and back. It is driven by tables
//! of the messages and fields of Kubernetes' API, which `cargo xtask protobuf-tables`
//! generates.
//!
//! # Guarantees
//!
//! - [`decode`] gives the JSON that Go's `encoding/json` writes for the object that Go reads
//!   from the same bytes: the same members, `null`s and empty objects.
//! - [`encode`] gives the bytes that Go writes for the object that it reads from the same
//!   JSON. Two differences remain, which no reader sees: a quantity is sent as it is written,
//!   not in its canonical form, and raw JSON (`FieldsV1`, `RawExtension`) is sent without
//!   white space and with its members sorted. `fieldsV1` may be a string with the text of its
//!   JSON, which is sent as it is.
//! - Hostile bytes give a [`DecodeError`]: depth is limited to [`MAX_DEPTH`], memory to a
//!   multiple of the length of the bytes, and unknown fields are skipped.
//! - Members that a kind does not have are left out, as the real server leaves them out.
//!
//! Custom resources have no protobuf form. CBOR is not supported.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//!
//! let namespace = json!({
//!     "apiVersion": "v1",
//!     "kind": "Namespace",
//!     "metadata": { "name": "blog" },
//! });
//! let bytes = windlass_protobuf::encode(&namespace)?;
//! assert!(bytes.starts_with(b"k8s\0"));
//!
//! // Go has no way to leave out a struct that is not a pointer.
//! let decoded = windlass_protobuf::decode(&bytes)?;
//! assert_eq!(
//!     decoded,
//!     json!({
//!         "apiVersion": "v1",
//!         "kind": "Namespace",
//!         "metadata": { "name": "blog" },
//!         "spec": {},
//!         "status": {},
//!     })
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// What a user calls.
mod decode;
mod encode;
mod envelope;
mod error;
pub mod watch;

// Which kinds there are, and what they consist of.
mod kinds;
mod table;
mod tables;

// How single values are written.
mod duration;
mod time;
mod wire;

#[cfg(test)]
mod tests;

pub use crate::decode::{decode, decode_as};
pub use crate::encode::{encode, encode_as, encode_list};
pub use crate::envelope::{Envelope, MAGIC};
pub use crate::error::{DecodeError, EncodeError};
pub use crate::kinds::{is_known, kinds};

/// The media type of an object in this form.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// How deep messages may be nested, in both directions: the limit that other readers of
/// protobuf have as their default.
pub const MAX_DEPTH: u32 = 100;
