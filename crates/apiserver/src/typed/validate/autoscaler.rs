//! Horizontal pod autoscalers.

use serde_json::Value;

use super::{At, Faults, quantity};
use crate::metadata::syntax;
use crate::status::FieldError;
use crate::typed::Quantity;

pub(super) fn autoscaler(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        let least = at.number("minReplicas");
        if let Some(least) = least.filter(|least| *least < 1) {
            let why = "must be greater than or equal to 1";
            faults.invalid(at.path("minReplicas"), &least.into(), why);
        }
        let most = at.number("maxReplicas").unwrap_or_default();
        if most == 0 {
            let why = "must be set and greater than 0";
            faults.required(at.path("maxReplicas"), why);
        } else {
            faults.at_least(at, "maxReplicas", 1);
        }
        if least.is_some_and(|least| most < least) {
            let why = "must be greater than or equal to `minReplicas`";
            faults.invalid(at.path("maxReplicas"), &most.into(), why);
        }
        at.inner("scaleTargetRef", |at| {
            reference(at, faults);
            let version = at.text("apiVersion");
            let is_core = at.text("kind") == "ReplicationController";
            if let Some(why) = syntax::api_version(version) {
                faults.invalid(at.path("apiVersion"), &version.into(), why);
            } else if !version.contains('/') && !is_core {
                let why = "apiVersion must specify API group";
                faults.invalid(at.path("apiVersion"), &version.into(), why);
            }
        });
        at.each("metrics", |at| metric(at, faults));
        at.inner("behavior", |at| {
            for direction in ["scaleUp", "scaleDown"] {
                at.inner(direction, |at| scaling(at, faults));
            }
        });
        let is_external =
            |metric: &Value| matches!(metric["type"].as_str(), Some("Object" | "External"));
        if least == Some(0) && !at.list("metrics").iter().any(is_external) {
            let why = "must specify at least one Object or External metric to support scaling to \
                       zero replicas";
            faults.forbidden(at.path("metrics"), why);
        }
    });
}

/// The reference to an object that is scaled or measured.
fn reference(at: At<'_>, faults: &mut Faults) {
    for field in ["kind", "name"] {
        faults.needs_valid(at, field, syntax::path_segment);
    }
}

/// The scaling rules of one direction.
fn scaling(at: At<'_>, faults: &mut Faults) {
    let most = |at: At<'_>, field: &str, most: i64, faults: &mut Faults| {
        if let Some(number) = at.number(field).filter(|number| *number > most) {
            let why = format!("must be less than or equal to {most}");
            faults.invalid(at.path(field), &number.into(), why);
        }
    };
    let positive = |at: At<'_>, field: &str, faults: &mut Faults| {
        let number = at.number(field).unwrap_or_default();
        if number <= 0 {
            faults.invalid(at.path(field), &number.into(), "must be greater than zero");
        }
    };
    if let Some(seconds) = at.number("stabilizationWindowSeconds").filter(|it| *it < 0) {
        let why = "must be greater than or equal to zero";
        faults.invalid(at.path("stabilizationWindowSeconds"), &seconds.into(), why);
    }
    most(at, "stabilizationWindowSeconds", 3600, faults);
    faults.must_be_one_of(at, "selectPolicy", &["Disabled", "Max", "Min"]);
    if at.list("policies").is_empty() {
        faults.required(at.path("policies"), "must specify at least one Policy");
    }
    at.each("policies", |at| {
        let kind = at.text("type");
        if !matches!(kind, "Percent" | "Pods") {
            let known = ["Percent", "Pods"];
            faults.add(FieldError::not_supported(
                at.path("type"),
                &kind.into(),
                known,
            ));
        }
        positive(at, "value", faults);
        positive(at, "periodSeconds", faults);
        most(at, "periodSeconds", 1800, faults);
    });
    if let Some(amount) = at.get("tolerance")
        && quantity(amount).is_some_and(Quantity::is_negative)
    {
        let why = "must be greater than or equal to 0";
        faults.invalid(at.path("tolerance"), amount, why);
    }
}

fn metric(at: At<'_>, faults: &mut Faults) {
    const KINDS: [&str; 5] = [
        "ContainerResource",
        "External",
        "Object",
        "Pods",
        "Resource",
    ];
    let kind = at.text("type");
    let field = match kind {
        "ContainerResource" => "containerResource",
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        _ => {
            if kind.is_empty() {
                faults.required(at.path("type"), "must specify a metric source type");
            }
            // The real server reports this error twice.
            for _ in 0..2 {
                let path = at.path("type");
                faults.add(FieldError::not_supported(path, &kind.into(), KINDS));
            }
            return;
        }
    };
    if at.get(field).is_none() {
        let why = "must populate information for the given metric source";
        faults.required(at.path(field), why);
    }
    at.inner(field, |at| source(at, kind, faults));
}

/// A metric, and its target.
fn source(at: At<'_>, kind: &str, faults: &mut Faults) {
    if kind.ends_with("Resource") {
        if at.text("name").is_empty() {
            faults.required(at.path("name"), "must specify a resource name");
        }
        if kind == "ContainerResource" && at.text("container").is_empty() {
            faults.required(at.path("container"), "must specify a container");
        }
    } else {
        at.inner("describedObject", |at| reference(at, faults));
        at.inner("metric", |at| {
            if at.text("name").is_empty() {
                faults.required(at.path("name"), "must specify a metric name");
            }
            faults.follows(at, "name", syntax::path_segment);
        });
    }
    at.inner("target", |at| target(at, kind, faults));
}

fn target(at: At<'_>, kind: &str, faults: &mut Faults) {
    let target = at.text("type");
    if target.is_empty() {
        faults.required(at.path("type"), "must specify a metric target type");
    }
    if !matches!(target, "Utilization" | "Value" | "AverageValue") {
        let why = "must be either Utilization, Value, or AverageValue";
        faults.invalid(at.path("type"), &target.into(), why);
    }
    for field in ["value", "averageValue"] {
        if let Some(amount) = at.get(field)
            && !quantity(amount).is_some_and(Quantity::is_positive)
        {
            faults.invalid(at.path(field), amount, "must be positive");
        }
    }
    let share = at.get("averageUtilization");
    if let Some(share) = share.filter(|share| share.as_i64().is_none_or(|it| it < 1)) {
        faults.invalid(
            at.path("averageUtilization"),
            share,
            "must be greater than 0",
        );
    }
    let has = |field: &str| at.get(field).is_some();
    let (value, average, share) = (has("value"), has("averageValue"), share.is_some());
    let (missing, why) = match kind {
        "Pods" => (!average, "must specify a positive target averageValue"),
        "Object" => (
            !value && !average,
            "must set either a target value or averageValue",
        ),
        "External" => (
            !value && !average,
            "must set either a target value for metric or a per-pod target",
        ),
        _ => (
            !share && !average,
            "must set either a target raw value or a target utilization",
        ),
    };
    if missing {
        let field = if kind.ends_with("Resource") {
            "averageUtilization"
        } else {
            "averageValue"
        };
        faults.required(at.path(field), why);
    }
    if kind.ends_with("Resource") && share && average {
        let why = "may not set both a target raw value and a target utilization";
        faults.forbidden(at.path("averageValue"), why);
    }
    if kind == "External" && value && average {
        let why = "may not set both a target value for metric and a per-pod target";
        faults.forbidden(at.path("value"), why);
    }
}
