//! Label and field selectors of lists and watches. *(pure)*

use serde_json::Value;

mod label;

pub(crate) use label::LabelSelector;

/// A selector that cannot be parsed, or that uses a field that the resource does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectorError {
    /// The label selector cannot be parsed.
    #[error("{0}")]
    Label(String),
    /// The field selector cannot be parsed.
    #[error("invalid selector: '{selector}'; can't understand '{part}'")]
    Field {
        /// The whole selector.
        selector: String,
        /// The part that cannot be parsed.
        part: String,
    },
    /// A value of the field selector has a character that must be escaped.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
    /// A value of the field selector has an unknown escape sequence.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// The resource does not support the field in selectors.
    #[error("field label not supported: {0}")]
    Unsupported(String),
    /// The resource supports only fields of the metadata in selectors.
    #[error("{0:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")]
    Unknown(String),
}

/// A field that the field selectors of a resource support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SelectableField {
    /// The name of the field in a selector, such as `spec.nodeName`.
    pub(crate) label: String,
    /// The JSON pointer to the value.
    pub(crate) pointer: String,
    /// The JSON pointer to the value if that one is absent or empty.
    pub(crate) fallback: Option<&'static str>,
    /// The value if the field is absent.
    pub(crate) default: &'static str,
}

/// The field that selects one object.
const NAME: &str = "metadata.name";

/// A parsed field selector, such as `metadata.name=web,status.phase!=Running`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: SelectableField,
    value: String,
    equal: bool,
}

/// The label selector and the field selector of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    /// The label selector.
    pub(crate) labels: LabelSelector,
    /// The field selector.
    pub(crate) fields: FieldSelector,
}

// === impl Selector ===

impl Selector {
    /// Returns whether both selectors are empty, so that they match all objects.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.terms.is_empty()
    }

    /// Returns whether the selector matches `object`.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Returns whether the selector has a field that is not part of the metadata.
    pub(crate) fn reads_contents(&self) -> bool {
        let mut terms = self.terms.iter();
        terms.any(|term| !term.field.pointer.starts_with("/metadata/"))
    }

    /// Parses `text`, whose fields must be in `known`.
    ///
    /// # Errors
    ///
    /// [`SelectorError`] if the syntax is invalid, or if the resource does not support a field.
    pub(crate) fn parse(text: &str, known: &[SelectableField]) -> Result<Self, SelectorError> {
        let terms = parse_terms(text)?;
        // As in Kubernetes, the syntax of the whole selector is checked first.
        // As in Kubernetes, a term without a label and a value selects everything.
        let is_empty =
            |(label, _, value): &(String, bool, String)| label.is_empty() && value.is_empty();
        let terms = terms.into_iter().filter(|term| !is_empty(term));
        let terms = terms.map(|(label, equal, value)| {
            let field = known.iter().find(|field| field.label == label);
            let field = field.ok_or_else(|| unsupported(&label, known))?.clone();
            Ok(Term {
                field,
                value,
                equal,
            })
        });
        Ok(Self {
            terms: terms.collect::<Result<_, _>>()?,
        })
    }

    /// Checks the syntax of a field selector of any resource.
    ///
    /// # Errors
    ///
    /// [`SelectorError`] if the syntax is invalid.
    pub(crate) fn check(text: &str) -> Result<(), SelectorError> {
        parse_terms(text).map(|_| ())
    }

    /// Returns the name that the selector requires, if there is one.
    pub(crate) fn name(&self) -> Option<&str> {
        let mut terms = self.terms.iter();
        let term = terms.find(|term| term.equal && term.field.label == NAME);
        term.map(|term| term.value.as_str())
    }

    /// Returns the name that the selector `text` of any resource requires, if there is one and if its
    /// syntax is valid.
    pub(crate) fn name_in(text: &str) -> Option<String> {
        let mut terms = parse_terms(text).ok()?.into_iter();
        terms.find_map(|(label, equal, value)| (equal && label == NAME).then_some(value))
    }

    /// Returns whether the selector matches `object`.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.terms
            .iter()
            .all(|term| (term.field.read(object) == term.value) == term.equal)
    }
}

// === impl SelectableField ===

impl SelectableField {
    /// Creates a field whose name in selectors is its path, such as `spec.nodeName`.
    pub(crate) fn at_its_path(label: &str, default: &'static str) -> Self {
        let pointer = format!("/{}", label.replace('.', "/"));
        Self {
            pointer,
            ..Self::at(label, "", default)
        }
    }

    /// Creates a field whose value is at the JSON pointer `pointer`.
    pub(crate) fn at(label: &str, pointer: &str, default: &'static str) -> Self {
        Self {
            label: label.to_owned(),
            pointer: pointer.to_owned(),
            fallback: None,
            default,
        }
    }

    fn read(&self, object: &Value) -> String {
        let pointers = std::iter::once(self.pointer.as_str()).chain(self.fallback);
        let mut values = pointers.filter_map(|pointer| match object.pointer(pointer)? {
            Value::Null | Value::Array(_) | Value::Object(_) => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        });
        let found = values.find(|text| !text.is_empty() || self.fallback.is_none());
        found.unwrap_or_else(|| self.default.to_owned())
    }
}

/// Returns the error for an unsupported field. As in Kubernetes, the message differs if the resource
/// supports only fields of the metadata.
fn unsupported(label: &str, known: &[SelectableField]) -> SelectorError {
    if known
        .iter()
        .all(|field| field.label.starts_with("metadata."))
    {
        SelectorError::Unknown(label.to_owned())
    } else {
        SelectorError::Unsupported(label.to_owned())
    }
}

/// Parses the terms of a field selector: a field, whether it must be equal, and a value. They are
/// sorted by their text, as in Kubernetes; so of several required names, the first in this order
/// counts.
fn parse_terms(text: &str) -> Result<Vec<(String, bool, String)>, SelectorError> {
    let mut parts = split_unescaped(text);
    parts.sort();
    let parts = parts.iter().filter(|part| !part.is_empty());
    let terms = parts.map(|part| {
        let (label, equal, value) = split_term(part).ok_or_else(|| SelectorError::Field {
            selector: text.to_owned(),
            part: part.clone(),
        })?;
        Ok((label.to_owned(), equal, unescape(value)?))
    });
    terms.collect()
}

fn split_term(part: &str) -> Option<(&str, bool, &str)> {
    let at = part.find('=')?;
    let (left, right) = (&part[..at], &part[at + 1..]);
    if let Some(label) = left.strip_suffix('!') {
        return Some((label, false, right));
    }
    Some((left, true, right.strip_prefix('=').unwrap_or(right)))
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                other => {
                    let sequence = std::iter::once('\\').chain(other);
                    return Err(SelectorError::Escape(sequence.collect()));
                }
            },
            '=' => return Err(SelectorError::Unescaped(c)),
            c => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{FieldSelector, LabelSelector, SelectableField, SelectorError};

    fn known() -> Vec<SelectableField> {
        ["metadata.name", "spec.nodeName"]
            .map(|label| SelectableField::at_its_path(label, ""))
            .into()
    }

    #[test]
    fn fields_are_compared_with_their_text() {
        let object = json!({ "metadata": { "name": "web" }, "spec": { "nodeName": "a,b" } });
        for (text, meant) in [
            ("", true),
            ("metadata.name=web", true),
            ("metadata.name==web", true),
            ("metadata.name!=web", false),
            ("metadata.name=web,spec.nodeName=", false),
            ("metadata.name=web,spec.nodeName!=", true),
            (r"spec.nodeName=a\,b", true),
        ] {
            let selector = FieldSelector::parse(text, &known()).expect(text);
            assert_eq!(selector.matches(&object), meant, "{text}");
        }
    }

    #[test]
    fn an_unsupported_field_is_rejected() {
        assert_eq!(
            FieldSelector::parse("spec.color=red", &known()),
            Err(SelectorError::Unsupported("spec.color".to_owned()))
        );
        assert!(FieldSelector::parse("metadata.name", &known()).is_err());
    }

    #[test]
    fn a_selection_of_one_name_is_recognized() {
        let name = |text| {
            FieldSelector::parse(text, &known())
                .expect(text)
                .name()
                .map(str::to_owned)
        };
        assert_eq!(name("metadata.name=web"), Some("web".to_owned()));
        assert_eq!(name("metadata.name!=web"), None);
        assert_eq!(
            name("metadata.name=b,metadata.name=a"),
            Some("a".to_owned())
        );
    }

    proptest! {
        #[test]
        fn no_selector_makes_the_parser_panic(text in ".{0,40}") {
            _ = LabelSelector::parse(&text);
            _ = FieldSelector::parse(&text, &known());
        }
    }
}
