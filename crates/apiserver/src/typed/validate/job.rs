//! Jobs and cron jobs.

use serde_json::Value;

use super::{At, Faults, cron, pod, selector};
use crate::metadata::syntax;
use crate::status::{FieldError, FieldErrorKind};

/// The maximum parallelism of an indexed job.
const MAX_PARALLEL: i64 = 100_000;

pub(super) fn job(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        let labels = at.value.pointer("/template/metadata/labels");
        let is_manual = at.get("manualSelector") == Some(&Value::Bool(true));
        if at.get("selector").is_some() && !is_manual {
            job_labels(root.value, at, labels, faults);
        }
        selecting_spec(at, faults);
    });
}

/// The spec of a job, with its pod selector.
pub(super) fn selecting_spec(at: At<'_>, faults: &mut Faults) {
    job_spec(at, faults);
    let selector = at.get("selector");
    let labels = at.value.pointer("/template/metadata/labels");
    match selector {
        None => faults.required(at.path("selector"), ""),
        Some(_) => at.inner("selector", |at| _ = selector::check(at, faults)),
    }
    if !selector::matches(selector, labels) {
        let why = "`selector` does not match template `labels`";
        let path = at.path("template.metadata.labels");
        faults.invalid(path, labels.unwrap_or(&Value::Null), why);
    }
}

/// The labels that the controller gives the pods of a job, which its selector must match.
fn job_labels(job: &Value, at: At<'_>, labels: Option<&Value>, faults: &mut Faults) {
    let metadata = |field: &str| job["metadata"][field].as_str().unwrap_or_default();
    let path = at.path("template.metadata.labels");
    let mut expected = serde_json::Map::new();
    for (key, wanted) in [
        ("controller-uid", "uid"),
        ("batch.kubernetes.io/controller-uid", "uid"),
        ("job-name", "name"),
        ("batch.kubernetes.io/job-name", "name"),
    ] {
        let wanted = metadata(wanted);
        expected.insert(key.to_owned(), wanted.into());
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
    if !selector::matches(selector, Some(&expected.into())) {
        let value = selector.unwrap_or(&Value::Null);
        faults.invalid(at.path("selector"), value, "`selector` not auto-generated");
    }
}

pub(super) fn cron_job(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        faults.needs_valid(at, "schedule", cron::schedule);
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

/// Additional rules for new indexed jobs: the job name with an index is a host name of a pod.
pub(super) fn new_job(root: At<'_>, faults: &mut Faults) {
    let name = root.value["metadata"]["name"].as_str().unwrap_or_default();
    root.inner("spec", |at| {
        let completions = at.number("completions").unwrap_or_default();
        if at.text("completionMode") != "Indexed" || completions <= 0 {
            return;
        }
        let host = format!("{name}-{}", completions - 1);
        if syntax::label(&host).is_some() {
            let why = format!("will not able to create pod with invalid DNS label: {host}");
            faults.invalid("metadata.name", &name.into(), why);
        }
    });
}

/// Additional rules for new cron jobs.
pub(super) fn new_cron_job(root: At<'_>, faults: &mut Faults) {
    let name = root.value["metadata"]["name"].as_str().unwrap_or_default();
    // The controller adds 11 characters to the name, and the limit of a job's name is 63.
    if name.len() > 52 {
        let why = "must be no more than 52 characters";
        faults.invalid("metadata.name", &name.into(), why);
    }
    root.inner("spec", |at| {
        let schedule = at.text("schedule");
        if schedule.contains("TZ") {
            let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            faults.invalid(at.path("schedule"), &schedule.into(), why);
        }
        if at.get("timeZone").is_some() {
            faults.must_follow(at, "timeZone", time_zone);
        }
    });
}

/// The errors of the name of a time zone.
fn time_zone(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let is_part = |part: &str| {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
        !matches!(part, "" | "." | "..") && !part.starts_with('-') && part.bytes().all(is_known)
    };
    let unknown = format!("unknown time zone {name}");
    if !name.split('/').all(is_part) {
        return vec![unknown];
    }
    let mut wrong = Vec::new();
    if name.eq_ignore_ascii_case("local") {
        let why = "timeZone must be an explicit time zone as defined in \
                   https://www.iana.org/time-zones";
        wrong.push(why.to_owned());
    }
    let zones = jiff::tz::db();
    // Without a database of time zones on this machine, no name can be rejected. Go accepts one
    // additional name.
    let is_known = name == "Local"
        || zones.is_definitively_empty()
        || zones
            .get(name)
            .is_ok_and(|zone| zone.iana_name() == Some(name));
    if !is_known {
        wrong.push(unknown);
    }
    wrong
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
            "backoffLimitPerIndex",
            "maxFailedIndexes",
        ],
    );
    if at.get("maxFailedIndexes").is_some() && at.get("backoffLimitPerIndex").is_none() {
        let why = "when maxFailedIndexes is specified";
        faults.required(at.path("backoffLimitPerIndex"), why);
    }
    faults.must_be_one_of(at, "completionMode", &["NonIndexed", "Indexed"]);
    let mode = at.get("completionMode").and_then(Value::as_str);
    if mode == Some("Indexed") {
        indexed(at, faults);
    } else {
        // These fields are accepted with an unknown mode, which has its own error.
        if mode.is_none_or(|mode| mode == "NonIndexed") {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = at.get(field) {
                    faults.invalid(at.path(field), number, "requires indexed completion mode");
                }
            }
        }
        at.inner("successPolicy", |at| {
            faults.invalid(at.path, at.value, "requires indexed completion mode");
        });
    }
    let replacements: &[&str] = if at.get("podFailurePolicy").is_some() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    faults.must_be_one_of(at, "podReplacementPolicy", replacements);
    at.inner("template", |template| {
        pod::template(template, faults);
        template.inner("spec", |pod| match pod.text("restartPolicy") {
            "OnFailure" if at.get("podFailurePolicy").is_some() => {
                let why = "only \"Never\" is supported when podFailurePolicy is specified";
                faults.invalid(pod.path("restartPolicy"), &"OnFailure".into(), why);
            }
            "OnFailure" | "Never" => {}
            "" | "Always" => {
                let why = "valid values: \"OnFailure\", \"Never\"";
                faults.required(pod.path("restartPolicy"), why);
            }
            _ => faults.one_of(pod, "restartPolicy", &["OnFailure", "Never"]),
        });
    });
    let containers = ["/template/spec/containers", "/template/spec/initContainers"];
    let lists = containers.map(|list| at.value.pointer(list).and_then(Value::as_array));
    let containers = lists.into_iter().flatten().flatten();
    let names: Vec<_> = containers.filter_map(|it| it["name"].as_str()).collect();
    let has_indexes = at.get("backoffLimitPerIndex").is_some();
    at.inner("podFailurePolicy", |at| {
        at.each("rules", |at| failure_rule(at, has_indexes, &names, faults));
    });
}

/// The spec of an indexed job.
fn indexed(at: At<'_>, faults: &mut Faults) {
    let (completions, failed) = (at.number("completions"), at.number("maxFailedIndexes"));
    if completions.is_none() {
        let why = "when completion mode is Indexed";
        faults.required(at.path("completions"), why);
    }
    if let Some(number) = at.number("parallelism").filter(|it| *it > MAX_PARALLEL) {
        let why = "must be less than or equal to 100000 when completion mode is Indexed";
        faults.invalid(at.path("parallelism"), &number.into(), why);
    }
    if let (Some(completions), Some(failed)) = (completions, failed)
        && failed > completions
    {
        let why = "must be less than or equal to completions";
        faults.invalid(at.path("maxFailedIndexes"), &failed.into(), why);
    }
}

/// The pod failure policy of a job.
fn failure_rule(at: At<'_>, has_indexes: bool, containers: &[&str], faults: &mut Faults) {
    let action = at.text("action");
    if action.is_empty() {
        let why = "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]";
        faults.required(at.path("action"), why);
    } else if action == "FailIndex" && !has_indexes {
        let why = "requires the backoffLimitPerIndex to be set";
        faults.invalid(at.path("action"), &action.into(), why);
    }
    faults.one_of(at, "action", &["Count", "FailIndex", "FailJob", "Ignore"]);
    at.inner("onExitCodes", |at| exit_codes(at, containers, faults));
    at.each("onPodConditions", |at| {
        faults.qualified(at.path("type"), at.text("type"));
        faults.one_of(at, "status", &["False", "True", "Unknown"]);
    });
    let has_codes = at.get("onExitCodes").is_some();
    let has_conditions = !at.list("onPodConditions").is_empty();
    let why = match (has_codes, has_conditions) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    faults.add(FieldError {
        path: at.path.to_owned(),
        // The real server's error does not show the value.
        kind: FieldErrorKind::Invalid {
            value: String::new(),
        },
        detail: why.to_owned(),
    });
}

fn exit_codes(at: At<'_>, containers: &[&str], faults: &mut Faults) {
    if at.text("operator").is_empty() {
        faults.required(at.path("operator"), "valid values: [\"In\" \"NotIn\"]");
    }
    faults.one_of(at, "operator", &["In", "NotIn"]);
    let container = at.text("containerName");
    if at.get("containerName").is_some() && !containers.contains(&container) {
        let why = "must be one of the container or initContainer names in the pod template";
        faults.invalid(at.path("containerName"), &container.into(), why);
    }
    let values = at.list("values");
    let path = at.path("values");
    if values.is_empty() {
        faults.invalid(
            path.as_str(),
            &values.into(),
            "at least one value is required",
        );
    }
    for (number, value) in values.iter().enumerate() {
        let path = format!("{path}[{number}]");
        if at.text("operator") == "In" && value.as_i64() == Some(0) {
            faults.invalid(path.as_str(), value, "must not be 0 for the In operator");
        }
        if values[..number].contains(value) {
            faults.add(FieldError::duplicate(path, value));
        }
    }
    if !values.is_sorted_by_key(Value::as_i64) {
        faults.invalid(path, &values.into(), "must be ordered");
    }
}
