//! Types of YAML scalars, by the rules of the real server. *(pure)*
//!
//! The real server reads YAML 1.1 with the exceptions of its parser: `yes` and `on` are booleans,
//! `014` is an octal integer, `1_000` has separators, and `1:30` is text.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Number, Value};

/// The prefix of the tags that are written as `!!`.
const TAG_PREFIX: &str = "tag:yaml.org,2002:";

/// The standard alphabet with padding; the last bits of the last character are ignored, as in Go.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// A scalar with its type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    /// An integer above `i64::MAX`.
    Unsigned(u64),
    Float(f64),
    Text(Cow<'a, str>),
}

/// The reason why a scalar has no value.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum ScalarError {
    #[error("yaml: cannot decode {actual} `{text}` as a {wanted}")]
    Tag {
        actual: &'static str,
        wanted: String,
        text: String,
    },
    #[error("yaml: !!binary value contains invalid base64 data")]
    Binary,
    #[error("json: unsupported value: {0}")]
    NotFinite(&'static str),
    #[error("unsupported map key of type: {0}")]
    Key(&'static str),
}

/// Returns the type and value of the scalar `text`, which is plain or has a tag. `tag` is its full
/// name, such as `tag:yaml.org,2002:int`; empty without a tag.
///
/// # Errors
///
/// The text is not of the type that the tag names.
pub(super) fn resolve<'a>(text: Cow<'a, str>, tag: &str) -> Result<Scalar<'a>, ScalarError> {
    let name = match tag.strip_prefix(TAG_PREFIX) {
        Some(name) => name,
        None if tag.is_empty() => "",
        // The parser ignores unknown tags.
        None => return Ok(Scalar::Text(text)),
    };
    match name {
        "" => Ok(typed(&text).unwrap_or(Scalar::Text(text))),
        "binary" => decode_binary(&text).map(|text| Scalar::Text(text.into())),
        "bool" | "int" | "float" | "null" | "timestamp" => {
            let scalar = typed(&text);
            match (name, scalar) {
                ("bool", Some(scalar @ Scalar::Bool(_)))
                | ("int", Some(scalar @ (Scalar::Integer(_) | Scalar::Unsigned(_))))
                | ("float", Some(scalar @ Scalar::Float(_)))
                | ("null", Some(scalar @ Scalar::Null)) => Ok(scalar),
                #[expect(clippy::cast_precision_loss, reason = "Go converts it so")]
                ("float", Some(Scalar::Integer(integer))) => Ok(Scalar::Float(integer as f64)),
                ("timestamp", None) if is_timestamp(&text) => Ok(Scalar::Text(text)),
                (_, scalar) => Err(ScalarError::Tag {
                    actual: scalar.as_ref().map_or(Scalar::TEXT_TAG, Scalar::tag),
                    wanted: format!("!!{name}"),
                    text: text.into_owned(),
                }),
            }
        }
        _ => Ok(Scalar::Text(text)),
    }
}

/// Returns the value of a text that is not a string.
fn typed(text: &str) -> Option<Scalar<'static>> {
    let Some(first) = text.bytes().next() else {
        return Some(Scalar::Null);
    };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => word(text),
        b'.' => special_float(text).or_else(|| fraction(text)),
        b'0'..=b'9' | b'+' | b'-' => special_float(text).or_else(|| number(text)),
        _ => None,
    }
}

/// Returns the value of a word for a boolean or nothing.
fn word(text: &str) -> Option<Scalar<'static>> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Some(Scalar::Bool(true))
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Some(Scalar::Bool(false))
        }
        "~" | "null" | "Null" | "NULL" => Some(Scalar::Null),
        _ => None,
    }
}

/// Returns the value of a word for a float that is not a number.
fn special_float(text: &str) -> Option<Scalar<'static>> {
    let value = match text {
        ".nan" | ".NaN" | ".NAN" => f64::NAN,
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => f64::INFINITY,
        "-.inf" | "-.Inf" | "-.INF" => f64::NEG_INFINITY,
        _ => return None,
    };
    Some(Scalar::Float(value))
}

/// Returns the value of an integer or a float. Underscores have no meaning.
fn number(text: &str) -> Option<Scalar<'static>> {
    let plain: Cow<'_, str> = if text.contains('_') {
        text.replace('_', "").into()
    } else {
        text.into()
    };
    integer(&plain).or_else(|| float(&plain))
}

/// Returns the value of a float without digits before the point. Underscores are between digits.
fn fraction(text: &str) -> Option<Scalar<'static>> {
    if !text.contains('_') {
        return float(text);
    }
    let mut groups = text.split('_').map(str::as_bytes);
    let (first, last) = (groups.next()?, groups.next_back()?);
    let inner_digits = groups.all(|it| {
        it.first().is_some_and(u8::is_ascii_digit) && it.last().is_some_and(u8::is_ascii_digit)
    });
    let separates = first.last().is_some_and(u8::is_ascii_digit)
        && last.first().is_some_and(u8::is_ascii_digit);
    let is_valid = inner_digits && separates;
    is_valid.then(|| float(&text.replace('_', ""))).flatten()
}

/// Returns the value of an integer with an optional sign and base, as in Go.
fn integer(text: &str) -> Option<Scalar<'static>> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        sign @ (b'+' | b'-') => (Some(*sign), text.get(1..)?),
        _ => (None, text),
    };
    let (base, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, unsigned.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, unsigned.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, unsigned.get(2..)?),
        [b'0', _, ..] => (8, unsigned.get(1..)?),
        _ => (10, unsigned),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let size = u64::from_str_radix(digits, base).ok()?;
    match sign {
        Some(b'-') => 0_i64.checked_sub_unsigned(size).map(Scalar::Integer),
        _ => match i64::try_from(size) {
            Ok(integer) => Some(Scalar::Integer(integer)),
            Err(_) => sign.is_none().then_some(Scalar::Unsigned(size)),
        },
    }
}

/// Returns the value of a decimal float. One that is too large is text.
fn float(text: &str) -> Option<Scalar<'static>> {
    // Rust reads these forms, and words such as `infinity`, which have other characters.
    let decimal = |byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    if !text.bytes().all(decimal) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Scalar::Float(value))
}

/// Returns the text in base64, in which line breaks have no meaning. Each byte that is not UTF-8 is
/// replaced.
fn decode_binary(text: &str) -> Result<String, ScalarError> {
    let text = text.replace(['\n', '\r'], "");
    let bytes = BASE64.decode(text).map_err(|_| ScalarError::Binary)?;
    let mut decoded = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        decoded.push_str(chunk.valid());
        decoded.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(decoded)
}

/// Returns whether a text is a date, or a date and a time.
fn is_timestamp(text: &str) -> bool {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some((text.as_bytes()[at], &text[at + 1..]))),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let mut number = |digits: std::ops::RangeInclusive<usize>| {
        let part = parts.next()?;
        let is_number = digits.contains(&part.len()) && part.bytes().all(|it| it.is_ascii_digit());
        is_number.then(|| part.parse::<i16>().ok()).flatten()
    };
    let date = (|| {
        let (year, month, day) = (number(4..=4)?, number(1..=2)?, number(1..=2)?);
        jiff::civil::Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
    })();
    date.is_some() && parts.next().is_none() && time.is_none_or(|(by, time)| is_time(by, time))
}

/// Returns whether a text is a time of day: after a `T` with a zone, after a space without one.
fn is_time(separator: u8, text: &str) -> bool {
    let clock = if separator == b' ' {
        text
    } else if let Some(clock) = text.strip_suffix('Z') {
        clock
    } else {
        let Some((clock, zone)) = text.rfind(['+', '-']).map(|at| text.split_at(at)) else {
            return false;
        };
        let zone = zone.as_bytes();
        let has_digits = [1, 2, 4, 5]
            .iter()
            .all(|at| zone.get(*at).is_some_and(u8::is_ascii_digit));
        if zone.len() != 6 || zone[3] != b':' || !has_digits {
            return false;
        }
        clock
    };
    let (clock, fraction) = match clock.find(['.', ',']) {
        Some(at) => (&clock[..at], Some(&clock[at + 1..])),
        None => (clock, None),
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let parts: Vec<_> = clock.split(':').collect();
    let limits = [24_u8, 60, 60];
    parts.len() == limits.len()
        && parts.iter().zip(limits).all(|(part, limit)| {
            part.len() <= 2 && is_number(part) && part.parse::<u8>().is_ok_and(|it| it < limit)
        })
        && fraction.is_none_or(is_number)
}

// === impl Scalar ===

impl Scalar<'_> {
    /// Returns the tag of a string.
    pub(super) const TEXT_TAG: &'static str = "!!str";

    /// Returns the tag of the type.
    pub(super) fn tag(&self) -> &'static str {
        match self {
            Self::Null => "!!null",
            Self::Bool(_) => "!!bool",
            Self::Integer(_) | Self::Unsigned(_) => "!!int",
            Self::Float(_) => "!!float",
            Self::Text(_) => Self::TEXT_TAG,
        }
    }

    /// Returns the value that the JSON of the real server has. A float without a fraction is an
    /// integer.
    ///
    /// # Errors
    ///
    /// The scalar is a float that JSON does not have.
    pub(super) fn into_value(self) -> Result<Value, ScalarError> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => value.into(),
            Self::Integer(integer) => integer.into(),
            #[expect(clippy::cast_precision_loss, reason = "the real server converts it so")]
            Self::Unsigned(integer) => (integer as f64).into(),
            Self::Float(float) => Value::Number(json_number(float)?),
            Self::Text(text) => Value::String(text.into_owned()),
        })
    }

    /// Returns the name of a member.
    ///
    /// # Errors
    ///
    /// The scalar is of a type that no member has.
    pub(super) fn into_name(self) -> Result<String, ScalarError> {
        match self {
            Self::Null => Err(ScalarError::Key("<nil>")),
            Self::Unsigned(_) => Err(ScalarError::Key("uint64")),
            Self::Bool(value) => Ok(value.to_string()),
            Self::Integer(integer) => Ok(integer.to_string()),
            Self::Float(float) => Ok(float_name(float)),
            Self::Text(text) => Ok(text.into_owned()),
        }
    }
}

/// Returns the number that is read from the JSON that Go writes for a float: without a fraction, an
/// integer if it has 64 bits.
fn json_number(float: f64) -> Result<Number, ScalarError> {
    if float.fract() == 0.0 {
        // The text is that of Go, with zeros in place of the digits that distinguish no floats.
        let integer = if float == 0.0 {
            Ok(0)
        } else {
            float.to_string().parse::<i64>()
        };
        if let Ok(integer) = integer {
            return Ok(integer.into());
        }
    }
    Number::from_f64(float).ok_or(ScalarError::NotFinite(if float.is_nan() {
        "NaN"
    } else if float > 0.0 {
        "+Inf"
    } else {
        "-Inf"
    }))
}

/// Writes a float as Go's `%g` does, with the digits that distinguish it from other floats of 32
/// bits.
#[expect(clippy::cast_possible_truncation, reason = "Go rounds to 32 bits")]
fn float_name(float: f64) -> String {
    let float = float as f32;
    if float.is_nan() {
        return ".nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{float:e}");
    let exponent = scientific.split_once('e').and_then(|(digits, exponent)| {
        let exponent: i32 = exponent.parse().ok()?;
        Some((digits, exponent))
    });
    match exponent {
        Some((digits, exponent)) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => float.to_string(),
    }
}
