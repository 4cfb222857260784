//! Label selectors: validation, and matching against the labels of a template.

use serde_json::Value;

use super::{At, Faults};
use crate::metadata::syntax;

/// Reports the errors of a label selector. Returns whether it can be parsed.
pub(super) fn check(at: At<'_>, faults: &mut Faults) -> bool {
    let before = faults.0.len();
    faults.labels(at, "matchLabels");
    at.each("matchExpressions", |at| {
        operator(at, faults);
        faults.qualified(at.path("key"), at.text("key"));
        faults.items(at, "values", syntax::label_value);
    });
    faults.0.len() == before
}

/// The operator of an expression, which determines whether values are required.
pub(super) fn operator(at: At<'_>, faults: &mut Faults) {
    let values = at.list("values");
    match at.text("operator") {
        "In" | "NotIn" if values.is_empty() => faults.required(
            at.path("values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
        "Exists" | "DoesNotExist" if !values.is_empty() => faults.forbidden(
            at.path("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => faults.invalid(
            at.path("operator"),
            &other.into(),
            "not a valid selector operator",
        ),
    }
}

/// Whether a selector is empty, and matches everything.
pub(super) fn is_empty(selector: &Value) -> bool {
    let has = |field: &str| match selector.get(field) {
        Some(Value::Object(members)) => !members.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        _ => false,
    };
    !has("matchLabels") && !has("matchExpressions")
}

/// Whether a selector matches these labels. A missing selector matches nothing.
pub(super) fn matches(selector: Option<&Value>, labels: Option<&Value>) -> bool {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
        return false;
    };
    let label = |key: &str| labels.and_then(|labels| labels.get(key)?.as_str());
    let by_labels = selector.get("matchLabels").and_then(Value::as_object);
    let mut by_labels = by_labels.into_iter().flatten();
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    by_labels.all(|(key, value)| label(key) == value.as_str())
        && expressions.into_iter().flatten().all(|expression| {
            let text = |field: &str| expression[field].as_str().unwrap_or_default();
            let found = label(text("key"));
            let values = expression["values"].as_array().into_iter().flatten();
            let is_listed = || {
                let mut values = values.filter_map(Value::as_str);
                found.is_some_and(|found| values.any(|value| value == found))
            };
            match text("operator") {
                "In" => is_listed(),
                "NotIn" => !is_listed(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}
