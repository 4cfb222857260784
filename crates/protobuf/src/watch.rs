//! Frames of a watch stream.
//!
//! A watch in protobuf is a stream of frames: the length of the frame in four bytes, the most
//! significant first, then a `WatchEvent` message. The object in it has its own envelope.

use serde_json::Value;

use crate::error::{DecodeError, DecodeProblem, EncodeError, EncodeProblem};
use crate::wire::{Payload, Reader, Writer};

/// The media type of a watch stream of protobuf frames.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The size of the length of a frame, in bytes.
const PREFIX: usize = 4;

/// An event of a watch: its type and its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent<'a> {
    /// The type: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub event: &'a str,

    /// The object, with its envelope.
    pub object: &'a [u8],
}

/// Splits the bytes of a watch into frames. The chunks of bytes can have any length.
///
/// Buffers at most one frame and the rest of its last chunk.
///
/// # Example
///
/// ```
/// use serde_json::json;
/// use windlass_protobuf::watch::{Frames, WatchEvent};
///
/// let object = windlass_protobuf::encode(&json!({ "apiVersion": "v1", "kind": "Pod" }))?;
/// let event = WatchEvent { event: "ADDED", object: &object };
/// let bytes = event.to_frame()?;
///
/// let mut frames = Frames::new(1024);
/// frames.push(&bytes[..7]);
/// assert_eq!(frames.next_frame()?, None);
/// frames.push(&bytes[7..]);
/// let frame = frames.next_frame()?.unwrap();
/// let event = WatchEvent::parse(&frame)?;
/// assert_eq!(event.event, "ADDED");
/// assert_eq!(event.object()?["kind"], "Pod");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Frames {
    limit: usize,
    bytes: Vec<u8>,

    /// The number of bytes in the buffer that were returned as frames.
    read: usize,
}

// === impl WatchEvent ===

impl<'a> WatchEvent<'a> {
    /// Parses the content of a frame.
    ///
    /// # Errors
    ///
    /// The bytes are not a `WatchEvent` message.
    pub fn parse(frame: &'a [u8]) -> Result<Self, DecodeError> {
        let mut event = Self {
            event: "",
            object: b"",
        };
        let mut reader = Reader::new(frame);
        while let Some((number, payload)) = reader.next()? {
            match (number, payload) {
                (1, Payload::Bytes(text)) => {
                    event.event = std::str::from_utf8(text)
                        .map_err(|_| DecodeProblem::Mismatch("a string"))?;
                }
                (2, Payload::Bytes(extension)) => event.object = raw(extension)?,
                (1 | 2, _) => return Err(DecodeProblem::Mismatch("a message").into()),
                _ => {}
            }
        }
        Ok(event)
    }

    /// Decodes the object.
    ///
    /// # Errors
    ///
    /// As [`decode`](crate::decode).
    pub fn object(&self) -> Result<Value, DecodeError> {
        crate::decode(self.object)
    }

    /// Encodes the event as a frame, with its length.
    ///
    /// # Errors
    ///
    /// The object is larger than 4 GiB, the limit of a length in four bytes.
    pub fn to_frame(&self) -> Result<Vec<u8>, EncodeError> {
        let mut writer = Writer::default();
        let end = writer.len();
        writer.bytes_field(1, self.object);
        writer.close_field(2, end);
        writer.bytes_field(1, self.event.as_bytes());
        let length = u32::try_from(writer.len()).map_err(|_| EncodeProblem::TooLong)?;
        writer.raw(&length.to_be_bytes());
        Ok(writer.finish())
    }
}

/// The bytes in a `RawExtension`.
fn raw(extension: &[u8]) -> Result<&[u8], DecodeProblem> {
    let mut raw: &[u8] = b"";
    let mut reader = Reader::new(extension);
    while let Some((number, payload)) = reader.next()? {
        if number == 1 {
            let Payload::Bytes(bytes) = payload else {
                return Err(DecodeProblem::Mismatch("bytes"));
            };
            raw = bytes;
        }
    }
    Ok(raw)
}

// === impl Frames ===

impl Frames {
    /// Creates a splitter for frames of at most `limit` bytes each.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: Vec::new(),
            read: 0,
        }
    }

    /// Appends a chunk of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next frame, without its length. `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// The next frame is longer than the limit. The rest of the stream cannot be used.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, DecodeError> {
        let rest = self.bytes.get(self.read..).unwrap_or_default();
        let Some((prefix, rest)) = rest.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
        if length > self.limit {
            let limit = self.limit;
            return Err(DecodeProblem::Frame { length, limit }.into());
        }
        let Some(frame) = rest.get(..length) else {
            return Ok(None);
        };
        let frame = frame.to_vec();
        self.read = self.read.saturating_add(PREFIX).saturating_add(length);
        Ok(Some(frame))
    }

    /// Whether an incomplete frame is left. At the end of a stream, this means that it was
    /// truncated.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.read < self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{Frames, WatchEvent};

    #[test]
    fn frames_are_complete_with_any_chunking() {
        let event = |object| WatchEvent {
            event: "ADDED",
            object,
        };
        let mut bytes = event(&b"one"[..]).to_frame().expect("short");
        bytes.extend(event(b"").to_frame().expect("short"));
        for size in 1..bytes.len() {
            let mut frames = Frames::new(64);
            let mut objects = Vec::new();
            for piece in bytes.chunks(size) {
                frames.push(piece);
                while let Some(frame) = frames.next_frame().expect("short frames") {
                    let event = WatchEvent::parse(&frame).expect("an event");
                    objects.push(event.object.to_vec());
                }
            }
            assert_eq!(objects, [b"one".to_vec(), b"".to_vec()], "pieces of {size}");
            assert!(!frames.is_partial());
        }
    }

    #[test]
    fn a_frame_above_the_limit_is_refused_before_it_is_complete() {
        let mut frames = Frames::new(64);
        frames.push(&[0xff, 0xff, 0xff, 0xff]);
        let error = frames.next_frame().expect_err("too long");
        assert_eq!(
            error.to_string(),
            "cannot decode protobuf: a frame of 4294967295 bytes is longer than the limit of 64 \
             bytes"
        );
    }
}
