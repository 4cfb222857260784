//! Decodes protobuf to JSON. *(pure)*
//!
//! A message is read directly into its JSON object, so that a field that occurs twice is merged, as
//! protobuf requires. Members that the bytes omit and JSON requires are filled in after the message
//! was read.

use serde_json::{Map, Value};

use crate::envelope::Envelope;
use crate::error::{DecodeError, DecodeProblem};
use crate::table::{Absent, Field, Message, Shape, Type};
use crate::wire::{Payload, Reader};
use crate::{MAX_DEPTH, kinds};

mod fill;
mod special;
mod value;

use value::{message_bytes, text};

/// A JSON object.
type Object = Map<String, Value>;

/// The number of values that an object may have in addition to one for each of its bytes.
///
/// A struct with many members that are never omitted takes two bytes if it is empty, and thousands
/// of bytes as JSON. Bytes from Go decode to far fewer values than bytes. An encoder that omits all
/// empty members stays far below this constant.
const SPARE_VALUES: usize = 1_000_000;

/// The cost of an object, in values: the size of a node of its map.
const OBJECT_COST: usize = 16;

/// Decodes an object with its envelope.
///
/// The JSON is that which kube-apiserver sends for the object. In strings, invalid UTF-8 is
/// replaced by replacement characters, like in Go.
///
/// # Errors
///
/// The bytes are not an object of a [known](crate::is_known) kind, are nested deeper than
/// [`MAX_DEPTH`], or decode to many more values than they have bytes.
///
/// # Example
///
/// ```
/// let error = windlass_protobuf::decode(b"k8s\0\x12\xff").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "cannot decode protobuf: the bytes end within a field"
/// );
/// ```
pub fn decode(bytes: &[u8]) -> Result<Value, DecodeError> {
    decode_as(bytes, "", "")
}

/// Decodes an object with its envelope, which does not have to name its kind.
///
/// `api_version` and `kind` are used if the envelope has none.
///
/// # Errors
///
/// As [`decode`].
pub fn decode_as(bytes: &[u8], api_version: &str, kind: &str) -> Result<Value, DecodeError> {
    let mut decoder = Decoder {
        spare: bytes.len().saturating_add(SPARE_VALUES),
    };
    decoder.envelope(bytes, api_version, kind, 0)
}

/// The state while an object is decoded.
#[derive(Debug)]
struct Decoder {
    /// The number of values that the object may still have.
    spare: usize,
}

// === impl Decoder ===

impl Decoder {
    fn envelope(
        &mut self,
        bytes: &[u8],
        api_version: &str,
        kind: &str,
        depth: u32,
    ) -> Result<Value, DecodeError> {
        let envelope = Envelope::parse(bytes)?;
        let or = |named: &str, default: &str| {
            let named = if named.is_empty() { default } else { named };
            named.to_owned()
        };
        let api_version = or(&envelope.api_version, api_version);
        let kind = or(&envelope.kind, kind);
        let Some(message) = kinds::find(&api_version, &kind) else {
            return Err(DecodeProblem::UnknownKind { api_version, kind }.into());
        };
        let mut object = Object::new();
        self.read(message, envelope.raw, &mut object, depth)
            .and_then(|()| self.fill(message, &mut object))
            .map_err(|error| error.within(message.name))?;
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), kind.into());
        Ok(object.into())
    }

    /// Reads the fields of a message into `object`, which can already have members.
    fn read(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        object: &mut Object,
        depth: u32,
    ) -> Result<(), DecodeError> {
        if depth >= MAX_DEPTH {
            return Err(DecodeProblem::TooDeep.into());
        }
        let mut reader = Reader::new(bytes);
        while let Some((number, payload)) = reader.next()? {
            let Some(field) = message.field(number) else {
                continue;
            };
            self.field(field, payload, object, depth)
                .map_err(|error| match field.shape {
                    Shape::Inline => error,
                    _ => error.within(field.name),
                })?;
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &'static Field,
        payload: Payload<'_>,
        object: &mut Object,
        depth: u32,
    ) -> Result<(), DecodeError> {
        match (field.shape, field.value) {
            (Shape::Inline, Type::Message(message)) => {
                let bytes = message_bytes(payload)?;
                self.read(message, bytes, object, depth + 1)
            }
            (Shape::One | Shape::Pointer, Type::Message(message)) => {
                let bytes = message_bytes(payload)?;
                if !object.contains_key(field.name) {
                    self.spend(OBJECT_COST)?;
                }
                let value = object
                    .entry(field.name)
                    .or_insert_with(|| Object::new().into());
                match value {
                    Value::Object(inner) => self.read(message, bytes, inner, depth + 1),
                    _ => Ok(()),
                }
            }
            (Shape::List, _) => {
                if !object.contains_key(field.name) {
                    self.spend(1)?;
                }
                let value = object
                    .entry(field.name)
                    .or_insert_with(|| Value::Array(Vec::new()));
                match value {
                    Value::Array(items) => self.items(field.value, payload, items, depth),
                    _ => Ok(()),
                }
            }
            (Shape::Map, _) => {
                if !object.contains_key(field.name) {
                    self.spend(OBJECT_COST)?;
                }
                let value = object
                    .entry(field.name)
                    .or_insert_with(|| Object::new().into());
                match value {
                    Value::Object(entries) => self.entry(field.value, payload, entries, depth),
                    _ => Ok(()),
                }
            }
            (Shape::One | Shape::Pointer | Shape::Inline, _) => {
                let value = self.value(field.value, payload, depth)?;
                if field.shape == Shape::One && is_omitted(field, &value) {
                    object.remove(field.name);
                } else {
                    object.insert(field.name.to_owned(), value);
                }
                Ok(())
            }
        }
    }

    /// Reads one item of a list, or several packed items.
    fn items(
        &mut self,
        value: Type,
        payload: Payload<'_>,
        items: &mut Vec<Value>,
        depth: u32,
    ) -> Result<(), DecodeError> {
        match (value, payload) {
            (Type::Bool | Type::Int32 | Type::Int64, Payload::Bytes(packed)) => {
                let mut reader = Reader::new(packed);
                while let Some(number) = reader.packed_varint()? {
                    items.push(self.value(value, Payload::Varint(number), depth)?);
                }
            }
            (Type::Double, Payload::Bytes(packed)) => {
                let mut reader = Reader::new(packed);
                while let Some(bits) = reader.packed_fixed64()? {
                    items.push(self.value(value, Payload::Fixed64(bits), depth)?);
                }
            }
            _ => {
                let item = self
                    .value(value, payload, depth)
                    .map_err(|error| error.at_index(items.len()))?;
                items.push(item);
            }
        }
        Ok(())
    }

    /// Reads one entry of a map. The last entry of a key has priority.
    fn entry(
        &mut self,
        value: Type,
        payload: Payload<'_>,
        entries: &mut Object,
        depth: u32,
    ) -> Result<(), DecodeError> {
        let mut reader = Reader::new(message_bytes(payload)?);
        let mut key = String::new();
        let mut found = None;
        while let Some((number, payload)) = reader.next()? {
            match number {
                1 => key = text(payload)?,
                2 => {
                    let value = self.value(value, payload, depth);
                    found = Some(value.map_err(DecodeError::at_key)?);
                }
                _ => {}
            }
        }
        let value = match found {
            Some(value) => value,
            None => self.zero(value)?,
        };
        entries.insert(key, value);
        Ok(())
    }

    /// Subtracts the cost of `values` values.
    fn spend(&mut self, values: usize) -> Result<(), DecodeProblem> {
        self.spare = self
            .spare
            .checked_sub(values)
            .ok_or(DecodeProblem::TooMany)?;
        Ok(())
    }
}

/// Whether Go's JSON omits a value of a field that is not a pointer.
fn is_omitted(field: &Field, value: &Value) -> bool {
    match (field.absent, field.value) {
        (Absent::Zero, _) => value.is_null(),
        (
            Absent::Omitted,
            Type::Bool
            | Type::Int32
            | Type::Int64
            | Type::Double
            | Type::String
            | Type::Bytes
            | Type::StringList,
        ) => match value {
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Null | Value::Object(_) => false,
        },
        _ => false,
    }
}
