//! Errors of the JSON reader. They never quote the text. *(pure)*

use std::fmt::{self, Display};

use memchr::{memchr_iter, memrchr};
use serde::de::{Error, Expected, Unexpected};

use crate::{decode::DecodeError, watch::one_line};

/// Why a text does not decode. One word in size, because every reader function returns it.
#[derive(Debug)]
pub(in crate::decode) struct JsonError(Box<JsonErrorKind>);

#[derive(Debug)]
enum JsonErrorKind {
    /// The byte at this position is not allowed.
    Syntax(usize),
    /// The JSON does not have the shape of the type.
    Shape(String),
}

const FORM: &str = "does not match the type";

// === impl JsonError ===

impl JsonError {
    #[cold]
    pub(super) fn syntax(at: usize) -> Self {
        Self(Box::new(JsonErrorKind::Syntax(at)))
    }

    #[cold]
    fn shape(expected: String) -> Self {
        Self(Box::new(JsonErrorKind::Shape(expected)))
    }

    /// The error that a value of another type was `expected`.
    #[cold]
    pub(super) fn type_of(expected: &dyn Expected) -> Self {
        Self::shape(format!("invalid type, expected {expected}"))
    }

    /// Converts an error of `serde_json` about the part of `text` that begins at `start`.
    #[cold]
    pub(super) fn of(error: &serde_json::Error, text: &str, start: usize) -> Self {
        if error.is_data() {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            let class = message.split(": ").next().unwrap_or_default();
            return Self::shape(match message.rsplit_once(", expected ") {
                Some((_, expected)) => format!("{class}, expected {expected}"),
                None => FORM.to_owned(),
            });
        }
        let part = &text.as_bytes()[start..];
        let line = match error.line() {
            0 | 1 => 0,
            line => memchr_iter(b'\n', part)
                .nth(line - 2)
                .map_or(0, |at| at + 1),
        };
        Self::syntax(start + line + error.column().saturating_sub(1))
    }

    /// Adds the position in `text`, or `path` for an error of shape.
    pub(in crate::decode) fn at(self, text: &str, path: &str) -> DecodeError {
        match *self.0 {
            JsonErrorKind::Shape(expected) => DecodeError::Shape {
                // Keys of maps are text of the server.
                path: one_line(path).into_owned(),
                expected,
            },
            JsonErrorKind::Syntax(at) => {
                let before = &text.as_bytes()[..at.min(text.len())];
                let newline = memrchr(b'\n', before).map_or(0, |newline| newline + 1);
                DecodeError::Syntax {
                    line: memchr_iter(b'\n', before).count() + 1,
                    column: before.len() - newline + 1,
                }
            }
        }
    }
}

/// Keeps only what was expected: the rest of serde's messages may quote the object.
impl Error for JsonError {
    #[cold]
    fn custom<T: Display>(_: T) -> Self {
        Self::shape(FORM.to_owned())
    }

    #[cold]
    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::type_of(expected)
    }

    #[cold]
    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::shape(format!("invalid value, expected {expected}"))
    }

    #[cold]
    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::shape(format!("expected {expected}"))
    }

    #[cold]
    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::shape(one_of(expected))
    }

    #[cold]
    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        Self::shape(one_of(expected))
    }

    #[cold]
    fn missing_field(field: &'static str) -> Self {
        Self::shape(format!("missing field `{field}`"))
    }
}

impl std::error::Error for JsonError {}

impl Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            JsonErrorKind::Syntax(at) => write!(f, "not valid JSON at byte {at}"),
            JsonErrorKind::Shape(expected) => f.write_str(expected),
        }
    }
}

fn one_of(expected: &[&str]) -> String {
    format!("expected one of `{}`", expected.join("`, `"))
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, de::DeserializeOwned};
    use serde_json::value::RawValue;

    use crate::decode::json::Reader;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "it is only read")]
    struct Pet {
        name: String,
        legs: u8,
        weight: Option<f32>,
        kind: Option<JsonErrorKind>,
        born: Option<(u16, u16)>,
    }

    #[derive(Debug, Deserialize)]
    enum JsonErrorKind {
        Cat,
        Dog,
    }

    #[test]
    fn what_is_no_json_says_where() {
        check::<Pet>(r#"{"name":"a"#, "line 1, column 11");
        check::<Pet>("{\"name\":\"a\",\n \"legs\":}", "line 2, column 9");
        check::<Pet>(r#"{"name":"a" "legs":4}"#, "line 1, column 13");
        check::<Pet>(r#"{"name":"a","legs":4,}"#, "line 1, column 22");
        check::<Pet>(r#"{"name":"a","legs":4} x"#, "line 1, column 23");
        check::<Pet>(r#"{"name":"a\x","legs":4}"#, "line 1, column 12");
        check::<Pet>("{\"name\":\"a\u{1}\",\"legs\":4}", "line 1, column 11");
        check::<Pet>(r#"{"name":"a","legs":04}"#, "line 1, column 20");
        check::<Pet>(r#"{"weight":1.x}"#, "line 1, column 13");
        check::<serde::de::IgnoredAny>("[\n[],\n  [tru]]", "line 3, column 4");
        check::<Box<RawValue>>("[\n[],\n  [tru]]", "line 3, column 7");
        check::<Vec<u8>>("[1,]", "line 1, column 4");
        check::<Box<RawValue>>("[\n[tru]]", "line 2, column 5");
        check::<Pet>(r#"{"name":"a\u12g4","legs":4}"#, "line 1, column 13");
        check::<Vec<u8>>("", "line 1, column 1");
        check::<Vec<u8>>("[1]\0", "line 1, column 4");
    }

    #[test]
    fn what_is_of_the_wrong_form_says_what_was_expected_and_not_what_it_is() {
        check::<Pet>(
            r#"{"name":["hunter2"]}"#,
            "pet: invalid type, expected a string",
        );
        check::<Pet>(
            r#"{"name":"x","legs":"x, expected y"}"#,
            "pet: invalid type, expected u8",
        );
        check::<Pet>(
            r#"{"name":"x","legs":300}"#,
            "pet: invalid value, expected u8",
        );
        check::<Pet>(
            r#"{"name":"x","legs":-1}"#,
            "pet: invalid value, expected u8",
        );
        check::<Pet>(
            r#"{"name":"x","legs":1.5}"#,
            "pet: invalid type, expected u8",
        );
        check::<Pet>(r#"{"name":"x"}"#, "pet: missing field `legs`");
        check::<Pet>(r#"{"kind":"Cow"}"#, "pet: expected one of `Cat`, `Dog`");
        check::<Pet>(r#"{"born":[1]}"#, "pet: expected a tuple of size 2");
        check::<Pet>(r#"{"name":"x","name":"y"}"#, "pet: does not match the type");
        check::<Pet>(
            r#"{"hunter2":1}"#,
            "pet: expected one of `name`, `legs`, `weight`, `kind`, `born`",
        );
    }

    #[track_caller]
    fn check<T: DeserializeOwned + std::fmt::Debug>(json: &str, expected: &str) {
        let problem = Reader::read::<T>(json).expect_err(json);
        let error = problem.at(json, "pet").to_string();
        let error = error.strip_prefix("not valid JSON at ").unwrap_or(&error);
        assert_eq!(error, expected, "{json}");
    }
}
