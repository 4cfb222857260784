//! Skips values that the type does not declare. *(pure)*
//!
//! For a type that declares few fields, most of the decoding time is spent here.

use super::{JsonError, Reader, text::plain};

// === impl Reader ===

impl Reader<'_> {
    /// Skips the next value, which must be valid.
    pub(super) fn ignore(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            b'"' => self.ignore_text(),
            // `serde_json` skips values of any depth.
            b'{' | b'[' if self.depth == 0 => self.raw().map(drop),
            b'{' => self.nested(b'}', |reader| {
                let mut is_first = true;
                while reader.has_element(b'}', is_first)? {
                    is_first = false;
                    if reader.peek() != b'"' {
                        return Err(reader.misplaced());
                    }
                    reader.ignore_text()?;
                    if reader.peek() != b':' {
                        return Err(reader.misplaced());
                    }
                    reader.at += 1;
                    reader.ignore()?;
                }
                Ok(())
            }),
            b'[' => self.nested(b']', |reader| {
                let mut is_first = true;
                while reader.has_element(b']', is_first)? {
                    is_first = false;
                    reader.ignore()?;
                }
                Ok(())
            }),
            b'-' | b'0'..=b'9' => self.ignore_number(),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => Err(self.misplaced()),
        }
    }

    /// Skips the next string.
    fn ignore_text(&mut self) -> Result<(), JsonError> {
        let end = plain(self.text.as_bytes(), self.at + 1);
        if self.text.as_bytes().get(end) != Some(&b'"') {
            // With escapes: `serde_json` checks skipped strings less strictly.
            return self.raw().map(drop);
        }
        self.at = end + 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use crate::decode::json::Reader;

    #[derive(Debug, PartialEq, Deserialize)]
    struct OnlyName {
        name: String,
    }

    #[test]
    fn what_a_type_does_not_declare_is_passed_over() {
        for value in [
            "null",
            "true",
            "-7",
            "1.5e3",
            r#""}\"""#,
            "[]",
            r#"[1, {"name": "b"}, [[]]]"#,
            r#"{"name":"b","c":{"name":[{}]}}"#,
        ] {
            let json = format!(r#"{{"before":{value},"name":"a","behind": {value} }}"#);
            let read: OnlyName = Reader::read(&json).expect("an object");
            assert_eq!(read.name, "a", "{value}");
        }
    }

    /// As `serde_json` does, which limits the depth of what it decodes only.
    #[test]
    fn what_is_passed_over_can_have_any_depth() {
        let deep = format!("{}7{}", "[".repeat(500), "]".repeat(500));
        let json = format!(r#"{{"before":{deep},"name":"a"}}"#);
        assert_eq!(
            Reader::read::<OnlyName>(&json).expect("an object").name,
            "a"
        );
    }

    #[test]
    fn what_is_passed_over_is_valid() {
        for value in ["nul", "01", "[1,]", r#"{"a"}"#, r#""\x""#, "[}", "{]", ""] {
            let json = format!(r#"{{"name":"a","behind":{value}}}"#);
            assert!(Reader::read::<OnlyName>(&json).is_err(), "{value}");
        }
    }
}
