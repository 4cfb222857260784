//! The message around every object. *(pure)*

use std::borrow::Cow;

use crate::error::{DecodeError, Problem};
use crate::wire::{Payload, Reader, Writer};

/// The bytes that every object in this form begins with.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// An object whose kind is read and whose content is not.
///
/// It is a `runtime.Unknown` message after four magic bytes. Its `contentEncoding` and
/// `contentType` are not used by Kubernetes and are skipped.
///
/// # Example
///
/// ```
/// use serde_json::json;
/// use windlass_protobuf::Envelope;
///
/// let bytes = windlass_protobuf::encode(&json!({ "apiVersion": "v1", "kind": "Secret" }))?;
/// let envelope = Envelope::parse(&bytes)?;
/// assert_eq!((&*envelope.api_version, &*envelope.kind), ("v1", "Secret"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The group and version of the object, such as `apps/v1`; empty if the sender names none.
    pub api_version: Cow<'a, str>,

    /// The kind of the object; empty if the sender names none.
    pub kind: Cow<'a, str>,

    /// The message of the object.
    pub raw: &'a [u8],
}

// === impl Envelope ===

impl<'a> Envelope<'a> {
    /// Reads the envelope of an object.
    ///
    /// # Errors
    ///
    /// If the bytes do not begin with [`MAGIC`], or are not a message after it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let message = bytes.strip_prefix(MAGIC).ok_or(Problem::Magic)?;
        let mut envelope = Self::default();
        let mut reader = Reader::new(message);
        while let Some((number, payload)) = reader.next()? {
            match (number, payload) {
                (1, Payload::Bytes(bytes)) => envelope.read_type(bytes)?,
                (2, Payload::Bytes(bytes)) => envelope.raw = bytes,
                (1..=4, payload) if !matches!(payload, Payload::Bytes(_)) => {
                    return Err(Problem::Mismatch("a message").into());
                }
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &'a [u8]) -> Result<(), Problem> {
        let mut reader = Reader::new(bytes);
        while let Some((number, payload)) = reader.next()? {
            let field = match number {
                1 => &mut self.api_version,
                2 => &mut self.kind,
                _ => continue,
            };
            let Payload::Bytes(text) = payload else {
                return Err(Problem::Mismatch("a string"));
            };
            *field = String::from_utf8_lossy(text);
        }
        Ok(())
    }
}

/// Writes an envelope around the message that `write` writes.
pub(crate) fn wrap<E>(
    api_version: &str,
    kind: &str,
    write: impl FnOnce(&mut Writer) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let mut writer = Writer::default();
    // Go writes contentType and contentEncoding, both empty, at the end.
    writer.bytes_field(4, b"");
    writer.bytes_field(3, b"");
    let end = writer.len();
    write(&mut writer)?;
    writer.close_field(2, end);
    let end = writer.len();
    writer.bytes_field(2, kind.as_bytes());
    writer.bytes_field(1, api_version.as_bytes());
    writer.close_field(1, end);
    writer.raw(MAGIC);
    Ok(writer.finish())
}
