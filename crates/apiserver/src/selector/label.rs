//! Parses and evaluates label selectors, such as `app=web,tier in (a, b),!canary`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::SelectorError;
use crate::metadata::syntax;

/// A parsed label selector, such as `app=web,tier in (a, b),!canary`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(BTreeSet<String>),
    /// Also matches objects without the label.
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

/// A parser, which holds the remaining text.
///
/// Its errors have the messages of Kubernetes, which depend on how the text is split into tokens.
struct Parser<'a> {
    rest: &'a str,
}

/// The characters that are tokens, alone or in the operators `==` and `!=`.
const SYMBOLS: [char; 7] = ['=', '!', '(', ')', ',', '>', '<'];

/// The characters between tokens.
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

// === impl LabelSelector ===

impl LabelSelector {
    /// Parses `text`. An empty selector matches all objects.
    ///
    /// # Errors
    ///
    /// [`SelectorError::Label`] if the syntax is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser { rest: text };
        let mut requirements = Vec::new();
        loop {
            match parser.peek() {
                "" => return Ok(Self { requirements }),
                token if token == "!" || is_word(token) => {}
                token => return Err(unexpected(token, "!, identifier, or 'end of string'")),
            }
            let requirement = parser.requirement().map_err(|why| {
                SelectorError::Label(format!("unable to parse requirement: {why}"))
            })?;
            requirements.push(requirement);
            match parser.next() {
                "" => return Ok(Self { requirements }),
                "," => {
                    let token = parser.peek();
                    if token != "!" && !is_word(token) {
                        return Err(unexpected(token, "identifier after ','"));
                    }
                }
                token => return Err(unexpected(token, "',' or 'end of string'")),
            }
        }
    }

    /// Returns whether the selector is empty, so that it matches all objects.
    pub(crate) fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns whether the selector matches the labels of `object`.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = crate::metadata::field(object, "labels");
        self.requirements.iter().all(|requirement| {
            let value = labels.and_then(|labels| labels.get(&requirement.key)?.as_str());
            requirement.operator.allows(value)
        })
    }
}

// === impl Operator ===

impl Operator {
    fn allows(&self, value: Option<&str>) -> bool {
        match self {
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(values) => value.is_some_and(|value| values.contains(value)),
            Self::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Self::Above(limit) => number(value).is_some_and(|value| value > *limit),
            Self::Below(limit) => number(value).is_some_and(|value| value < *limit),
        }
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

// === impl Parser ===

impl<'a> Parser<'a> {
    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let is_absent = self.peek() == "!";
        if is_absent {
            self.next();
        }
        let key = self.word()?;
        let wrong = syntax::qualified_name(key);
        if !wrong.is_empty() {
            // Kubernetes has no path here, and prints it like this.
            let wrong = wrong.join("; ");
            let message = format!("<nil>: Invalid value: {key:?}: {wrong}");
            return Err(SelectorError::Label(message));
        }
        let operator = if is_absent {
            Operator::Absent
        } else if self.is_at_end() {
            Operator::Exists
        } else {
            match self.next() {
                "in" => Operator::In(self.values(key)?),
                "notin" => Operator::NotIn(self.values(key)?),
                "=" | "==" => Operator::In(checked(key, BTreeSet::from([self.value()?]))?),
                "!=" => Operator::NotIn(checked(key, BTreeSet::from([self.value()?]))?),
                ">" => Operator::Above(self.bound(key)?),
                "<" => Operator::Below(self.bound(key)?),
                token => return Err(unexpected(token, "in, notin, =, ==, !=, gt, lt")),
            }
        };
        Ok(Requirement {
            key: key.to_owned(),
            operator,
        })
    }

    /// The value after an operator, which may be empty.
    fn value(&mut self) -> Result<String, SelectorError> {
        if self.is_at_end() {
            return Ok(String::new());
        }
        self.word().map(str::to_owned)
    }

    fn bound(&mut self, key: &str) -> Result<i64, SelectorError> {
        let value = self.value()?;
        let parsed = value.parse();
        let mut errors = Vec::new();
        if parsed.is_err() {
            errors.push(format!(
                "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an \
                 integer"
            ));
        }
        errors.extend(label_error(key, 0, &value));
        match parsed {
            Ok(bound) if errors.is_empty() => Ok(bound),
            _ => Err(joined(&errors)),
        }
    }

    /// The values in parentheses. Between two commas, and beside a parenthesis, there is an empty
    /// value.
    fn values(&mut self, key: &str) -> Result<BTreeSet<String>, SelectorError> {
        let token = self.next();
        if token != "(" {
            return Err(SelectorError::Label(format!(
                "found '{token}' expected: '('"
            )));
        }
        let mut values = BTreeSet::new();
        match self.peek() {
            ")" => {
                self.next();
                values.insert(String::new());
                return checked(key, values);
            }
            token if token == "," || is_word(token) => {}
            token => return Err(unexpected(token, "',', ')' or identifier")),
        }
        loop {
            match self.next() {
                "," => {
                    if values.is_empty() || [")", ","].contains(&self.peek()) {
                        values.insert(String::new());
                    }
                    if self.peek() == ")" {
                        break;
                    }
                }
                token if is_word(token) => {
                    values.insert(token.to_owned());
                    match self.peek() {
                        ")" => break,
                        "," => {}
                        token => return Err(unexpected(token, "',' or ')'")),
                    }
                }
                token => return Err(unexpected(token, "',', or identifier")),
            }
        }
        self.next();
        checked(key, values)
    }

    fn word(&mut self) -> Result<&'a str, SelectorError> {
        match self.next() {
            token if is_word(token) => Ok(token),
            token => Err(unexpected(token, "identifier")),
        }
    }

    /// Whether the requirement has no further token.
    fn is_at_end(&self) -> bool {
        ["", ","].contains(&self.peek())
    }

    /// Returns the next token, which is empty at the end.
    fn peek(&self) -> &'a str {
        let rest = self.rest.trim_start_matches(SPACE);
        let end = if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else if rest.starts_with(SYMBOLS) {
            1
        } else {
            let is_end = |c: char| SYMBOLS.contains(&c) || SPACE.contains(&c);
            rest.find(is_end).unwrap_or(rest.len())
        };
        &rest[..end]
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.rest = &self.rest.trim_start_matches(SPACE)[token.len()..];
        token
    }
}

fn is_word(token: &str) -> bool {
    !token.is_empty() && !token.starts_with(SYMBOLS)
}

fn unexpected(token: &str, expected: &str) -> SelectorError {
    SelectorError::Label(format!("found '{token}', expected: {expected}"))
}

/// Checks that `values` can be values of labels.
fn checked(key: &str, values: BTreeSet<String>) -> Result<BTreeSet<String>, SelectorError> {
    let errors = values.iter().enumerate();
    let errors: Vec<_> = errors
        .filter_map(|(at, value)| label_error(key, at, value))
        .collect();
    if errors.is_empty() {
        Ok(values)
    } else {
        Err(joined(&errors))
    }
}

fn label_error(key: &str, at: usize, value: &str) -> Option<String> {
    let why = syntax::label_value(value)?;
    Some(format!(
        "values[{at}][{key}]: Invalid value: {value:?}: {why}"
    ))
}

/// Returns several errors as one, like Kubernetes.
fn joined(errors: &[String]) -> SelectorError {
    SelectorError::Label(match errors {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::LabelSelector;

    #[test]
    fn every_operator_selects_the_expected_objects() {
        let object = json!({ "metadata": { "labels": { "app": "web", "n": "5", "e": "" } } });
        for (text, meant) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("canary", false),
            ("!canary", true),
            ("app=web", true),
            ("app == web", true),
            ("app!=web", false),
            ("canary!=web", true),
            ("app in (api, web)", true),
            ("app in (api)", false),
            ("app notin (api)", true),
            ("canary notin (api)", true),
            ("app=web,!canary", true),
            ("app=web,canary", false),
            ("n>4", true),
            ("n > 5", false),
            ("n<6", true),
            ("app<6", false),
            ("e=", true),
            ("e", true),
            ("e in (,a)", true),
            ("app in (),app", false),
        ] {
            let selector = LabelSelector::parse(text).expect(text);
            assert_eq!(selector.matches(&object), meant, "{text}");
        }
    }

    #[test]
    fn malformed_selectors_are_rejected() {
        for text in [
            "app web",
            "=web",
            "app in web",
            "app in (a",
            "a,,b",
            "a,",
            "-a=b",
            "a=_b",
            "n>x",
        ] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }
}
