//! A cursor over the fields of JSON objects, with their raw values. *(pure)*
//!
//! It skips values by their brackets ([`nesting`](super::nesting)), which takes a tenth of the
//! instructions of a parser, and allocates nothing.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memrchr};

use super::{
    DecodeError,
    block::{BLOCK, Quotes},
    nesting::Nesting,
};

/// Moves through JSON from field to field, and enters an object only on request.
///
/// Only reads what is necessary to find the end of each value, so skipped values may be invalid.
/// Decoding them detects that.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    json: &'a [u8],
    at: usize,

    /// The quotes of the last block that was read: most blocks have several.
    quotes: Quotes,
    /// The position of that block.
    looked: usize,
}

// === impl Fields ===

impl<'a> Fields<'a> {
    pub(super) const fn of(json: &'a [u8]) -> Self {
        Self {
            json,
            at: 0,
            // Empty, so that the next search reads a block.
            quotes: Quotes {
                ends: 0,
                backslashes: 0,
                carried: 0,
            },
            looked: 0,
        }
    }

    /// The current position.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Enters the next value if it is an object. Otherwise returns false and stays before it.
    pub(super) fn enter(&mut self) -> bool {
        let object = self.peek() == Some(b'{');
        self.at += usize::from(object);
        object
    }

    /// Returns the name of the next field of the current object, or `None` after the last one; then
    /// the position is after the object.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Syntax`] if neither a name nor the end follows.
    pub(super) fn next(&mut self) -> Result<Option<Cow<'a, [u8]>>, DecodeError> {
        let first = match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.peek()
            }
            first => first,
        };
        match first {
            Some(b'"') => {
                let (name, escapes) = self.string().ok_or_else(|| self.malformed())?;
                if self.peek() != Some(b':') {
                    return Err(self.malformed());
                }
                self.at += 1;
                if escapes {
                    return self.unescaped(name).map(Some);
                }
                Ok(Some(Cow::Borrowed(&name[1..name.len() - 1])))
            }
            Some(b'}') => {
                self.at += 1;
                Ok(None)
            }
            _ => Err(self.malformed()),
        }
    }

    /// Returns the next value as raw JSON.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Syntax`] if it has no end.
    pub(super) fn value(&mut self) -> Result<&'a [u8], DecodeError> {
        let first = self.peek();
        let rest = &self.json[self.at..];
        let length = match first {
            Some(b'"') => {
                let string = self.string();
                return string
                    .map(|(string, _)| string)
                    .ok_or_else(|| self.malformed());
            }
            Some(b'{' | b'[') => Nesting::inside().end(&rest[1..]).map(|end| end + 1),
            _ => rest
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r'))
                .filter(|length| *length > 0),
        };
        let length = length.ok_or_else(|| self.malformed())?;
        Ok(self.take(length))
    }

    /// Moves to the end of the current object.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Syntax`] if it has no end.
    pub(super) fn leave(&mut self) -> Result<(), DecodeError> {
        let end = Nesting::inside().end(&self.json[self.at..]);
        self.at += end.ok_or_else(|| self.malformed())?;
        Ok(())
    }

    /// Skips the next comma, if there is one.
    pub(super) fn comma(&mut self) {
        if self.peek() == Some(b',') {
            self.at += 1;
        }
    }

    /// Whether only white space follows.
    pub(super) fn is_over(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Moves to the end of the JSON, for the position of an error.
    pub(super) const fn skip_to_end(&mut self) {
        self.at = self.json.len();
    }

    #[cold]
    pub(super) fn malformed(&self) -> DecodeError {
        let before = &self.json[..self.at];
        let newline = memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        DecodeError::Syntax {
            line: memchr_iter(b'\n', before).count() + 1,
            column: before.len() - newline + 1,
        }
    }

    /// The next byte that is not white space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        match self.json.get(self.at) {
            // Usually no white space.
            Some(byte) if *byte > b' ' => Some(*byte),
            _ => self.peek_further(),
        }
    }

    #[cold]
    fn peek_further(&mut self) -> Option<u8> {
        let rest = &self.json[self.at..];
        let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest
            .iter()
            .position(|byte| !space(byte))
            .unwrap_or(rest.len());
        self.json.get(self.at).copied()
    }

    /// The next string with its quotes, and whether it has an escape. `None` if it has no end.
    #[inline]
    fn string(&mut self) -> Option<(&'a [u8], bool)> {
        let inner = self.at + 1;
        let skipped = inner.wrapping_sub(self.looked);
        if skipped < BLOCK
            && let Some((length, escapes)) = self.quotes.end(skipped)
        {
            return Some((self.take(length + 2), escapes));
        }
        self.long_string(inner)
    }

    /// A string that does not end in the current block.
    #[inline(never)]
    fn long_string(&mut self, inner: usize) -> Option<(&'a [u8], bool)> {
        let (mut carried, mut escapes) = (0, false);
        self.looked = inner;
        while let Some(rest) = self.json.get(self.looked..).filter(|rest| !rest.is_empty()) {
            self.quotes = Quotes::first(rest, carried);
            if let Some((length, more)) = self.quotes.end(0) {
                let length = self.looked + length + 1 - self.at;
                return Some((self.take(length), escapes | more));
            }
            escapes |= self.quotes.backslashes != 0;
            carried = self.quotes.carried;
            self.looked += BLOCK;
        }
        None
    }

    #[cold]
    fn unescaped(&self, name: &[u8]) -> Result<Cow<'a, [u8]>, DecodeError> {
        let name: String = serde_json::from_slice(name).map_err(|_| self.malformed())?;
        Ok(Cow::Owned(name.into_bytes()))
    }

    #[inline]
    fn take(&mut self, length: usize) -> &'a [u8] {
        let value = &self.json[self.at..self.at + length];
        self.at += length;
        value
    }
}

/// Returns a value as text, borrowed if it has no escape. `None` for `null`.
///
/// # Errors
///
/// [`DecodeError`] if it is not a string. `path` is its path.
pub(super) fn text<'a>(value: &'a [u8], path: &str) -> Result<Option<Cow<'a, str>>, DecodeError> {
    let inner = match value {
        b"null" => return Ok(None),
        [b'"', inner @ .., b'"'] => inner,
        _ => return Err(shape(path, "invalid type, expected a string")),
    };
    let text = if memchr(b'\\', inner).is_none() {
        std::str::from_utf8(inner).ok().map(Cow::Borrowed)
    } else {
        serde_json::from_slice(value).ok().map(Cow::Owned)
    };
    let text = text.ok_or_else(|| shape(path, "not a valid string"))?;
    Ok(Some(text))
}

pub(super) fn shape(path: &str, expected: &str) -> DecodeError {
    DecodeError::Shape {
        path: path.to_owned(),
        expected: expected.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::{Fields, text};

    #[test]
    fn fields_are_returned_in_order_with_unchanged_values() {
        check(
            r#"{"a":1,"b":"x","c":{"d":[{}]},"e":null}"#,
            "a=1 b=\"x\" c={\"d\":[{}]} e=null",
        );
        check("{ \"a\" : 1 ,\n\t\"b\":\r[ ] }", "a=1 b=[ ]");
        check(r#"{"\u0061":"\"}","b":-1.5e3}"#, r#"a="\"}" b=-1.5e3"#);
        check("{}", "");
        // Escapes in the first and in the last of several blocks, or only in one of them.
        let long = "x".repeat(200);
        for (start, end) in [("\\n", "\\n"), ("\\n", ""), ("", "\\n"), ("", "")] {
            let name = format!("{start}{long}{end}");
            let expected = format!("{}=1", name.replace("\\n", "\n"));
            check(&format!(r#"{{"{name}":1}}"#), &expected);
        }
    }

    #[test]
    fn an_error_about_invalid_json_has_its_position() {
        check(r#"{"a":1"#, "not valid JSON at line 1, column 6");
        check(r#"{"a":"x"#, "not valid JSON at line 1, column 6");
        check("{\n\"a\" 1}", "not valid JSON at line 2, column 5");
        check("{,}", "");
        check(r#"{"a":}"#, "not valid JSON at line 1, column 6");
        check(r#"{"a":"x\"#, "not valid JSON at line 1, column 6");
    }

    #[test]
    fn a_text_is_a_string_or_null() {
        let mut fields = Fields::of(br#"{"a":"x\ny","b":null,"c":7}"#);
        assert!(fields.enter());
        let mut texts = Vec::new();
        while let Ok(Some(name)) = fields.next() {
            let value = fields.value().expect("a value");
            let path = String::from_utf8_lossy(&name);
            texts.push(text(value, &path).map_err(|error| error.to_string()));
        }
        assert_eq!(texts[0], Ok(Some("x\ny".into())));
        assert_eq!(texts[1], Ok(None));
        assert_eq!(
            texts[2],
            Err("c: invalid type, expected a string".to_owned())
        );
    }

    #[test]
    fn leaving_an_object_skips_to_its_end() {
        let mut fields = Fields::of(br#"{"a":{"b":[1,{"}":2}],"c":"}"},"d":3}"#);
        assert!(fields.enter());
        assert_eq!(fields.next().expect("a name").as_deref(), Some(&b"a"[..]));
        assert!(fields.enter());
        fields.leave().expect("an end");
        assert_eq!(fields.next().expect("a name").as_deref(), Some(&b"d"[..]));
        fields.leave().expect("an end");
        assert!(fields.is_over());
        assert!(fields.leave().is_err());
    }

    proptest! {
        /// Names and strings are longer than a block, and shorter, and full of what ends them.
        #[test]
        fn random_fields_equal_those_of_serde_json(
            named in prop::collection::vec((r#"[\\"{}a\[\]é]{0,70}"#, value(), "[ \n]{0,2}"), 0..8),
        ) {
            let fields: Vec<String> = named
                .iter()
                .map(|(name, value, space)| format!("{}{space}:{space}{value}", Value::from(&**name)))
                .collect();
            let json = format!("{{{}}}", fields.join(","));
            let mut fields = Fields::of(json.as_bytes());
            prop_assert!(fields.enter());
            for (name, value, _) in &named {
                let found = fields.next().expect("a name");
                prop_assert_eq!(found.as_deref(), Some(name.as_bytes()));
                let text = value.to_string();
                prop_assert_eq!(fields.value().expect("a value"), text.as_bytes());
            }
            prop_assert_eq!(fields.next().expect("the end"), None);
            prop_assert!(fields.is_over());
        }

        #[test]
        fn truncated_json_is_incomplete(text in r#"[\\"{}a\[\]]{0,90}"#, cut in 0usize..100) {
            let json = serde_json::json!({ "a": text, "b": [text] }).to_string();
            let cut = cut % json.len();
            let mut fields = Fields::of(&json.as_bytes()[..cut]);
            let ended = fields.enter()
                && loop {
                    match fields.next() {
                        Ok(None) => break true,
                        Ok(Some(_)) if fields.value().is_ok() => {}
                        _ => break false,
                    }
                };
            prop_assert!(!ended, "{}", &json[..cut]);
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            r#"[\\"{}a]{0,140}"#.prop_map(Value::from),
            prop::collection::vec(r#"[\\"{}a\[\]]{0,30}"#, 0..4).prop_map(Value::from),
        ]
    }

    #[track_caller]
    fn check(json: &str, expected: &str) {
        let mut fields = Fields::of(json.as_bytes());
        assert!(fields.enter(), "{json}");
        let mut found = Vec::new();
        let end = loop {
            match fields.next().and_then(|name| match name {
                None => Ok(None),
                Some(name) => {
                    let value = String::from_utf8_lossy(fields.value()?);
                    let name = String::from_utf8_lossy(&name);
                    Ok(Some(format!("{name}={value}")))
                }
            }) {
                Ok(None) => break found.join(" "),
                Ok(Some(field)) => found.push(field),
                Err(error) => break error.to_string(),
            }
        };
        assert_eq!(end, expected, "{json}");
    }
}
