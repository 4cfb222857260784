//! Validation errors of the fields of an object, which a 422 response lists.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use super::float_text;

/// A validation error of one field of an object, like `field.Error` of Kubernetes.
///
/// `Display` prints the path and [`FieldError::body`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FieldError {
    /// The path of the field, such as `spec.ports[0].name`.
    pub path: String,
    /// The type of the error.
    pub kind: FieldErrorKind,
    /// The details; can be empty.
    pub detail: String,
}

/// The type of a field error.
///
/// A `value` has the format of Kubernetes' messages: strings have quotes, numbers and booleans have
/// none, and other values are JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldErrorKind {
    /// The value refers to something that does not exist.
    NotFound {
        /// The value of the field.
        value: String,
    },
    /// The field is required and is missing or empty.
    Required,
    /// The value must be unique and occurs more than once.
    Duplicate {
        /// The value of the field.
        value: String,
    },
    /// The value is invalid.
    Invalid {
        /// The value of the field.
        value: String,
    },
    /// The value is not one of the supported values.
    NotSupported {
        /// The value of the field.
        value: String,
    },
    /// The field or its change is forbidden in this object.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// The list has too many items.
    TooMany {
        /// The number of items.
        value: String,
    },
    /// The value has the wrong type.
    TypeInvalid {
        /// The value of the field.
        value: String,
    },
    /// The server failed to validate the value.
    Internal,
}

// === impl FieldError ===

impl FieldError {
    fn new(path: impl Into<String>, kind: FieldErrorKind, detail: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            kind,
            detail: detail.into(),
        }
    }

    /// Creates an error for a value that refers to something that does not exist.
    #[must_use]
    pub fn not_found(path: impl Into<String>, value: &Value) -> Self {
        Self::new(
            path,
            FieldErrorKind::NotFound {
                value: rendered(value),
            },
            "",
        )
    }

    /// Creates an error for a required field that is missing or empty.
    #[must_use]
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Required, detail)
    }

    /// Creates an error for a value that must be unique and occurs more than once.
    #[must_use]
    pub fn duplicate(path: impl Into<String>, value: &Value) -> Self {
        Self::new(
            path,
            FieldErrorKind::Duplicate {
                value: rendered(value),
            },
            "",
        )
    }

    /// Creates an error for an invalid value.
    #[must_use]
    pub fn invalid(path: impl Into<String>, value: &Value, detail: impl Into<String>) -> Self {
        Self::new(
            path,
            FieldErrorKind::Invalid {
                value: rendered(value),
            },
            detail,
        )
    }

    /// Creates an error for a value that is not one of `supported`.
    #[must_use]
    pub fn not_supported<S: AsRef<str>>(
        path: impl Into<String>,
        value: &Value,
        supported: impl IntoIterator<Item = S>,
    ) -> Self {
        let supported: Vec<_> = supported
            .into_iter()
            .map(|value| format!("{:?}", value.as_ref()))
            .collect();
        let detail = match supported.as_slice() {
            [] => String::new(),
            supported => format!("supported values: {}", supported.join(", ")),
        };
        Self::new(
            path,
            FieldErrorKind::NotSupported {
                value: rendered(value),
            },
            detail,
        )
    }

    /// Creates an error for a field or a change that is forbidden in this object.
    #[must_use]
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Forbidden, detail)
    }

    /// Creates an error for a value with more than `limit` bytes.
    #[must_use]
    pub fn too_long(path: impl Into<String>, limit: usize) -> Self {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        Self::new(
            path,
            FieldErrorKind::TooLong,
            format!("may not be more than {limit} {unit}"),
        )
    }

    /// Creates an error for a list with `actual` items, which are more than `limit`.
    #[must_use]
    pub fn too_many(path: impl Into<String>, actual: usize, limit: usize) -> Self {
        let unit = if limit == 1 { "item" } else { "items" };
        Self::new(
            path,
            FieldErrorKind::TooMany {
                value: actual.to_string(),
            },
            format!("must have at most {limit} {unit}"),
        )
    }

    /// Creates an error for a value of the wrong type.
    #[must_use]
    pub fn type_invalid(path: impl Into<String>, value: &Value, detail: impl Into<String>) -> Self {
        Self::new(
            path,
            FieldErrorKind::TypeInvalid {
                value: rendered(value),
            },
            detail,
        )
    }

    /// Returns the `reason` of the cause in a `Status`, such as `FieldValueRequired`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.kind {
            FieldErrorKind::NotFound { .. } => "FieldValueNotFound",
            FieldErrorKind::Required => "FieldValueRequired",
            FieldErrorKind::Duplicate { .. } => "FieldValueDuplicate",
            FieldErrorKind::Invalid { .. } => "FieldValueInvalid",
            FieldErrorKind::NotSupported { .. } => "FieldValueNotSupported",
            FieldErrorKind::Forbidden => "FieldValueForbidden",
            FieldErrorKind::TooLong => "FieldValueTooLong",
            FieldErrorKind::TooMany { .. } => "FieldValueTooMany",
            FieldErrorKind::TypeInvalid { .. } => "FieldValueTypeInvalid",
            FieldErrorKind::Internal => "InternalError",
        }
    }

    /// Returns the message without the path of the field.
    #[must_use]
    pub fn body(&self) -> String {
        let (name, value) = match &self.kind {
            FieldErrorKind::NotFound { value } => ("Not found", Some(value)),
            FieldErrorKind::Required => ("Required value", None),
            FieldErrorKind::Duplicate { value } => ("Duplicate value", Some(value)),
            FieldErrorKind::Invalid { value } | FieldErrorKind::TypeInvalid { value } => {
                ("Invalid value", Some(value))
            }
            FieldErrorKind::NotSupported { value } => ("Unsupported value", Some(value)),
            FieldErrorKind::Forbidden => ("Forbidden", None),
            FieldErrorKind::TooLong => ("Too long", None),
            FieldErrorKind::TooMany { value } => ("Too many", Some(value)),
            FieldErrorKind::Internal => ("Internal error", None),
        };
        let mut body = name.to_owned();
        for part in [value.map_or("", String::as_str), &self.detail] {
            if !part.is_empty() {
                body.push_str(": ");
                body.push_str(part);
            }
        }
        body
    }

    pub(super) fn cause(&self) -> Value {
        let mut cause = json!({ "reason": self.reason(), "message": self.body() });
        if !self.path.is_empty() {
            cause["field"] = self.path.as_str().into();
        }
        cause
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

impl std::error::Error for FieldError {}

fn rendered(value: &Value) -> String {
    if let Some(float) = value.as_f64().filter(|_| value.is_f64()) {
        return float_text(float);
    }
    match value.as_str() {
        Some(text) if text.contains(char::is_control) => quoted(text),
        // Go and JSON quote the usual strings in the same way.
        _ => value.to_string(),
    }
}

/// Quotes a string as Go does, which has other escapes for control characters than JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        // Writing to a `String` cannot fail.
        _ = match c {
            '"' | '\\' => write!(quoted, "\\{c}"),
            '\u{7}' => write!(quoted, "\\a"),
            '\u{8}' => write!(quoted, "\\b"),
            '\t' => write!(quoted, "\\t"),
            '\n' => write!(quoted, "\\n"),
            '\u{b}' => write!(quoted, "\\v"),
            '\u{c}' => write!(quoted, "\\f"),
            '\r' => write!(quoted, "\\r"),
            c if c.is_ascii_control() => write!(quoted, "\\x{:02x}", u32::from(c)),
            c if c.is_control() => write!(quoted, "\\u{:04x}", u32::from(c)),
            c => write!(quoted, "{c}"),
        };
    }
    quoted + "\""
}

/// Formats one error as its message, and several errors as a list in brackets.
pub(super) fn sentence(errors: &[FieldError]) -> String {
    match errors {
        [error] => error.to_string(),
        errors => {
            // Equal messages are printed once, like in an aggregate error of Kubernetes.
            let mut seen = HashSet::new();
            let messages = errors.iter().map(ToString::to_string);
            let mut unique: Vec<_> = messages.filter(|it| seen.insert(it.clone())).collect();
            if unique.len() == 1 {
                unique.remove(0)
            } else {
                format!("[{}]", unique.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::FieldError;

    #[test]
    fn a_field_error_has_the_message_of_kubernetes() {
        for (error, text) in [
            (FieldError::required("spec.x", ""), "spec.x: Required value"),
            (
                FieldError::required("metadata.name", "name or generateName is required"),
                "metadata.name: Required value: name or generateName is required",
            ),
            (
                FieldError::invalid("spec.x", &json!("y"), "no"),
                r#"spec.x: Invalid value: "y": no"#,
            ),
            (
                FieldError::invalid("spec.x", &json!("\u{1}\u{7f}\u{85}\n\u{b}\"é"), "no"),
                r#"spec.x: Invalid value: "\x01\x7f\u0085\n\v\"é": no"#,
            ),
            (
                FieldError::invalid("spec.x", &json!(3), "no"),
                "spec.x: Invalid value: 3: no",
            ),
            (
                FieldError::not_supported("a", &json!("c"), ["a", "b"]),
                r#"a: Unsupported value: "c": supported values: "a", "b""#,
            ),
            (
                FieldError::too_long("a", 5),
                "a: Too long: may not be more than 5 bytes",
            ),
            (
                FieldError::too_many("a", 3, 2),
                "a: Too many: 3: must have at most 2 items",
            ),
            (
                FieldError::duplicate("a[1]", &json!("x")),
                r#"a[1]: Duplicate value: "x""#,
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
