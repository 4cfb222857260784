//! The zero values of Go, which Go writes for unset fields that it never omits.

use serde_json::{Map, Value};

use super::super::table::{Empty, Field, FieldType, Struct, named};
use super::decode;

/// The value that Go writes for an unset field, without defaults.
pub(crate) fn empty(kind: &Struct, field: &str) -> Option<Value> {
    kind.fields.get(field).map(|field| zero(&field.shape))
}

/// The value that Go writes for a field that is not set. `None` if Go omits it.
pub(crate) fn zero_member(field: &Field) -> Option<Value> {
    match (field.empty, field.is_pointer) {
        (Empty::Zero, _) | (Empty::Omitted, true) => None,
        (Empty::Kept, true) => Some(Value::Null),
        // These are structs in Go, and `omitempty` never omits a struct.
        (Empty::Omitted, false) => match &field.shape {
            FieldType::Struct(_)
            | FieldType::Time
            | FieldType::MicroTime
            | FieldType::Quantity
            | FieldType::IntOrString
            | FieldType::Duration => Some(zero(&field.shape)),
            // Go writes empty raw JSON as `null`.
            FieldType::Json => Some(Value::Null),
            _ => None,
        },
        (Empty::Kept, false) => Some(zero(&field.shape)),
    }
}

/// The JSON that Go writes for the zero value of a type.
pub(super) fn zero(shape: &FieldType) -> Value {
    match shape {
        FieldType::Text(_) => "".into(),
        FieldType::Int32(_) | FieldType::Int64(_) | FieldType::Double | FieldType::IntOrString => {
            0.into()
        }
        FieldType::Bool => false.into(),
        FieldType::Quantity => "0".into(),
        FieldType::Duration => "0s".into(),
        FieldType::Struct(name) => {
            let mut members = Value::Object(Map::new());
            // An empty object has no field of the wrong type.
            let _ = named(name).map(|found| decode(found, &mut members));
            members
        }
        _ => Value::Null,
    }
}

/// Whether Go's `omitempty` omits a value that is not a struct.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
