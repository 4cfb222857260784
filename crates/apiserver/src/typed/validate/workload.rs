//! Deployments, replica sets, stateful sets and daemon sets.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{At, Faults, pod, selector, storage};
use crate::metadata::syntax;
use crate::status::FieldError;

pub(super) fn deployment(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        faults.not_negative(at, &["replicas"]);
        selector_and_template(at, "deployment", faults);
        at.inner("strategy", |at| strategy(at, faults));
        faults.not_negative(at, &["minReadySeconds", "revisionHistoryLimit"]);
        if let Some(deadline) = at.number("progressDeadlineSeconds") {
            faults.not_negative(at, &["progressDeadlineSeconds"]);
            if deadline <= at.number("minReadySeconds").unwrap_or_default() {
                let why = "must be greater than minReadySeconds";
                faults.invalid(at.path("progressDeadlineSeconds"), &deadline.into(), why);
            }
        }
    });
}

fn strategy(at: At<'_>, faults: &mut Faults) {
    match at.text("type") {
        "Recreate" => {
            if at.get("rollingUpdate").is_some() {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                faults.forbidden(at.path("rollingUpdate"), why);
            }
        }
        "RollingUpdate" => match at.get("rollingUpdate") {
            None => faults.required(
                at.path("rollingUpdate"),
                "this should be defaulted and never be nil",
            ),
            Some(_) => at.inner("rollingUpdate", |at| rolling_update(at, faults)),
        },
        _ => faults.add(FieldError::not_supported(
            at.path,
            &in_go(
                at.value,
                &[("type", "Type"), ("rollingUpdate", "RollingUpdate")],
            ),
            ["Recreate", "RollingUpdate"],
        )),
    }
}

fn rolling_update(at: At<'_>, faults: &mut Faults) {
    faults.share(at, "maxUnavailable");
    faults.share(at, "maxSurge");
    if is_zero_or_unset(at.get("maxUnavailable")) && is_zero_or_unset(at.get("maxSurge")) {
        let value = at.get("maxUnavailable").cloned().unwrap_or_default();
        let why = "may not be 0 when `maxSurge` is 0";
        faults.invalid(at.path("maxUnavailable"), &value, why);
    }
    faults.not_above_all(at, "maxUnavailable");
}

/// Whether a number or a percentage is zero or not set.
fn is_zero_or_unset(value: Option<&Value>) -> bool {
    match value {
        None => true,
        Some(Value::String(text)) => {
            let number = || text.parse().unwrap_or_default();
            super::percent(text).unwrap_or_else(number) == 0
        }
        Some(value) => value.as_i64() == Some(0),
    }
}

pub(super) fn replica_set(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        faults.not_negative(at, &["replicas", "minReadySeconds"]);
        selector_and_template(at, "deployment", faults);
    });
}

pub(super) fn replication_controller(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        faults.not_negative(at, &["replicas", "minReadySeconds"]);
        let labels = at.map("selector");
        if labels.is_none_or(serde_json::Map::is_empty) {
            faults.required(at.path("selector"), "");
        }
        if at.get("template").is_none() {
            faults.required(at.path("template"), "");
            return;
        }
        let own = at.value.pointer("/template/metadata/labels");
        let is_own =
            |(key, value): (&String, &Value)| own.and_then(|own| own.get(key)) == Some(value);
        if !labels.into_iter().flatten().all(is_own) {
            let why = "`selector` does not match template `labels`";
            let path = at.path("template.metadata.labels");
            faults.invalid(path, own.unwrap_or(&Value::Null), why);
        }
        template(at, "ReplicationController", faults);
    });
}

pub(super) fn stateful_set(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        let policy = at.text("podManagementPolicy");
        if !matches!(policy, "OrderedReady" | "Parallel") {
            let why = "must be 'OrderedReady' or 'Parallel'";
            faults.invalid(at.path("podManagementPolicy"), &policy.into(), why);
        }
        at.inner("updateStrategy", |at| match at.text("type") {
            "OnDelete" => {
                if let Some(rolling) = at.get("rollingUpdate") {
                    let value = in_go(
                        rolling,
                        &[
                            ("partition", "Partition"),
                            ("maxUnavailable", "MaxUnavailable"),
                        ],
                    );
                    let value = merged(&json!({ "Partition": 0 }), value);
                    let why = "only allowed for updateStrategy 'RollingUpdate'";
                    faults.invalid(at.path("rollingUpdate"), &value, why);
                }
            }
            "RollingUpdate" => at.inner("rollingUpdate", |at| {
                faults.not_negative(at, &["partition"]);
            }),
            _ => {
                let value = in_go(
                    at.value,
                    &[("type", "Type"), ("rollingUpdate", "RollingUpdate")],
                );
                faults.invalid(at.path, &value, "must be 'RollingUpdate' or 'OnDelete'");
            }
        });
        at.inner("persistentVolumeClaimRetentionPolicy", |at| {
            for field in ["whenDeleted", "whenScaled"] {
                faults.must_be_one_of(at, field, &["Retain", "Delete"]);
            }
        });
        faults.not_negative(at, &["replicas", "minReadySeconds"]);
        at.inner("ordinals", |at| faults.not_negative(at, &["start"]));
        let selector = at.get("selector");
        let mut is_selector = true;
        match selector {
            None => faults.required(at.path("selector"), ""),
            Some(value) => {
                at.inner("selector", |at| is_selector = selector::check(at, faults));
                if selector::is_empty(value) {
                    let why = "empty selector is invalid for statefulset";
                    faults.invalid(at.path("selector"), value, why);
                }
                if !is_selector {
                    faults.invalid(at.path("selector"), value, "");
                }
            }
        }
        if is_selector {
            if selector.is_none_or(|it| !selector::is_empty(it)) {
                must_match(at, selector, faults);
            }
            let pods = with_claims(at);
            let path = at.path("template");
            let template = At {
                value: &pods,
                path: &path,
            };
            pod::template(template, faults);
        }
        must_restart_always(at, "StatefulSet", faults);
    });
}

/// Additional rules for new stateful sets.
pub(super) fn new_stateful_set(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        at.each("volumeClaimTemplates", |at| storage::claim(at, faults));
        faults.follows(at, "serviceName", syntax::label);
    });
}

/// The template of a stateful set as its controller uses it: with one volume for each claim.
fn with_claims(at: At<'_>) -> Value {
    let mut template = at.value["template"].clone();
    let name = |object: &Value| object["name"].as_str().unwrap_or_default().to_owned();
    let claims = at.list("volumeClaimTemplates").iter();
    let claims: BTreeSet<_> = claims.map(|claim| name(&claim["metadata"])).collect();
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        // The controller sets both fields.
        for field in ["subdomain", "hostname"] {
            spec.remove(field);
        }
        if !claims.is_empty() {
            let volumes = spec.get("volumes").and_then(Value::as_array);
            let others = volumes.into_iter().flatten();
            let others = others.filter(|volume| !claims.contains(&name(volume)));
            let claimed = claims.iter().map(
                |name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } }),
            );
            let volumes = claimed.chain(others.cloned()).collect();
            spec.insert("volumes".to_owned(), Value::Array(volumes));
        }
    }
    template
}

pub(super) fn daemon_set(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        let selector = at.get("selector");
        let mut is_selector = true;
        if let Some(value) = selector {
            at.inner("selector", |at| is_selector = selector::check(at, faults));
            if selector::is_empty(value) {
                let why = "empty selector is invalid for daemonset";
                faults.invalid(at.path("selector"), value, why);
            }
        }
        if is_selector {
            must_match(at, selector, faults);
        }
        template(at, "DaemonSet", faults);
        faults.not_negative(at, &["minReadySeconds"]);
        at.inner("updateStrategy", |at| {
            if !matches!(at.text("type"), "RollingUpdate" | "OnDelete") {
                faults.add(FieldError::not_supported(
                    at.path,
                    &in_go(
                        at.value,
                        &[("type", "Type"), ("rollingUpdate", "RollingUpdate")],
                    ),
                    ["RollingUpdate", "OnDelete"],
                ));
            } else if at.text("type") == "RollingUpdate" {
                at.inner("rollingUpdate", |at| rolling_daemons(at, faults));
            }
        });
        faults.not_negative(at, &["revisionHistoryLimit"]);
    });
}

/// The rolling update of a daemon set: either `maxSurge` or `maxUnavailable` must be set.
fn rolling_daemons(at: At<'_>, faults: &mut Faults) {
    for field in ["maxUnavailable", "maxSurge"] {
        faults.share(at, field);
        faults.not_above_all(at, field);
    }
    let is_set = |field: &str| !is_zero_or_unset(at.get(field));
    match (is_set("maxUnavailable"), is_set("maxSurge")) {
        (true, true) => {
            let why = "may not be set when maxUnavailable is non-zero";
            faults.invalid(at.path("maxSurge"), &at.value["maxSurge"], why);
        }
        (false, false) => {
            let why = "cannot be 0 when maxSurge is 0";
            faults.required(at.path("maxUnavailable"), why);
        }
        _ => {}
    }
}

/// The selector of a workload, and its template, whose labels must match.
fn selector_and_template(at: At<'_>, what: &str, faults: &mut Faults) {
    let found = at.get("selector");
    let mut is_selector = true;
    match found {
        None => faults.required(at.path("selector"), ""),
        Some(value) => {
            at.inner("selector", |at| is_selector = selector::check(at, faults));
            if is_selector && selector::is_empty(value) {
                let why = format!("empty selector is invalid for {what}");
                faults.invalid(at.path("selector"), value, why);
                is_selector = false;
                // An empty selector needs no check against the labels.
            } else if !is_selector {
                faults.invalid(at.path("selector"), value, "invalid label selector");
            }
        }
    }
    if is_selector {
        must_match(at, found, faults);
    }
    template(at, "ReplicaSet", faults);
}

fn must_match(at: At<'_>, selector: Option<&Value>, faults: &mut Faults) {
    let labels = at.value.pointer("/template/metadata/labels");
    let selects = !selector.is_some_and(selector::is_empty);
    if selects && !selector::matches(selector, labels) || selector.is_none() {
        let why = "`selector` does not match template `labels`";
        let path = at.path("template.metadata.labels");
        faults.invalid(path, labels.unwrap_or(&Value::Null), why);
    }
}

/// The template of pods that restart forever. `kind` is the kind in error messages.
fn template(at: At<'_>, kind: &str, faults: &mut Faults) {
    at.inner("template", |at| pod::template(at, faults));
    must_restart_always(at, kind, faults);
}

/// Rejects fields that only pods that terminate can have.
fn must_restart_always(at: At<'_>, kind: &str, faults: &mut Faults) {
    at.inner("template", |at| {
        at.inner("spec", |at| {
            let policy = at.text("restartPolicy");
            if policy != "Always" {
                let known = ["Always"];
                let path = at.path("restartPolicy");
                faults.add(FieldError::not_supported(path, &policy.into(), known));
            }
            if at.get("activeDeadlineSeconds").is_some() {
                let why = format!("activeDeadlineSeconds in {kind} is not Supported");
                faults.forbidden(at.path("activeDeadlineSeconds"), &why);
            }
        });
    });
}

/// Converts an object to the Go names of its fields, which some error messages of Kubernetes show.
fn in_go(value: &Value, names: &[(&str, &str)]) -> Value {
    let members = names.iter().map(|(name, go)| {
        let value = value.get(*name).cloned().unwrap_or_default();
        ((*go).to_owned(), value)
    });
    Value::Object(members.collect())
}

/// Merges two objects. The members of `value` have priority.
fn merged(defaults: &Value, mut value: Value) -> Value {
    for (name, default) in defaults.as_object().into_iter().flatten() {
        if value[name].is_null() {
            value[name] = default.clone();
        }
    }
    value
}
