//! The frames of a watch.
//!
//! A watch in protobuf is a stream of frames: four bytes that say how long a frame is, the
//! most significant first, then a `WatchEvent` message. Its object has an envelope of its own.

use serde_json::Value;

use crate::error::{DecodeError, EncodeError, Misfit, Problem};
use crate::wire::{Payload, Reader, Writer};

/// The media type of a watch in this form.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// How many bytes say how long a frame is.
const PREFIX: usize = 4;

/// What a watch says: what happened, to which object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent<'a> {
    /// What happened: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub event: &'a str,

    /// The object, with its envelope.
    pub object: &'a [u8],
}

/// Cuts the bytes of a watch into frames, in whatever pieces they come.
///
/// Holds at most one frame and what came after it in the same piece.
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

    /// How many of the bytes have been given out.
    read: usize,
}

// === impl WatchEvent ===

impl<'a> WatchEvent<'a> {
    /// Reads the content of a frame.
    ///
    /// # Errors
    ///
    /// If it is not a `WatchEvent` message.
    pub fn parse(frame: &'a [u8]) -> Result<Self, DecodeError> {
        let mut event = Self {
            event: "",
            object: b"",
        };
        let mut reader = Reader::new(frame);
        while let Some((number, payload)) = reader.next()? {
            match (number, payload) {
                (1, Payload::Bytes(text)) => {
                    event.event =
                        std::str::from_utf8(text).map_err(|_| Problem::Mismatch("a string"))?;
                }
                (2, Payload::Bytes(extension)) => event.object = raw(extension)?,
                (1 | 2, _) => return Err(Problem::Mismatch("a message").into()),
                _ => {}
            }
        }
        Ok(event)
    }

    /// Reads the object.
    ///
    /// # Errors
    ///
    /// As [`decode`](crate::decode).
    pub fn object(&self) -> Result<Value, DecodeError> {
        crate::decode(self.object)
    }

    /// Writes the event as a frame, with its length.
    ///
    /// # Errors
    ///
    /// If the object is longer than four bytes can say: 4 GiB.
    pub fn to_frame(&self) -> Result<Vec<u8>, EncodeError> {
        let mut writer = Writer::default();
        let end = writer.len();
        writer.bytes_field(1, self.object);
        writer.close_field(2, end);
        writer.bytes_field(1, self.event.as_bytes());
        let length = u32::try_from(writer.len()).map_err(|_| Misfit::TooLong)?;
        writer.raw(&length.to_be_bytes());
        Ok(writer.finish())
    }
}

/// The bytes in a `RawExtension`.
fn raw(extension: &[u8]) -> Result<&[u8], Problem> {
    let mut raw: &[u8] = b"";
    let mut reader = Reader::new(extension);
    while let Some((number, payload)) = reader.next()? {
        if number == 1 {
            let Payload::Bytes(bytes) = payload else {
                return Err(Problem::Mismatch("bytes"));
            };
            raw = bytes;
        }
    }
    Ok(raw)
}

// === impl Frames ===

impl Frames {
    /// A reader of frames of at most `limit` bytes each.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: Vec::new(),
            read: 0,
        }
    }

    /// Adds bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next frame, without its length; `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// If the next frame is longer than the limit; the stream is of no use then.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, DecodeError> {
        let rest = self.bytes.get(self.read..).unwrap_or_default();
        let Some((prefix, rest)) = rest.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
        if length > self.limit {
            let limit = self.limit;
            return Err(Problem::Frame { length, limit }.into());
        }
        let Some(frame) = rest.get(..length) else {
            return Ok(None);
        };
        let frame = frame.to_vec();
        self.read = self.read.saturating_add(PREFIX).saturating_add(length);
        Ok(Some(frame))
    }

    /// Whether bytes are left that are not a whole frame: at the end of a stream, it broke off.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.read < self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{Frames, WatchEvent};

    #[test]
    fn frames_are_cut_wherever_the_pieces_end() {
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
    fn a_frame_above_the_limit_is_refused_before_it_has_come() {
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
