//! Writes JSON in parts, for objects of which some parts are text already. *(pure)*

use std::io;

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// Writes floats as Go's `encoding/json` does.
struct GoFormatter;

// === impl GoFormatter ===

impl Formatter for GoFormatter {
    /// Writes a float without an exponent from `1e-6` up to `1e21`.
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let size = value.abs();
        if size == 0.0 || (1e-6..1e21).contains(&size) {
            return write!(writer, "{value}");
        }
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, power)) if size > 1.0 => write!(writer, "{digits}e+{power}"),
            _ => writer.write_all(text.as_bytes()),
        }
    }
}

/// Returns the name of the type of a value in the messages of Go's decoder.
pub(crate) const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Writes a value.
pub(crate) fn write(out: &mut Vec<u8>, value: &Value) {
    // A `Value` has only string keys and finite numbers, so its serialization cannot fail.
    _ = value.serialize(&mut Serializer::with_formatter(out, GoFormatter));
}

/// Writes the members of an object, without the braces. `write_member` writes the value of each
/// member.
pub(crate) fn write_members<'a>(
    out: &mut Vec<u8>,
    members: impl IntoIterator<Item = (&'a String, &'a Value)>,
    write_member: impl Fn(&mut Vec<u8>, &str, &Value),
) {
    for (at, (name, value)) in members.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        _ = serde_json::to_writer(&mut *out, name);
        out.push(b':');
        write_member(out, name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_like_go_writes_them() {
        for (float, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (0.000_001, "0.000001"),
            (1.5e-7, "1.5e-7"),
            (1e-10, "1e-10"),
            (1e20, "100000000000000000000"),
            (-1e21, "-1e+21"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            let mut out = Vec::new();
            write(&mut out, &float.into());
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }
}
