//! From protobuf to JSON. *(pure)*
//!
//! A message is read straight into its JSON object, so that a field which comes twice is
//! merged as protobuf asks for. What the bytes leave out and JSON does not is filled in when
//! the message has been read.

use serde_json::{Map, Value};

use crate::envelope::Envelope;
use crate::error::{DecodeError, Problem};
use crate::table::{Absent, Field, Message, Shape, Type};
use crate::wire::{Payload, Reader};
use crate::{MAX_DEPTH, kinds};

mod fill;
mod special;
mod value;

use value::{message_bytes, text};

/// A JSON object.
type Object = Map<String, Value>;

/// How many values an object may have beside one for each of its bytes.
///
/// A struct with many members that are never left out is two bytes long if it is empty, and
/// takes thousands of bytes as JSON. What Go writes is far below one value for each byte; what
/// leaves out all that is empty is far below this constant.
const SPARE_VALUES: usize = 1_000_000;

/// What an object costs, in values: the size of a node of its map.
const OBJECT_COST: usize = 16;

/// Reads an object with its envelope.
///
/// The JSON is the one that kube-apiserver sends for the object. Strings that are not UTF-8
/// have a replacement character in place of what is not, as Go writes them.
///
/// # Errors
///
/// If the bytes are not an object of a kind that [is known](crate::is_known), are nested
/// deeper than [`MAX_DEPTH`], or stand for many more values than they have bytes.
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

/// Reads an object with its envelope, which need not name its kind.
///
/// `api_version` and `kind` are taken where the envelope says nothing.
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

/// An object as it is read.
#[derive(Debug)]
struct Decoder {
    /// How many values it may still have.
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
            return Err(Problem::UnknownKind { api_version, kind }.into());
        };
        let mut object = Object::new();
        self.read(message, envelope.raw, &mut object, depth)
            .and_then(|()| self.fill(message, &mut object))
            .map_err(|error| error.within(message.name))?;
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), kind.into());
        Ok(object.into())
    }

    /// Reads the fields of a message into `object`, which may have some already.
    fn read(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        object: &mut Object,
        depth: u32,
    ) -> Result<(), DecodeError> {
        if depth >= MAX_DEPTH {
            return Err(Problem::TooDeep.into());
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
                if field.shape == Shape::One && is_left_out(field, &value) {
                    object.remove(field.name);
                } else {
                    object.insert(field.name.to_owned(), value);
                }
                Ok(())
            }
        }
    }

    /// Reads one item of a list, or several that are packed.
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

    /// Reads one entry of a map; the last one of a key counts.
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

    /// Takes the cost of `values` values.
    fn spend(&mut self, values: usize) -> Result<(), Problem> {
        self.spare = self.spare.checked_sub(values).ok_or(Problem::TooMany)?;
        Ok(())
    }
}

/// Whether JSON leaves out a value that is always there in Go.
fn is_left_out(field: &Field, value: &Value) -> bool {
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
