//! Limit ranges.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::Value;

use super::{At, Faults, quantity, resources};
use crate::metadata::syntax;
use crate::status::FieldError;

/// The fields of a limit with amounts of resources.
const AMOUNTS: [&str; 5] = [
    "max",
    "min",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
];

pub(super) fn limit_range(root: At<'_>, faults: &mut Faults) {
    let mut kinds = BTreeSet::new();
    root.inner("spec", |at| {
        at.each("limits", |at| {
            let kind = at.text("type");
            limit_type(at, kind, faults);
            if !kinds.insert(kind.to_owned()) {
                faults.add(FieldError::duplicate(at.path("type"), &kind.into()));
            }
            limit(at, kind, faults);
        });
    });
}

fn limit_type(at: At<'_>, kind: &str, faults: &mut Faults) {
    const KNOWN: [&str; 3] = ["Container", "PersistentVolumeClaim", "Pod"];
    faults.qualified(at.path("type"), kind);
    let is_name = syntax::qualified_name(kind).is_empty();
    if is_name && !kind.contains('/') && !KNOWN.contains(&kind) {
        let why = "must be a standard limit type or fully qualified";
        faults.invalid(at.path("type"), &kind.into(), why);
    }
}

/// The amounts of one item of a limit range.
fn limit(at: At<'_>, kind: &str, faults: &mut Faults) {
    let is_of_pods = kind == "Pod";
    let mut names = BTreeSet::new();
    for field in AMOUNTS {
        let is_default = matches!(field, "default" | "defaultRequest");
        let amounts = at.map(field).into_iter().flatten();
        if is_of_pods && is_default {
            if amounts.count() > 0 {
                let why = "may not be specified when `type` is 'Pod'";
                faults.forbidden(at.path(field), why);
            }
            continue;
        }
        for (name, _) in amounts {
            let path = format!("{}[{name}]", at.path(field));
            if matches!(kind, "Pod" | "Container") {
                resources::container_name(&path, name, faults);
            } else {
                resources::resource_name(&path, name, faults);
            }
            names.insert(name.as_str());
        }
    }
    let has_storage = |field: &str| at.map(field).is_some_and(|it| it.contains_key("storage"));
    if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        faults.required(at.path("limits"), why);
    }
    for name in names {
        order(at, name, is_of_pods, faults);
    }
}

/// Checks the order of the amounts of one resource.
fn order(at: At<'_>, name: &str, is_of_pods: bool, faults: &mut Faults) {
    let amount = |field: &str| {
        let is_ignored = is_of_pods && matches!(field, "default" | "defaultRequest");
        at.map(field)
            .filter(|_| !is_ignored)
            .and_then(|amounts| amounts.get(name))
    };
    let order = |[left, right]: [Option<&Value>; 2]| {
        let (left, right) = (quantity(left?)?, quantity(right?)?);
        Some(left.compare(right))
    };
    let [max, min, default, request, ratio] = AMOUNTS.map(amount);
    let text = |amount: Option<&Value>| {
        let text = amount.and_then(Value::as_str).unwrap_or_default();
        text.to_owned()
    };
    // The field of the error, the reported value, and the two amounts in the wrong order.
    let rules = [
        ("min", min, ("min value", min), ("max value", max)),
        (
            "defaultRequest",
            request,
            ("min value", min),
            ("default request value", request),
        ),
        (
            "defaultRequest",
            request,
            ("default request value", request),
            ("max value", max),
        ),
        (
            "defaultRequest",
            request,
            ("default request value", request),
            ("default limit value", default),
        ),
        (
            "default",
            min,
            ("min value", min),
            ("default value", default),
        ),
        (
            "default",
            max,
            ("default value", default),
            ("max value", max),
        ),
    ];
    for (field, shown, (smaller, less), (larger, more)) in rules {
        if order([less, more]) == Some(Ordering::Greater) {
            let path = format!("{}[{name}]", at.path(field));
            let (less, more) = (text(less), text(more));
            let why = format!("{smaller} {less} is greater than {larger} {more}");
            faults.invalid(path, shown.unwrap_or(&Value::Null), why);
        }
    }
    if let Some(ratio) = ratio
        && order([Some(ratio), Some(&"1".into())]) == Some(Ordering::Less)
    {
        let path = format!("{}[{name}]", at.path("maxLimitRequestRatio"));
        let why = format!("ratio {} is less than 1", text(Some(ratio)));
        faults.invalid(path, ratio, why);
    }
    let differs = order([default, request]).is_some_and(|order| order != Ordering::Equal);
    if differs && !resources::is_shared(name) {
        let path = format!("{}[{name}]", at.path("defaultRequest"));
        let (default, shown) = (text(default), text(request));
        let why =
            format!("default value {default} must equal to defaultRequest value {shown} in {name}");
        faults.invalid(path, request.unwrap_or(&Value::Null), why);
    }
}
