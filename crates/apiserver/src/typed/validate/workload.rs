//! Deployments, sets and jobs.

use serde_json::{Value, json};

use super::{At, Faults, pod, selector};
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
    if is_nothing(at.get("maxUnavailable")) && is_nothing(at.get("maxSurge")) {
        let value = at.get("maxUnavailable").cloned().unwrap_or_default();
        let why = "may not be 0 when `maxSurge` is 0";
        faults.invalid(at.path("maxUnavailable"), &value, why);
    }
    faults.not_above_all(at, "maxUnavailable");
}

/// Whether a number or a share is none.
fn is_nothing(value: Option<&Value>) -> bool {
    match value {
        None => true,
        Some(Value::String(text)) => super::percent(text) == Some(0),
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
        let Some(labels) = at.map("selector").filter(|labels| !labels.is_empty()) else {
            faults.required(at.path("selector"), "");
            return;
        };
        if at.get("template").is_none() {
            faults.required(at.path("template"), "");
            return;
        }
        let own = at.value.pointer("/template/metadata/labels");
        let is_own =
            |(key, value): (&String, &Value)| own.and_then(|own| own.get(key)) == Some(value);
        if !labels.iter().all(is_own) {
            let why = "`selector` does not match template `labels`";
            let path = at.path("template.metadata.labels");
            faults.invalid(path, own.unwrap_or(&Value::Null), why);
        }
        template(at, faults);
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
        faults.not_negative(at, &["replicas", "minReadySeconds"]);
        selector_and_template(at, "statefulset", faults);
    });
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
        template(at, faults);
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
            }
        });
        faults.not_negative(at, &["revisionHistoryLimit"]);
    });
}

/// The selector of a workload, and the template that must have its labels.
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
                // Nothing is left that the labels could fail to match.
            } else if !is_selector {
                faults.invalid(at.path("selector"), value, "invalid label selector");
            }
        }
    }
    if is_selector {
        must_match(at, found, faults);
    }
    template(at, faults);
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

/// The template of pods that run for ever.
fn template(at: At<'_>, faults: &mut Faults) {
    at.inner("template", |at| {
        pod::template(at, faults);
        at.inner("spec", |at| {
            let policy = at.text("restartPolicy");
            if policy != "Always" {
                let known = ["Always"];
                let path = at.path("restartPolicy");
                faults.add(FieldError::not_supported(path, &policy.into(), known));
            }
            if at.get("activeDeadlineSeconds").is_some() {
                let why = "activeDeadlineSeconds in ReplicaSet is not Supported";
                faults.forbidden(at.path("activeDeadlineSeconds"), why);
            }
        });
    });
}

pub(super) fn job(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        job_spec(at, faults);
        if at.get("manualSelector") != Some(&Value::Bool(true)) {
            job_labels(root.value, at, faults);
        }
    });
}

/// The labels that the pods of a job must have, by which it selects them.
fn job_labels(job: &Value, at: At<'_>, faults: &mut Faults) {
    let metadata = |field: &str| job["metadata"][field].as_str().unwrap_or_default();
    let labels = at.value.pointer("/template/metadata/labels");
    let path = at.path("template.metadata.labels");
    for (key, wanted) in [
        ("controller-uid", "uid"),
        ("batch.kubernetes.io/controller-uid", "uid"),
        ("job-name", "name"),
        ("batch.kubernetes.io/job-name", "name"),
    ] {
        let wanted = metadata(wanted);
        let found = labels.and_then(|labels| labels.get(key)?.as_str());
        match found {
            Some(found) if found == wanted => {}
            Some(found) => {
                let why = format!("must be '{wanted}'");
                faults.invalid(format!("{path}[{key}]"), &found.into(), why);
            }
            None => faults.required(format!("{path}[{key}]"), &format!("must be '{wanted}'")),
        }
    }
    let selector = at.get("selector");
    if selector.is_some() && !selector::matches(selector, labels) {
        let why = "`selector` does not match template `labels`";
        faults.invalid(path, labels.unwrap_or(&Value::Null), why);
    }
}

pub(super) fn cron_job(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        if faults.needs(at, "schedule") {
            schedule(at, faults);
        }
        faults.not_negative(at, &["startingDeadlineSeconds"]);
        faults.one_of(at, "concurrencyPolicy", &["Allow", "Forbid", "Replace"]);
        at.inner("jobTemplate", |at| {
            at.inner("spec", |at| job_spec(at, faults));
        });
        faults.not_negative(
            at,
            &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"],
        );
    });
}

fn schedule(at: At<'_>, faults: &mut Faults) {
    let text = at.text("schedule");
    let text = match text.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest,
        _ => text,
    };
    let fields: Vec<_> = text.split_whitespace().collect();
    if !text.starts_with('@') && fields.len() != 5 {
        let why = format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        );
        faults.invalid(at.path("schedule"), &at.text("schedule").into(), why);
    }
}

fn job_spec(at: At<'_>, faults: &mut Faults) {
    faults.not_negative(
        at,
        &[
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
        ],
    );
    faults.one_of(at, "completionMode", &["NonIndexed", "Indexed"]);
    if at.text("completionMode") == "Indexed" && at.get("completions").is_none() {
        let why = "when completion mode is Indexed";
        faults.required(at.path("completions"), why);
    }
    at.inner("template", |at| {
        pod::template(at, faults);
        at.inner("spec", |at| match at.text("restartPolicy") {
            "OnFailure" | "Never" => {}
            "" | "Always" => {
                let why = "valid values: \"OnFailure\", \"Never\"";
                faults.required(at.path("restartPolicy"), why);
            }
            _ => faults.one_of(at, "restartPolicy", &["OnFailure", "Never"]),
        });
    });
    at.inner("podFailurePolicy", |at| {
        at.each("rules", |at| {
            let known = ["Count", "FailIndex", "FailJob", "Ignore"];
            if at.text("action").is_empty() {
                let why = "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]";
                faults.required(at.path("action"), why);
            } else {
                faults.one_of(at, "action", &known);
            }
        });
    });
}

/// An object with the names that its fields have in Go, as some messages show them.
fn in_go(value: &Value, names: &[(&str, &str)]) -> Value {
    let members = names.iter().map(|(name, go)| {
        let value = value.get(*name).cloned().unwrap_or_default();
        ((*go).to_owned(), value)
    });
    Value::Object(members.collect())
}

/// The members of `defaults`, but for those that `value` has.
fn merged(defaults: &Value, mut value: Value) -> Value {
    for (name, default) in defaults.as_object().into_iter().flatten() {
        if value[name].is_null() {
            value[name] = default.clone();
        }
    }
    value
}
