//! The envelope of every object. *(pure)*

use std::borrow::Cow;

use crate::error::{DecodeError, DecodeProblem};
use crate::wire::{Payload, Reader, Writer};

/// The first bytes of every object in protobuf.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// The envelope of an object whose content is not decoded.
///
/// It is a `runtime.Unknown` message after four magic bytes. Kubernetes does not use its
/// `contentEncoding` and `contentType`, which are skipped.
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
    /// The group and version of the object, such as `apps/v1`. Empty if the sender omits them.
    pub api_version: Cow<'a, str>,

    /// The kind of the object. Empty if the sender omits it.
    pub kind: Cow<'a, str>,

    /// The message of the object.
    pub raw: &'a [u8],
}

// === impl Envelope ===

impl<'a> Envelope<'a> {
    /// Parses the envelope of an object.
    ///
    /// # Errors
    ///
    /// The bytes do not begin with [`MAGIC`], or no valid message follows.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let message = bytes.strip_prefix(MAGIC).ok_or(DecodeProblem::Magic)?;
        let mut envelope = Self::default();
        let mut reader = Reader::new(message);
        while let Some((number, payload)) = reader.next()? {
            match (number, payload) {
                (1, Payload::Bytes(bytes)) => envelope.read_type(bytes)?,
                (2, Payload::Bytes(bytes)) => envelope.raw = bytes,
                (1..=4, payload) if !matches!(payload, Payload::Bytes(_)) => {
                    return Err(DecodeProblem::Mismatch("a message").into());
                }
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &'a [u8]) -> Result<(), DecodeProblem> {
        let mut reader = Reader::new(bytes);
        while let Some((number, payload)) = reader.next()? {
            let field = match number {
                1 => &mut self.api_version,
                2 => &mut self.kind,
                _ => continue,
            };
            let Payload::Bytes(text) = payload else {
                return Err(DecodeProblem::Mismatch("a string"));
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
    // Go also writes the empty contentType and contentEncoding, at the end.
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
