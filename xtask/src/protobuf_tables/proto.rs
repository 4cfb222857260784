//! The messages of a `generated.proto` file. *(pure)*
//!
//! Reads the part of the protobuf language that go-to-protobuf writes: messages that are not
//! nested, with fields that have a label or are maps.

use crate::Result;

/// A message.
#[derive(Debug)]
pub(super) struct ProtoMessage {
    pub(super) name: String,
    pub(super) fields: Vec<ProtoField>,
}

/// A field of a message.
#[derive(Debug, PartialEq)]
pub(super) struct ProtoField {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) shape: ProtoShape,

    /// The type of the value, of one item or of one value of the map: a scalar such as
    /// `int32`, or a message by its full name.
    pub(super) value: String,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtoShape {
    One,
    Repeated,

    /// By strings.
    Map,
}

/// Reads a file: the name of its package, and its messages.
pub(super) fn parse(text: &str) -> Result<(String, Vec<ProtoMessage>)> {
    let mut package = String::new();
    let mut messages: Vec<ProtoMessage> = Vec::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix("package ") {
            name.trim_end_matches(';').clone_into(&mut package);
        } else if let Some(rest) = line.strip_prefix("message ") {
            messages.push(ProtoMessage {
                name: rest.trim_end_matches('{').trim().to_owned(),
                fields: Vec::new(),
            });
        } else if let Some(message) = messages.last_mut()
            && line.ends_with(';')
        {
            let field = field(line.trim_end_matches(';'), &package);
            let field = field.ok_or_else(|| format!("{package}.{}: {line}", message.name))?;
            message.fields.push(field);
        }
    }
    Ok((package, messages))
}

/// Reads `optional string name = 1` and the like.
fn field(text: &str, package: &str) -> Option<ProtoField> {
    let (declaration, number) = text.split_once('=')?;
    let declaration = declaration.trim();
    let (kind, name) = declaration.rsplit_once(' ')?;
    let (shape, value) = if let Some(types) = kind.strip_prefix("map<string,") {
        (ProtoShape::Map, types.strip_suffix('>')?)
    } else {
        match kind.split_once(' ')? {
            ("optional" | "required", value) => (ProtoShape::One, value),
            ("repeated", value) => (ProtoShape::Repeated, value),
            _ => return None,
        }
    };
    let value = value.trim();
    let value = match value.strip_prefix('.') {
        Some(full) => full.to_owned(),
        // Messages begin with a capital letter, scalars with a small one.
        None if value.starts_with(char::is_uppercase) => format!("{package}.{value}"),
        None => value.to_owned(),
    };
    Some(ProtoField {
        number: number.trim().parse().ok()?,
        name: name.to_owned(),
        shape,
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::{ProtoField, ProtoShape, field};

    #[test]
    fn fields_are_read_with_their_shape_and_full_type() {
        for (text, number, shape, value) in [
            ("optional string name = 1", 1, ProtoShape::One, "string"),
            (
                "repeated Container c = 2",
                2,
                ProtoShape::Repeated,
                "p.v1.Container",
            ),
            (
                "optional .k8s.io.x.Time t = 8",
                8,
                ProtoShape::One,
                "k8s.io.x.Time",
            ),
            ("map<string, bytes> data = 2", 2, ProtoShape::Map, "bytes"),
        ] {
            let name = text.rsplit(' ').nth(2).unwrap_or_default().to_owned();
            let expected = ProtoField {
                number,
                name,
                shape,
                value: value.to_owned(),
            };
            assert_eq!(field(text, "p.v1"), Some(expected), "{text}");
        }
        assert_eq!(field("oneof x = 1", "p"), None);
    }
}
