//! Decodes messages whose JSON has another structure, such as quantities and times. *(pure)*

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

use super::value::{text, varint};
use crate::error::DecodeProblem;
use crate::wire::Reader;
use crate::{duration, time};

/// Below this number, every whole number has an exact `f64`.
const WHOLE: f64 = 9_007_199_254_740_992.0;

pub(super) fn base64(bytes: &[u8]) -> Value {
    STANDARD.encode(bytes).into()
}

/// Converts a double like Go: without a fraction if it is whole.
pub(super) fn number(double: f64) -> Value {
    if double.fract() == 0.0 && double.abs() < WHOLE {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is whole and small enough"
        )]
        let whole = double as i64;
        return whole.into();
    }
    // JSON cannot represent infinity and NaN.
    Number::from_f64(double).map_or(Value::Null, Value::Number)
}

pub(super) fn quantity(bytes: &[u8]) -> Result<Value, DecodeProblem> {
    let mut quantity = String::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        if number == 1 {
            quantity = text(payload)?;
        }
    }
    if quantity.is_empty() {
        "0".clone_into(&mut quantity);
    }
    Ok(quantity.into())
}

pub(super) fn int_or_string(bytes: &[u8]) -> Result<Value, DecodeProblem> {
    let (mut kind, mut int, mut string) = (0, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match number {
            1 => kind = varint(payload)?,
            #[expect(
                clippy::cast_possible_truncation,
                reason = "protobuf keeps the low 32 bits"
            )]
            2 => int = varint(payload)? as i32,
            3 => string = text(payload)?,
            _ => {}
        }
    }
    match kind {
        0 => Ok(int.into()),
        1 => Ok(string.into()),
        other => Err(DecodeProblem::IntOrString(other)),
    }
}

/// Decodes a `Time`, or a `MicroTime` if `micros`. An empty message becomes `null`.
pub(super) fn time(bytes: &[u8], micros: bool) -> Result<Value, DecodeProblem> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match number {
            1 => seconds = varint(payload)?.cast_signed(),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "protobuf keeps the low 32 bits"
            )]
            2 => nanos = varint(payload)? as i32,
            _ => {}
        }
    }
    let text = if micros {
        time::format_micros(seconds, nanos)
    } else {
        time::format(seconds)
    };
    match text {
        Some(text) => Ok(text.map_or(Value::Null, Value::String)),
        None => Err(DecodeProblem::Time),
    }
}

pub(super) fn duration(bytes: &[u8]) -> Result<Value, DecodeProblem> {
    let mut nanos = 0;
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        if number == 1 {
            nanos = varint(payload)?.cast_signed();
        }
    }
    Ok(duration::format(nanos).into())
}

/// The error for raw bytes that are not JSON, without quoting the bytes.
pub(super) fn not_json(error: &serde_json::Error) -> DecodeProblem {
    let what = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        _ => "a syntax error",
    };
    DecodeProblem::Json(format!("{what} at column {}", error.column()))
}
