//! Rules for updates of jobs.

use serde_json::Value;

use super::super::{At, Faults};
use super::{IMMUTABLE, same};

pub(super) fn job(before: &Value, after: &Value, faults: &mut Faults) {
    // The real server reports the errors of the spec twice.
    let root = At {
        value: after,
        path: "",
    };
    root.inner("spec", |at| super::super::job::selecting_spec(at, faults));
    if after["spec"]["completionMode"] != "Indexed" {
        same(before, after, &["/spec/completions"], faults);
    }
    same(before, after, &["/spec/selector"], faults);
    let fixed = [
        "/spec/podFailurePolicy",
        "/spec/backoffLimitPerIndex",
        "/spec/managedBy",
        "/spec/successPolicy",
    ];
    same(before, after, &fixed, faults);
    if after["spec"]["completionMode"] == "Indexed" {
        let number = |job: &Value, field: &str| job["spec"][field].clone();
        let (completions, parallelism) =
            (number(after, "completions"), number(after, "parallelism"));
        let has_changed = completions != number(before, "completions");
        if has_changed && !completions.is_null() && completions != parallelism {
            let why = "can only be modified in tandem with spec.parallelism";
            faults.invalid("spec.completions", &completions, why);
        }
    }
    if is_suspended(before) {
        let fixed = |job: &Value| without_scheduling(&job["spec"]["template"]["spec"]);
        if fixed(before) != fixed(after) {
            let spec = &after["spec"]["template"]["spec"];
            faults.invalid("spec.template.spec", spec, IMMUTABLE);
        }
    } else {
        same(before, after, &["/spec/template"], faults);
    }
    same(before, after, &["/spec/completionMode"], faults);
}

/// Whether the template of a job can change: the job is suspended, and has not started or has the
/// condition `Suspended`.
fn is_suspended(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    job["spec"]["suspend"] == true
        && (job["status"]["startTime"].is_null()
            || conditions.any(|it| it["type"] == "Suspended" && it["status"] == "True"))
}

/// The pod spec without the fields that can change while the job is suspended: the scheduling
/// fields, and the resources of containers.
fn without_scheduling(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(spec) = spec.as_object_mut() {
        for field in ["nodeSelector", "tolerations", "schedulingGates"] {
            spec.remove(field);
        }
        if let Some(Value::Object(affinity)) = spec.get_mut("affinity") {
            affinity.remove("nodeAffinity");
            if affinity.is_empty() {
                spec.remove("affinity");
            }
        }
        for list in ["containers", "initContainers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                container.as_object_mut().map(|it| it.remove("resources"));
            }
        }
    }
    spec
}
