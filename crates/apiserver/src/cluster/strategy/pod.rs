//! Fields of a new pod that the server sets: its `QoS` class, its tolerations and its conditions.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::typed::Quantity;

/// Quantities by the name of their resource.
type Amounts = BTreeMap<&'static str, i128>;

/// Sets the initial status of a new pod.
pub(super) fn prepare(pod: &mut Value, now: &str) {
    let mut status = json!({ "phase": "Pending", "qosClass": quality(&pod["spec"]) });
    let gates = pod
        .pointer("/spec/schedulingGates")
        .and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": now,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod["status"] = status;
}

/// Adds the default tolerations: five minutes on a node that is not ready or unreachable.
pub(super) fn tolerate_failing_nodes(spec: &mut Map<String, Value>) {
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else {
        return;
    };
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let is_tolerated = tolerations.iter().any(|toleration| {
            let text = |field: &str| toleration[field].as_str().unwrap_or_default();
            (text("key") == key || text("key").is_empty())
                && (text("effect") == "NoExecute" || text("effect").is_empty())
        });
        if !is_tolerated {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
}

/// The `QoS` class of a pod, which follows from its requests and limits.
pub(in crate::cluster) fn quality(spec: &Value) -> &'static str {
    let own = spec.get("resources");
    let containers: Vec<_> = match own {
        Some(resources) => vec![resources],
        None => ["containers", "initContainers"]
            .into_iter()
            .filter_map(|list| spec.get(list)?.as_array())
            .flatten()
            .map(|container| &container["resources"])
            .collect(),
    };
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut is_limited = true;
    for resources in containers {
        add(&mut requests, &resources["requests"]);
        is_limited &= add(&mut limits, &resources["limits"]) == 2;
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if is_limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds the CPU and memory of `amounts` to `sum`. Returns how many of the two are set.
fn add(sum: &mut Amounts, amounts: &Value) -> usize {
    let mut named = 0;
    for resource in ["cpu", "memory"] {
        let amount = amounts[resource].as_str().map(Quantity::parse);
        if let Some(Ok(amount)) = amount
            && amount.nanos() > 0
        {
            let total = sum.entry(resource).or_default();
            *total = total.saturating_add(amount.nanos());
            named += 1;
        }
    }
    named
}
