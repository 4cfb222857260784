//! One line of a watch, with its object not decoded. *(pure)*

use std::borrow::Cow;

use super::{
    DecodeError,
    fields::{Fields, shape, text},
};

/// The type and the object of a line.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub(crate) event_type: Cow<'a, str>,

    /// The object as raw JSON.
    pub(crate) object: &'a [u8],
}

// === impl Line ===

impl<'a> Line<'a> {
    /// The text before the object in an `ADDED` or `MODIFIED` line, as API servers write it.
    const PREFIXES: [&'static [u8]; 2] = [
        br#"{"type":"ADDED","object":"#,
        br#"{"type":"MODIFIED","object":"#,
    ];

    /// Returns the object of an `ADDED` or `MODIFIED` line, without searching for the end of the
    /// object: the object is the rest of the line, which the decoder verifies. `None` for other
    /// lines, and for lines in another format.
    pub(crate) fn added_or_modified(line: &'a [u8]) -> Option<&'a [u8]> {
        let object = Self::PREFIXES
            .iter()
            .find_map(|before| line.strip_prefix(*before))?;
        object.strip_suffix(b"}")
    }

    /// Whether `line` is an `ADDED` line, as API servers write it.
    pub(crate) fn is_added(line: &[u8]) -> bool {
        line.starts_with(Self::PREFIXES[0])
    }

    /// Reads one line.
    pub(crate) fn read(line: &'a [u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields::of(line);
        if !fields.enter() {
            return Err(fields.malformed());
        }
        let (mut event_type, mut object) = (None, None);
        while let Some(name) = fields.next()? {
            match &*name {
                b"type" => event_type = text(fields.value()?, "type")?,
                b"object" => object = Some(fields.value()?),
                _ => _ = fields.value()?,
            }
        }
        if !fields.is_over() {
            return Err(fields.malformed());
        }
        let missing = |field: &str| shape("event", &format!("missing field `{field}`"));
        Ok(Self {
            event_type: event_type.ok_or_else(|| missing("type"))?,
            object: object.ok_or_else(|| missing("object"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn a_line_has_a_type_and_an_object() {
        check(r#"{"type":"ADDED","object":{"a":1}}"#, r#"ADDED {"a":1}"#);
        check(
            r#"{"object":{"a":{}},"type":"BOOKMARK","more":[]}"#,
            r#"BOOKMARK {"a":{}}"#,
        );
        check(r#"{ "type" : "ERROR" , "object" : { } } "#, "ERROR { }");
    }

    #[test]
    fn an_invalid_line_is_an_error_with_the_reason() {
        check("<html>", "not valid JSON at line 1, column 1");
        check(r#"{"type":"ADDED"}"#, "event: missing field `object`");
        check(r#"{"object":{}}"#, "event: missing field `type`");
        check(
            r#"{"type":7,"object":{}}"#,
            "type: invalid type, expected a string",
        );
        check(
            r#"{"type":"ADDED","object":{}}}"#,
            "not valid JSON at line 1, column 29",
        );
        check(
            r#"{"type":"ADDED","object":{"a":1}"#,
            "not valid JSON at line 1, column 33",
        );
    }

    #[test]
    fn type_and_object_are_found_in_the_format_of_api_servers() {
        let object = |line: &'static str| Line::added_or_modified(line.as_bytes());
        assert_eq!(
            object(r#"{"type":"ADDED","object":{"a":1}}"#),
            Some(&br#"{"a":1}"#[..])
        );
        assert_eq!(
            object(r#"{"type":"MODIFIED","object":{}}"#),
            Some(&b"{}"[..])
        );
        assert_eq!(object(r#"{"type":"DELETED","object":{}}"#), None);
        assert_eq!(object(r#"{"object":{},"type":"ADDED"}"#), None);
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let result = match Line::read(line.as_bytes()) {
            Ok(line) => format!(
                "{} {}",
                line.event_type,
                String::from_utf8_lossy(line.object)
            ),
            Err(error) => error.to_string(),
        };
        assert_eq!(result, expected, "{line}");
    }
}
