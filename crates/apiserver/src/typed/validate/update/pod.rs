//! Rules for updates of pods.

use serde_json::Value;

use super::super::Faults;
use super::without;

pub(super) fn pod(before: &Value, after: &Value, faults: &mut Faults) {
    const WHY: &str = "pod updates may not change fields other than \
        `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
        `spec.tolerations` (only additions to existing \
        tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
        previously negative)";

    let old_deadline = before["spec"]["activeDeadlineSeconds"].as_i64();
    let deadline = after["spec"]["activeDeadlineSeconds"].as_i64();
    match (old_deadline, deadline) {
        (Some(_), None) => faults.invalid(
            "spec.activeDeadlineSeconds",
            &Value::Null,
            "must not update from a positive integer to nil value",
        ),
        (Some(old), Some(new)) if new > old => faults.invalid(
            "spec.activeDeadlineSeconds",
            &new.into(),
            "must be less than or equal to previous value",
        ),
        _ => {}
    }
    let count = |object: &Value, list: &str| object["spec"][list].as_array().map_or(0, Vec::len);
    for list in ["containers", "initContainers"] {
        if count(before, list) != count(after, list) {
            let why = "pod updates may not add or remove containers";
            faults.forbidden(format!("spec.{list}"), why);
            return;
        }
    }
    if !keeps_tolerations(before, after) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        faults.forbidden("spec.tolerations", why);
    }
    let gates = |object: &Value| {
        let gates = object["spec"]["schedulingGates"].as_array();
        let gates = gates.cloned().unwrap_or_default().into_iter();
        gates
            .map(|gate| gate["name"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let old_gates = gates(before);
    for (at, gate) in gates(after).iter().enumerate() {
        if !old_gates.contains(gate) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
            faults.forbidden(format!("spec.schedulingGates[{at}].name"), &why);
        }
    }
    let fixed = |object: &Value| {
        let free = ["activeDeadlineSeconds", "tolerations", "schedulingGates"];
        let mut spec = without(object, &free);
        if spec["terminationGracePeriodSeconds"]
            .as_i64()
            .is_some_and(|it| it < 0)
        {
            spec["terminationGracePeriodSeconds"] = 1.into();
        }
        for list in ["containers", "initContainers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                container.as_object_mut().map(|it| it.remove("image"));
            }
        }
        // Kubernetes lets a pod with scheduling gates gain a node affinity. This server does not.
        spec
    };
    if fixed(before) != fixed(after) {
        faults.forbidden("spec", WHY);
    }
}

/// Whether each old toleration still exists. Its `tolerationSeconds` can change.
fn keeps_tolerations(before: &Value, after: &Value) -> bool {
    let of = |pod: &Value| {
        let tolerations = pod["spec"]["tolerations"].as_array();
        let mut tolerations = tolerations.cloned().unwrap_or_default();
        for toleration in tolerations.iter_mut().filter_map(Value::as_object_mut) {
            toleration.remove("tolerationSeconds");
        }
        tolerations
    };
    let new = of(after);
    of(before).iter().all(|old| new.contains(old))
}
