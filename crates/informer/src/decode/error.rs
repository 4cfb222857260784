//! Errors of decoding, without values of the object. *(pure)*

use serde::de::IgnoredAny;

use crate::message::one_line;

/// Why an object does not decode.
///
/// The message has the position and what was expected there, and never the value, which may be
/// secret. Names in it are cut to one line of at most 300 characters.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The text is not valid JSON.
    #[error("not valid JSON at line {line}, column {column}")]
    Syntax {
        /// The line of the first invalid byte.
        line: usize,
        /// Its column.
        column: usize,
    },

    /// The JSON does not have the shape of the type.
    #[error("{path}: {expected}")]
    Shape {
        /// The path in the object.
        path: String,
        /// What the type expects there.
        expected: String,
    },

    /// The object has another kind.
    #[error("expected an object of kind {expected:?}, found {found:?}")]
    Kind {
        /// The expected kind.
        expected: String,
        /// The kind of the object.
        found: String,
    },

    /// The `Deserialize` of the type panicked.
    #[error("its `Deserialize` panicked: {message}; this is a defect of the type")]
    Panicked {
        /// The message of the panic, cut to 256 characters.
        message: String,
    },
}

/// What is stated of an error that has no known form: its message may quote the object.
const MISMATCH: &str = "does not match the type";

// === impl DecodeError ===

impl DecodeError {
    /// The error of `serde_json` for the value at `path`.
    #[cold]
    pub(crate) fn of(error: &serde_json::Error, path: &str) -> Self {
        // serde_json calls it a syntax error.
        let is_deep = error.is_syntax() && error.to_string().starts_with("recursion limit");
        if error.is_data() || is_deep {
            Self::Shape {
                // Keys of maps are text of the server.
                path: one_line(path).into_owned(),
                expected: if is_deep {
                    "has more than the 128 levels that are read".to_owned()
                } else {
                    expectation(&error.to_string())
                },
            }
        } else {
            Self::Syntax {
                line: error.line(),
                column: error.column(),
            }
        }
    }

    /// The same error about `received`, the JSON from which fields were trimmed before it was
    /// decoded: the position of a syntax error is that in `received`.
    #[cold]
    pub(crate) fn in_received(self, received: &[u8]) -> Self {
        match (&self, serde_json::from_slice::<IgnoredAny>(received)) {
            (Self::Syntax { .. }, Err(error)) => Self::of(&error, "object"),
            _ => self,
        }
    }
}

/// What the type expects, from a message of serde, without the value that it found.
///
/// serde's own messages have the forms below, and what they expect comes last. A value may contain
/// any text, also that of a message.
fn expectation(message: &str) -> String {
    let message = message.rsplit_once(" at line ").map_or(message, |it| it.0);
    let expected = message.rsplit_once(", expected ").map(|it| it.1);
    let class = ["invalid type", "invalid value"].into_iter().find(|class| {
        message
            .strip_prefix(class)
            .is_some_and(|it| it.starts_with(": "))
    });
    let is_choice = ["invalid length ", "unknown variant `", "unknown field `"]
        .iter()
        .any(|form| message.starts_with(form));
    match (class, expected) {
        (Some(class), Some(expected)) => format!("{class}, expected {expected}"),
        (None, Some(expected)) if is_choice => format!("expected {expected}"),
        // The name of a field is that of the type.
        _ if message.starts_with("missing field `") => message.to_owned(),
        _ => MISMATCH.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::{
        Deserialize,
        de::{DeserializeOwned, Error as _},
    };

    use super::DecodeError;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "it is only read")]
    struct Pet {
        name: String,
        legs: u8,
        weight: Option<f32>,
        kind: Option<PetKind>,
        born: Option<(u16, u16)>,
    }

    #[derive(Debug, Deserialize)]
    enum PetKind {
        Cat,
        Dog,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "it is only read")]
    enum Port {
        Number(u16),
        Named { name: String },
    }

    #[test]
    fn a_syntax_error_has_its_position() {
        check::<Pet>(r#"{"name":"a"#, "not valid JSON at line 1, column 10");
        check::<Pet>(
            "{\"name\":\"a\",\n \"legs\":}",
            "not valid JSON at line 2, column 9",
        );
        check::<Vec<u8>>("", "not valid JSON at line 1, column 0");
    }

    #[test]
    fn a_shape_error_says_what_was_expected_and_not_what_was_found() {
        check::<Pet>(
            r#"{"name":["hunter2"]}"#,
            "pet: invalid type, expected a string",
        );
        check::<Pet>(
            r#"{"name":"x","legs":"x, expected y"}"#,
            "pet: invalid type, expected u8",
        );
        check::<Pet>(
            r#"{"name":"x","legs":"a, expected hunter2 at line 3"}"#,
            "pet: invalid type, expected u8",
        );
        check::<Pet>(
            r#"{"name":"x","legs":300}"#,
            "pet: invalid value, expected u8",
        );
        check::<Pet>(
            r#"{"name":"x","legs":1.5}"#,
            "pet: invalid type, expected u8",
        );
        check::<Pet>(r#"{"name":"x"}"#, "pet: missing field `legs`");
        check::<Pet>(r#"{"kind":"hunter2"}"#, "pet: expected `Cat` or `Dog`");
        check::<Pet>(r#"{"born":[1]}"#, "pet: expected a tuple of size 2");
        check::<Pet>(r#"{"name":"x","name":"y"}"#, "pet: does not match the type");
        check::<Pet>(
            r#"{"hunter2":1}"#,
            "pet: expected one of `name`, `legs`, `weight`, `kind`, `born`",
        );
        check::<Port>(r#""hunter2""#, "pet: does not match the type");
    }

    #[test]
    fn a_message_of_the_type_itself_is_not_shown() {
        for message in ["hunter2", "not hunter2, expected ham", "unknown hunter2"] {
            let error = DecodeError::of(&serde_json::Error::custom(message), "pet");
            assert_eq!(error.to_string(), "pet: does not match the type");
        }
    }

    #[test]
    fn a_syntax_error_has_its_position_in_the_received_json() {
        let trimmed = serde_json::from_str::<u8>("").expect_err("no JSON");
        let error = DecodeError::of(&trimmed, "object").in_received(b"{\n\"a\": ,}");
        assert_eq!(error.to_string(), "not valid JSON at line 2, column 6");
        // What is valid there keeps the error of the trimmed JSON.
        let shape = serde_json::from_str::<u8>("{}").expect_err("no number");
        let error = DecodeError::of(&shape, "pet");
        let expected = error.to_string();
        assert_eq!(error.in_received(b"{").to_string(), expected);
    }

    #[track_caller]
    fn check<T: DeserializeOwned + std::fmt::Debug>(json: &str, expected: &str) {
        let error = serde_json::from_str::<T>(json).expect_err(json);
        assert_eq!(
            DecodeError::of(&error, "pet").to_string(),
            expected,
            "{json}"
        );
    }
}
