//! Fills in the fields that protobuf omits and JSON contains.

use serde_json::Value;

use super::{Decoder, OBJECT_COST, Object};
use crate::error::{DecodeError, DecodeProblem};
use crate::table::{Absent, Field, Message, Shape, Type};

// === impl Decoder ===

impl Decoder {
    /// Fills in the members that the JSON of a message requires and its bytes omit, also in nested
    /// messages. Items of lists and values of maps are already complete.
    pub(super) fn fill(
        &mut self,
        message: &'static Message,
        object: &mut Object,
    ) -> Result<(), DecodeError> {
        for field in message.fields {
            match (field.shape, field.value) {
                (Shape::Inline, Type::Message(inner)) => self.fill(inner, object)?,
                (Shape::Pointer, Type::Message(inner)) => match object.get_mut(field.name) {
                    Some(Value::Object(value)) => self.fill(inner, value)?,
                    Some(_) => {}
                    None => self.absent(field, object)?,
                },
                (Shape::One, Type::Message(inner)) => {
                    if !object.contains_key(field.name) {
                        self.spend(OBJECT_COST)?;
                    }
                    let value = object
                        .entry(field.name)
                        .or_insert_with(|| Object::new().into());
                    if let Value::Object(value) = value {
                        self.fill(inner, value)?;
                    }
                }
                _ if object.contains_key(field.name) => {}
                _ => self.absent(field, object)?,
            }
        }
        Ok(())
    }

    /// Adds the JSON member of an omitted field that is not a message.
    fn absent(&mut self, field: &'static Field, object: &mut Object) -> Result<(), DecodeProblem> {
        let nullable = match field.shape {
            Shape::Pointer | Shape::List | Shape::Map => true,
            Shape::One | Shape::Inline => matches!(field.value, Type::Bytes | Type::StringList),
        };
        let value = match field.absent {
            Absent::EmptyList => Value::Array(Vec::new()),
            Absent::Kept if nullable => Value::Null,
            Absent::Zero => return Ok(()),
            Absent::Omitted if nullable || is_scalar(field.value) => return Ok(()),
            Absent::Kept | Absent::Omitted => zero(field.value),
        };
        self.spend(1)?;
        object.insert(field.name.to_owned(), value);
        Ok(())
    }

    /// The zero value of a type, with all required members.
    pub(super) fn zero(&mut self, value: Type) -> Result<Value, DecodeError> {
        let Type::Message(message) = value else {
            return Ok(zero(value));
        };
        self.spend(OBJECT_COST)?;
        let mut object = Object::new();
        self.fill(message, &mut object)?;
        Ok(object.into())
    }
}

/// Whether Go's `omitempty` omits the zero value.
fn is_scalar(value: Type) -> bool {
    matches!(
        value,
        Type::Bool | Type::Int32 | Type::Int64 | Type::Double | Type::String
    )
}

/// The zero value of a type that is not a message.
fn zero(value: Type) -> Value {
    match value {
        Type::Bool | Type::SchemaOrBool(_) => false.into(),
        Type::Int32 | Type::Int64 | Type::Double | Type::IntOrString => 0.into(),
        Type::String | Type::Bytes => "".into(),
        Type::Quantity => "0".into(),
        Type::Duration => "0s".into(),
        Type::StringList => Value::Array(Vec::new()),
        Type::Message(_) => Object::new().into(),
        Type::Time
        | Type::MicroTime
        | Type::RawJson
        | Type::RawObject
        | Type::SchemaOrArray(_)
        | Type::SchemaOrStrings(_) => Value::Null,
    }
}
