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
struct Parser<'a> {
    rest: &'a str,
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Parses `text`. An empty selector matches all objects.
    ///
    /// # Errors
    ///
    /// [`SelectorError::Label`] if the syntax is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut reader = Parser { rest: text.trim() };
        let mut requirements = Vec::new();
        while !reader.rest.is_empty() {
            requirements.push(reader.requirement()?);
            reader.skip_space();
            if !reader.eat(",") && !reader.rest.is_empty() {
                return Err(reader.unexpected("',' or 'end of string'"));
            } else if reader.rest.is_empty() && text.trim_end().ends_with(',') {
                return Err(reader.unexpected("identifier after ','"));
            }
        }
        Ok(Self { requirements })
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
        self.skip_space();
        let absent = self.eat("!");
        let key = self.key()?;
        self.skip_space();
        if absent {
            return Ok(Requirement {
                key,
                operator: Operator::Absent,
            });
        }
        let operator = if self.rest.is_empty() || self.rest.starts_with(',') {
            Operator::Exists
        } else if self.eat("!=") {
            Operator::NotIn(self.value(&key)?)
        } else if self.eat("==") || self.eat("=") {
            Operator::In(self.value(&key)?)
        } else if self.eat(">") {
            Operator::Above(self.bound()?)
        } else if self.eat("<") {
            Operator::Below(self.bound()?)
        } else {
            match self.word() {
                "in" => Operator::In(self.values(&key)?),
                "notin" => Operator::NotIn(self.values(&key)?),
                other => {
                    let message =
                        format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt");
                    return Err(SelectorError::Label(message));
                }
            }
        };
        Ok(Requirement { key, operator })
    }

    fn key(&mut self) -> Result<String, SelectorError> {
        self.skip_space();
        let key = self.word();
        if key.is_empty() {
            return Err(self.unexpected("!, identifier, or 'end of string'"));
        }
        let wrong = syntax::qualified_name(key);
        if wrong.is_empty() {
            return Ok(key.to_owned());
        }
        let wrong = wrong.join("; ");
        let message = format!("key: Invalid value: {key:?}: {wrong}");
        Err(SelectorError::Label(message))
    }

    fn value(&mut self, key: &str) -> Result<BTreeSet<String>, SelectorError> {
        self.skip_space();
        let value = self.word();
        checked(key, value)?;
        Ok(BTreeSet::from([value.to_owned()]))
    }

    fn values(&mut self, key: &str) -> Result<BTreeSet<String>, SelectorError> {
        self.skip_space();
        if !self.eat("(") {
            return Err(self.unexpected("'('"));
        }
        let mut values = BTreeSet::new();
        loop {
            self.skip_space();
            let value = self.word();
            checked(key, value)?;
            values.insert(value.to_owned());
            self.skip_space();
            if self.eat(")") {
                return Ok(values);
            }
            if !self.eat(",") {
                return Err(self.unexpected("',', or ')'"));
            }
        }
    }

    fn bound(&mut self) -> Result<i64, SelectorError> {
        self.skip_space();
        let word = self.word();
        word.parse().map_err(|_| {
            let message = "for 'Gt', 'Lt' operators, the value must be an integer";
            SelectorError::Label(format!("values[0]: Invalid value: {word:?}: {message}"))
        })
    }

    fn word(&mut self) -> &'a str {
        let end = self
            .rest
            .find(|c: char| c.is_whitespace() || "=!(),<>".contains(c))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn unexpected(&self, expected: &str) -> SelectorError {
        SelectorError::Label(format!("found '{}' expected: {expected}", self.rest))
    }
}

fn checked(key: &str, value: &str) -> Result<(), SelectorError> {
    match syntax::label_value(value) {
        None => Ok(()),
        Some(why) => Err(SelectorError::Label(format!(
            "values[0][{key}]: Invalid value: {value:?}: {why}"
        ))),
    }
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
