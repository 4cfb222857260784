//! Converts Kubernetes objects between protobuf and JSON, without generated types.
//!
//! An API server and its clients exchange objects of built-in kinds as
//! `application/vnd.kubernetes.protobuf`: four magic bytes, then a `runtime.Unknown` message with
//! the kind and the object. This crate decodes this format to the JSON that kube-apiserver would
//! have sent for the same object, and encodes JSON in this format. `cargo xtask protobuf-tables`
//! generates the tables of the messages and fields of the Kubernetes API.
//!
//! # Guarantees
//!
//! - [`decode`] returns the JSON that Go's `encoding/json` writes for the object that Go decodes
//!   from the same bytes: the same members, `null`s and empty objects.
//! - [`encode`] returns the bytes that Go writes for the object that Go decodes from the same
//!   JSON. There are two differences, which decoders do not notice: quantities are not converted
//!   to their canonical form, and raw JSON (`FieldsV1`, `RawExtension`) has sorted members and no
//!   white space. If `fieldsV1` is a string with JSON, its text is not changed.
//! - Malicious bytes cause a [`DecodeError`]: the depth is limited to [`MAX_DEPTH`] and memory to
//!   a multiple of the length of the bytes. Unknown fields are skipped.
//! - Members that a kind does not have are dropped, as by kube-apiserver.
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

// The public API.
mod decode;
mod encode;
mod envelope;
mod error;
pub mod watch;

// The tables of kinds and messages.
mod kinds;
mod table;
mod tables;

// The encoding of single values.
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

/// The media type of an object as protobuf.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The maximum nesting of messages when encoding and decoding. It is the default limit of other
/// protobuf decoders.
pub const MAX_DEPTH: u32 = 100;
