//! Decodes single values: of a field, a list item or a map entry. *(pure)*

use serde_json::Value;

use super::{Decoder, OBJECT_COST, Object, special};
use crate::MAX_DEPTH;
use crate::envelope::MAGIC;
use crate::error::{DecodeError, DecodeProblem};
use crate::table::Type;
use crate::wire::{Payload, Reader};

// === impl Decoder ===

impl Decoder {
    /// Reads a single value.
    pub(super) fn value(
        &mut self,
        value: Type,
        payload: Payload<'_>,
        depth: u32,
    ) -> Result<Value, DecodeError> {
        self.spend(1)?;
        Ok(match value {
            Type::Bool => (varint(payload)? != 0).into(),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "protobuf keeps the low 32 bits"
            )]
            Type::Int32 => (varint(payload)? as i32).into(),
            Type::Int64 => varint(payload)?.cast_signed().into(),
            Type::Double => match payload {
                Payload::Fixed64(bits) => special::number(f64::from_bits(bits)),
                _ => return Err(DecodeProblem::Mismatch("a double").into()),
            },
            Type::String => text(payload)?.into(),
            Type::Bytes => special::base64(bytes(payload)?),
            Type::Message(message) => {
                let mut object = Object::new();
                self.spend(OBJECT_COST)?;
                self.read(message, message_bytes(payload)?, &mut object, depth + 1)?;
                self.fill(message, &mut object)?;
                object.into()
            }
            Type::Quantity => special::quantity(message_bytes(payload)?)?,
            Type::IntOrString => special::int_or_string(message_bytes(payload)?)?,
            Type::Time => special::time(message_bytes(payload)?, false)?,
            Type::MicroTime => special::time(message_bytes(payload)?, true)?,
            Type::Duration => special::duration(message_bytes(payload)?)?,
            Type::StringList => self.strings(1, message_bytes(payload)?)?,
            Type::RawJson | Type::RawObject => self.raw_json(message_bytes(payload)?, depth)?,
            Type::SchemaOrBool(_) | Type::SchemaOrArray(_) | Type::SchemaOrStrings(_) => {
                self.schema_or(value, message_bytes(payload)?, depth)?
            }
        })
    }

    /// Reads a list of strings in the field `number`.
    fn strings(&mut self, number: u32, bytes: &[u8]) -> Result<Value, DecodeError> {
        let mut strings = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some((found, payload)) = reader.next()? {
            if found == number {
                self.spend(1)?;
                strings.push(text(payload)?.into());
            }
        }
        Ok(Value::Array(strings))
    }

    /// Reads raw JSON, or an object with its own envelope.
    fn raw_json(&mut self, message: &[u8], depth: u32) -> Result<Value, DecodeError> {
        let mut raw: &[u8] = b"";
        let mut reader = Reader::new(message);
        while let Some((number, payload)) = reader.next()? {
            if number == 1 {
                raw = bytes(payload)?;
            }
        }
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        if depth >= MAX_DEPTH {
            return Err(DecodeProblem::TooDeep.into());
        }
        if raw.starts_with(MAGIC) {
            return self.envelope(raw, "", "", depth + 1);
        }
        self.spend(raw.len())?;
        serde_json::from_slice(raw).map_err(|error| special::not_json(&error).into())
    }

    /// Reads a schema, or one of the alternatives to it.
    fn schema_or(&mut self, union: Type, message: &[u8], depth: u32) -> Result<Value, DecodeError> {
        let (props, schema_field) = match union {
            Type::SchemaOrBool(props) => (props, 2),
            Type::SchemaOrArray(props) | Type::SchemaOrStrings(props) => (props, 1),
            _ => return Ok(Value::Null),
        };
        let mut allows = false;
        let mut schema = Value::Null;
        let mut list = Vec::new();
        let mut reader = Reader::new(message);
        while let Some((number, payload)) = reader.next()? {
            match union {
                _ if number == schema_field => {
                    schema = self.value(Type::Message(props), payload, depth)?;
                }
                Type::SchemaOrBool(_) if number == 1 => allows = varint(payload)? != 0,
                Type::SchemaOrArray(_) if number == 2 => {
                    list.push(self.value(Type::Message(props), payload, depth)?);
                }
                Type::SchemaOrStrings(_) if number == 2 => {
                    list.push(self.value(Type::String, payload, depth)?);
                }
                _ => {}
            }
        }
        Ok(match union {
            _ if !list.is_empty() => list.into(),
            Type::SchemaOrBool(_) if schema.is_null() => allows.into(),
            _ => schema,
        })
    }
}

pub(super) fn varint(payload: Payload<'_>) -> Result<u64, DecodeProblem> {
    match payload {
        Payload::Varint(number) => Ok(number),
        _ => Err(DecodeProblem::Mismatch("a number")),
    }
}

pub(super) fn bytes(payload: Payload<'_>) -> Result<&[u8], DecodeProblem> {
    match payload {
        Payload::Bytes(bytes) => Ok(bytes),
        _ => Err(DecodeProblem::Mismatch("bytes")),
    }
}

pub(super) fn message_bytes(payload: Payload<'_>) -> Result<&[u8], DecodeProblem> {
    match payload {
        Payload::Bytes(bytes) => Ok(bytes),
        _ => Err(DecodeProblem::Mismatch("a message")),
    }
}

pub(super) fn text(payload: Payload<'_>) -> Result<String, DecodeProblem> {
    match payload {
        Payload::Bytes(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        _ => Err(DecodeProblem::Mismatch("a string")),
    }
}
