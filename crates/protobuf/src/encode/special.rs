//! Encodes messages whose JSON has another structure, such as quantities and times. *(pure)*

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::error::EncodeProblem;
use crate::table::Type;
use crate::wire::Writer;
use crate::{duration, time};

/// Below this number, a whole double represents exactly one integer.
const WHOLE: f64 = 9_007_199_254_740_992.0;

/// An integer, also from a number with a zero fraction such as `3.0`.
pub(super) fn integer(found: &Value) -> Option<i64> {
    match found {
        Value::Null => Some(0),
        Value::Number(number) => number.as_i64().or_else(|| {
            let double = number.as_f64()?;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it is whole and small enough"
            )]
            (double.fract() == 0.0 && double.abs() < WHOLE).then_some(double as i64)
        }),
        _ => None,
    }
}

pub(super) fn string(found: &Value) -> Result<&str, EncodeProblem> {
    match found {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text),
        _ => Err(EncodeProblem::Type("a string")),
    }
}

pub(super) fn bytes(found: &Value) -> Result<Vec<u8>, EncodeProblem> {
    const BASE64: EncodeProblem = EncodeProblem::Type("bytes in base64");
    let text = string(found).map_err(|_| BASE64)?;
    if text.contains(['\r', '\n']) {
        // Go skips line ends.
        let text = text.replace(['\r', '\n'], "");
        return STANDARD.decode(text).map_err(|_| BASE64);
    }
    STANDARD.decode(text).map_err(|_| BASE64)
}

/// Writes the content of a message whose JSON has another structure.
pub(super) fn message(writer: &mut Writer, kind: Type, found: &Value) -> Result<(), EncodeProblem> {
    match kind {
        Type::Quantity => writer.bytes_field(1, quantity(found)?.as_bytes()),
        Type::IntOrString => match found {
            Value::String(text) => int_or_string(writer, 1, 0, text),
            found => {
                let int = integer(found).and_then(|it| i32::try_from(it).ok());
                let int = int.ok_or(EncodeProblem::Type("a 32-bit integer or a string"))?;
                int_or_string(writer, 0, int, "");
            }
        },
        Type::Time | Type::MicroTime => timestamp(writer, kind, found)?,
        Type::Duration => {
            let nanos = match found {
                Value::Null => Some(0),
                found => found.as_str().and_then(duration::parse),
            };
            let nanos = nanos.ok_or(EncodeProblem::Type("a duration such as 1m30s"))?;
            writer.varint_field(1, nanos.cast_unsigned());
        }
        Type::RawJson | Type::RawObject if found.is_null() => {}
        Type::RawObject if found.is_string() => {
            writer.bytes_field(1, string(found)?.as_bytes());
        }
        Type::RawJson | Type::RawObject => writer.bytes_field(1, found.to_string().as_bytes()),
        Type::StringList => match found {
            Value::Null => {}
            Value::Array(items) => {
                for item in items.iter().rev() {
                    writer.bytes_field(1, string(item)?.as_bytes());
                }
            }
            _ => return Err(EncodeProblem::Type("a list of strings")),
        },
        // The caller writes these types.
        Type::Bool
        | Type::Int32
        | Type::Int64
        | Type::Double
        | Type::String
        | Type::Bytes
        | Type::Message(_)
        | Type::SchemaOrBool(_)
        | Type::SchemaOrArray(_)
        | Type::SchemaOrStrings(_) => {}
    }
    Ok(())
}

/// A quantity from a string or a number, not converted to its canonical form.
fn quantity(found: &Value) -> Result<Cow<'_, str>, EncodeProblem> {
    match found {
        Value::Null => Ok("0".into()),
        Value::String(text) => Ok(text.trim().into()),
        Value::Number(number) => Ok(number.to_string().into()),
        _ => Err(EncodeProblem::Type("a quantity")),
    }
}

fn int_or_string(writer: &mut Writer, kind: u64, int: i32, string: &str) {
    writer.bytes_field(3, string.as_bytes());
    writer.varint_field(2, i64::from(int).cast_unsigned());
    writer.varint_field(1, kind);
}

fn timestamp(writer: &mut Writer, kind: Type, found: &Value) -> Result<(), EncodeProblem> {
    let text = match found {
        Value::Null => return Ok(()),
        found => found.as_str().and_then(time::parse),
    };
    let (seconds, micros) = text.ok_or(EncodeProblem::Type("a time in RFC 3339"))?;
    // A `Time` has whole seconds.
    let nanos = match kind {
        Type::MicroTime => micros.saturating_mul(1000),
        _ => 0,
    };
    if time::is_zero(seconds, nanos) {
        return Ok(());
    }
    writer.varint_field(2, i64::from(nanos).cast_unsigned());
    writer.varint_field(1, seconds.cast_unsigned());
    Ok(())
}
