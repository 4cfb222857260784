//! Label selectors of parents: which objects are their children. *(pure)*

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};

/// Why the label selector of a parent is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSelector {
    /// It has no requirement, so that it would select all objects.
    #[error("it is empty, and would select all objects; set `matchLabels` or `matchExpressions`")]
    Empty,

    /// The operator of a requirement is unknown.
    #[error("{key:?} has the unknown operator {operator:?}; use In, NotIn, Exists or DoesNotExist")]
    UnknownOperator {
        /// The label.
        key: String,
        /// The operator.
        operator: String,
    },

    /// `In` or `NotIn` has no values.
    #[error("{key:?} has the operator {operator} and no values; name at least one")]
    NoValues {
        /// The label.
        key: String,
        /// The operator.
        operator: String,
    },

    /// `Exists` or `DoesNotExist` has values.
    #[error(
        "{key:?} has the operator {operator} and values; remove the values, or use In or NotIn"
    )]
    UnexpectedValues {
        /// The label.
        key: String,
        /// The operator.
        operator: String,
    },
}

/// A valid label selector of a parent.
#[derive(Clone, Debug)]
pub(crate) struct ParentSelector {
    selector: Selector,
    /// A label that all selected objects have, if `matchLabels` names one.
    required: Option<(String, String)>,
}

// === impl ParentSelector ===

impl ParentSelector {
    /// Checks a selector by the rules of the API server.
    ///
    /// # Errors
    ///
    /// [`InvalidSelector`] for its first fault.
    pub(crate) fn new(selector: LabelSelector) -> Result<Self, InvalidSelector> {
        for requirement in selector.match_expressions.iter().flatten() {
            let has_values = requirement.values.as_ref().is_some_and(|it| !it.is_empty());
            let key = windlass_informer::one_line(&requirement.key).into_owned();
            let operator = windlass_informer::one_line(&requirement.operator).into_owned();
            match (&*requirement.operator, has_values) {
                ("In" | "NotIn", true) | ("Exists" | "DoesNotExist", false) => {}
                ("In" | "NotIn", false) => return Err(InvalidSelector::NoValues { key, operator }),
                ("Exists" | "DoesNotExist", true) => {
                    return Err(InvalidSelector::UnexpectedValues { key, operator });
                }
                _ => return Err(InvalidSelector::UnknownOperator { key, operator }),
            }
        }
        let required = selector.match_labels.iter().flatten().next();
        let required = required.map(|(key, value)| (key.clone(), value.clone()));
        // Only an unknown operator or missing values are errors.
        let selector = Selector::try_from(selector).unwrap_or_default();
        if selector.selects_all() {
            return Err(InvalidSelector::Empty);
        }
        Ok(Self { selector, required })
    }

    /// Whether it selects an object with these labels.
    pub(crate) fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        match labels {
            Some(labels) => self.selector.matches(labels),
            None => self.selector.matches(&BTreeMap::new()),
        }
    }

    /// A label that all selected objects have, if one is known.
    pub(crate) fn required(&self) -> Option<(&str, &str)> {
        let (key, value) = self.required.as_ref()?;
        Some((key, value))
    }
}

impl std::fmt::Display for ParentSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.selector.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(selector: Value) -> Result<ParentSelector, InvalidSelector> {
        ParentSelector::new(serde_json::from_value(selector).expect("a selector"))
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({ "key": key, "operator": operator, "values": values })
    }

    #[test]
    fn a_selector_matches_labels_as_in_the_api_server() {
        #[track_caller]
        fn check(expression: &Value, labels: &[(&str, &str)], expected: bool) {
            let selector = parsed(json!({ "matchExpressions": [expression] })).expect("valid");
            let labels = labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            assert_eq!(
                selector.matches(Some(&labels.collect())),
                expected,
                "{selector}"
            );
        }
        let blue = [("app", "blue")];
        check(&expression("app", "In", &["blue", "red"]), &blue, true);
        check(&expression("app", "In", &["red"]), &blue, false);
        check(&expression("app", "In", &["red"]), &[], false);
        check(&expression("app", "NotIn", &["red"]), &blue, true);
        check(&expression("app", "NotIn", &["blue"]), &blue, false);
        check(&expression("app", "NotIn", &["blue"]), &[], true);
        check(&expression("app", "Exists", &[]), &blue, true);
        check(&expression("app", "Exists", &[]), &[], false);
        check(&expression("app", "DoesNotExist", &[]), &blue, false);
        check(&expression("app", "DoesNotExist", &[]), &[], true);
        let both = json!({
            "matchLabels": { "app": "blue" }, "matchExpressions": [expression("b", "Exists", &[])],
        });
        let both = parsed(both).expect("valid");
        assert_eq!(both.required(), Some(("app", "blue")));
        assert!(!both.matches(Some(&[("app".to_owned(), "blue".to_owned())].into())));
        assert!(!both.matches(None));
    }

    #[test]
    fn an_invalid_selector_is_refused() {
        #[track_caller]
        fn check(selector: Value, expected: &str) {
            let refused = parsed(selector).expect_err(expected).to_string();
            assert!(refused.contains(expected), "{refused}");
        }
        check(json!({}), "is empty");
        check(
            json!({ "matchLabels": {}, "matchExpressions": [] }),
            "is empty",
        );
        let with = |expression: Value| json!({ "matchExpressions": [expression] });
        check(with(expression("app", "In", &[])), "no values");
        check(
            with(json!({ "key": "app", "operator": "NotIn" })),
            "no values",
        );
        check(
            with(expression("app", "Exists", &["x"])),
            "remove the values",
        );
        check(
            with(expression("app", "in\n", &["x"])),
            r#"unknown operator "in"#,
        );
    }
}
