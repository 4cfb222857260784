//! Steps of paths to fields.

use std::fmt;

use serde_json::{Map, Value};

/// A step from a value to one of its fields or items.
///
/// The order is that of the real server: fields, then items by key, by value and by index. Keys and
/// values are JSON texts, so that steps can be compared and ordered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathElement {
    /// A member of an object.
    Field(String),
    /// The item of a list whose members have these values, in alphabetical order of the members.
    Key(Vec<(String, String)>),
    /// An item of a set.
    Item(String),
    /// The item at an index. Servers do not write it, but clients can send it.
    Index(i64),
}

// === impl PathElement ===

impl PathElement {
    pub(super) fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// Parses a step of `fieldsV1`; `None` if its form is unknown.
    ///
    /// # Errors
    ///
    /// The reason why it is invalid.
    pub(super) fn decode(text: &str) -> Result<Option<Self>, String> {
        let (form, rest) = text
            .split_at_checked(2)
            .ok_or_else(|| format!("key must be 2 characters long: {text}"))?;
        let parse = || serde_json::from_str::<Value>(rest).map_err(|error| error.to_string());
        Ok(match form {
            "f:" => Some(Self::field(rest)),
            "v:" => Some(Self::Item(canonical(&parse()?))),
            "k:" => {
                let Value::Object(members) = parse()? else {
                    return Err(format!("a key must be an object: {rest}"));
                };
                let members = members.iter();
                Some(Self::key(
                    members.map(|(name, value)| (name.clone(), value)),
                ))
            }
            "i:" => Some(Self::Index(
                rest.parse().map_err(|_| format!("no index: {rest}"))?,
            )),
            form if form.ends_with(':') => None,
            _ => return Err(format!("missing colon: {text}")),
        })
    }

    /// Returns the step to the item with these members.
    pub(super) fn key<'a>(members: impl Iterator<Item = (String, &'a Value)>) -> Self {
        let mut members: Vec<_> = members
            .map(|(name, value)| (name, canonical(value)))
            .collect();
        members.sort();
        Self::Key(members)
    }

    /// Returns the step to the item of a set.
    pub(super) fn item(value: &Value) -> Self {
        Self::Item(canonical(value))
    }

    /// Encodes the step for `fieldsV1`.
    pub(super) fn encode(&self) -> String {
        match self {
            // `format!` takes three times as long, and most steps are fields.
            Self::Field(name) => ["f:", name].concat(),
            Self::Item(value) => format!("v:{}", escape_html(value)),
            Self::Index(index) => format!("i:{index}"),
            Self::Key(members) => {
                let members = members.iter().map(|(name, value)| {
                    let name = Value::from(name.as_str()).to_string();
                    format!("{name}:{value}")
                });
                let members: Vec<_> = members.collect();
                escape_html(&format!("k:{{{}}}", members.join(",")))
            }
        }
    }
}

impl fmt::Display for PathElement {
    /// Writes the step as in messages about conflicts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Item(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Key(members) => {
                let members = members
                    .iter()
                    .map(|(name, value)| format!("{name}={}", key_text(value)));
                write!(f, "[{}]", members.collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// Returns the text of a value, which is the same for equal numbers.
fn canonical(value: &Value) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is checked that nothing is lost"
    )]
    match value.as_f64() {
        Some(float) if value.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => {
            (float as i64).to_string()
        }
        _ => value.to_string(),
    }
}

/// Returns the text of a key in a message: the members of an object are joined without a separator.
fn key_text(json: &str) -> String {
    fn text(value: &Value) -> String {
        match value {
            Value::Object(members) => {
                let members = members.iter();
                let members = members.map(|(name, value)| format!("{name}={}", text(value)));
                members.collect::<Vec<_>>().concat()
            }
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(text).collect();
                format!("[{}]", items.join(","))
            }
            scalar => scalar.to_string(),
        }
    }
    match serde_json::from_str(json) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => text(&value),
        _ => json.to_owned(),
    }
}

/// Escapes the characters of JSON that Go's encoder escapes.
pub(super) fn escape_html(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

/// Returns a path as in messages, such as `.spec.containers[name="a"].image`.
pub(super) fn written(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

/// Returns the members of an object; `None` if `value` is not an object.
pub(super) fn members(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

#[cfg(test)]
mod tests {
    use super::PathElement;

    #[test]
    fn a_parsed_step_equals_the_written_step() {
        for (text, shown) in [
            ("f:spec", ".spec"),
            (r#"k:{"name":"a","port":80}"#, r#"[name="a",port=80]"#),
            (r#"k:{"name":{"a":1}}"#, "[name=a=1]"),
            (r#"k:{"name":["a",{}]}"#, r#"[name=["a",]]"#),
            (r#"v:"a/b""#, r#"[="a/b"]"#),
            ("i:3", "[3]"),
        ] {
            let step = PathElement::decode(text)
                .expect("it is a step")
                .expect("of a known form");
            assert_eq!(step.encode(), text);
            assert_eq!(step.to_string(), shown);
        }
        assert_eq!(PathElement::decode("x:y"), Ok(None));
        for text in ["", "f", "spec", "k:1", "v:", "i:x"] {
            assert!(PathElement::decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn keys_are_sorted_and_equal_numbers_have_one_form() {
        let one = PathElement::decode(r#"k:{"b":1.0,"a":"x"}"#);
        assert_eq!(one, PathElement::decode(r#"k:{"a":"x","b":1}"#));
        let angle = PathElement::decode(r#"v:"<a>""#)
            .expect("it is a step")
            .expect("known");
        assert_eq!(angle.encode(), r#"v:"\u003ca\u003e""#);
    }
}
