//! Writes JSON piece by piece, for objects of which a part is text already. *(pure)*

use serde_json::{Map, Value};

/// Writes a value.
pub(crate) fn write(out: &mut Vec<u8>, value: &Value) {
    // A `Value` has string keys and finite numbers only, so it always serializes.
    _ = serde_json::to_writer(out, value);
}

/// Writes the members of an object, without the braces around them. `write_member` writes the
/// value of each.
pub(crate) fn write_members(
    out: &mut Vec<u8>,
    members: &Map<String, Value>,
    write_member: impl Fn(&mut Vec<u8>, &str, &Value),
) {
    for (at, (name, value)) in members.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        _ = serde_json::to_writer(&mut *out, name);
        out.push(b':');
        write_member(out, name, value);
    }
}
