//! Objects. *(pure)*

use std::collections::BTreeMap;

use serde::de::{DeserializeSeed, MapAccess};

use super::{JsonError, Key, Reader, text::Text};
use crate::decode::trim::Node;

/// The fields of an object, in order, without the trimmed ones.
pub(in crate::decode) struct Map<'r, 'de> {
    reader: &'r mut Reader<'de>,
    is_first: bool,

    /// The trimmed fields of the object and of its fields.
    trim: Option<&'de BTreeMap<String, Node>>,
}

// === impl Map ===

impl<'r, 'de> Map<'r, 'de> {
    /// Begins after the opening bracket.
    #[inline]
    pub(super) fn new(reader: &'r mut Reader<'de>) -> Self {
        let trim = reader.trim.take();
        Self {
            reader,
            is_first: true,
            trim,
        }
    }

    /// Reads the name of the next field that is not trimmed.
    #[inline]
    pub(in crate::decode) fn next_name(&mut self) -> Result<Option<Text<'de>>, JsonError> {
        if self.trim.is_some() {
            return self.next_undropped();
        }
        self.reader.next_name(std::mem::take(&mut self.is_first))
    }

    /// The text of a name.
    #[inline]
    pub(in crate::decode) fn text(&self, name: Text<'de>) -> &str {
        self.reader.text_of(name)
    }

    /// Reads the value of the field, which must be a string.
    pub(in crate::decode) fn next_text(&mut self) -> Result<&str, JsonError> {
        if self.reader.peek() != b'"' {
            return Err(self.reader.unexpected(&"a string"));
        }
        let text = self.reader.string()?;
        Ok(self.reader.text_of(text))
    }

    #[inline]
    pub(in crate::decode) fn key(&mut self, name: Text<'de>) -> Key<'_, 'de> {
        self.reader.key(name)
    }

    /// The reader at the current position.
    pub(super) const fn into_reader(self) -> &'r mut Reader<'de> {
        self.reader
    }

    #[inline(never)]
    fn next_undropped(&mut self) -> Result<Option<Text<'de>>, JsonError> {
        loop {
            let is_first = std::mem::take(&mut self.is_first);
            let Some(name) = self.reader.next_name(is_first)? else {
                return Ok(None);
            };
            let node = self.trim.and_then(|trim| trim.get(self.text(name)));
            if !matches!(node, Some(Node::Dropped)) {
                // Set for each field, even if the previous one was no object.
                self.reader.trim = node.and_then(Node::fields);
                return Ok(Some(name));
            }
            self.reader.drop_value()?;
        }
    }
}

impl<'de> MapAccess<'de> for Map<'_, 'de> {
    type Error = JsonError;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, JsonError> {
        match self.next_name()? {
            Some(name) => seed.deserialize(self.key(name)).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, JsonError> {
        seed.deserialize(&mut *self.reader)
    }
}

// === impl Reader ===

impl<'de> Reader<'de> {
    /// Reads the next name of the current object, and the colon after it.
    #[inline(never)]
    fn next_name(&mut self, is_first: bool) -> Result<Option<Text<'de>>, JsonError> {
        match self.peek() {
            b'}' => return Ok(None),
            b',' if !is_first => {
                self.at += 1;
                if self.peek() != b'"' {
                    return Err(self.misplaced());
                }
            }
            b'"' if is_first => {}
            _ => return Err(self.misplaced()),
        }
        let name = self.text()?;
        if self.peek() != b':' {
            return Err(self.misplaced());
        }
        self.at += 1;
        Ok(Some(name))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_json::{Value, json};

    use crate::Trim;

    #[test]
    fn a_field_that_is_dropped_is_stepped_over_wherever_it_stands() {
        check(r#"{"x":1,"a":2}"#, &json!({"a": 2}));
        check(r#"{"a":2,"x":{"x":[{}]}}"#, &json!({"a": 2}));
        check(r#"{"x":"\"}", "\u0078":null,"x":1.5}"#, &json!({}));
        check(
            r#"{"m":{"y":[1],"b":2},"y":3}"#,
            &json!({"m": {"b": 2}, "y": 3}),
        );
    }

    #[test]
    fn only_the_object_that_is_named_loses_a_field() {
        check(
            r#"{"m":[{"y":1}],"l":{"x":1,"y":2}}"#,
            &json!({"m": [{"y": 1}], "l": {"x": 1, "y": 2}}),
        );
        check(
            r#"{"m":"y","l":{"y":1}}"#,
            &json!({"m": "y", "l": {"y": 1}}),
        );
        check(r#"{"m":{"m":{"y":1}}}"#, &json!({"m": {"m": {"y": 1}}}));
    }

    #[track_caller]
    fn check(text: &str, expected: &Value) {
        let trim = Trim::nothing().field(["x"]).field(["m", "y"]);
        let mut reader = trim.reader(text);
        let value = Value::deserialize(&mut reader).expect(text);
        assert_eq!(&value, expected, "{text}");
        reader.end().expect(text);
    }
}
