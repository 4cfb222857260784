//! Converts autoscalers between `autoscaling/v1` and the stored version `v2`.
//!
//! `v1` has one metric, the CPU utilization. It stores the other metrics, the behavior and the
//! conditions in annotations, so that a client that reads and writes `v1` preserves them.
//!
//! Source: `pkg/apis/autoscaling/v1/conversion.go` of Kubernetes 1.36.

use serde_json::{Map, Value, json};

use crate::typed;

/// The annotations, without their common prefix, and the JSON pointers to their content in `v2`.
const ANNOTATIONS: [(&str, &str); 4] = [
    ("metrics", "/spec/metrics"),
    ("behavior", "/spec/behavior"),
    ("current-metrics", "/status/currentMetrics"),
    ("conditions", "/status/conditions"),
];

const PREFIX: &str = "autoscaling.alpha.kubernetes.io/";

/// The fields of each type of metric in `v1`, and their paths in `v2`. `*` is replaced by `target` in
/// the spec and by `current` in the status.
const METRICS: [(&str, &[(&str, &str)]); 5] = [
    (
        "object",
        &[
            ("target", "/describedObject"),
            ("metricName", "/metric/name"),
            ("selector", "/metric/selector"),
            ("*Value", "/*/value"),
            ("averageValue", "/*/averageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name"),
            ("selector", "/metric/selector"),
            ("*AverageValue", "/*/averageValue"),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name"),
            ("*AverageUtilization", "/*/averageUtilization"),
            ("*AverageValue", "/*/averageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name"),
            ("container", "/container"),
            ("*AverageUtilization", "/*/averageUtilization"),
            ("*AverageValue", "/*/averageValue"),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name"),
            ("metricSelector", "/metric/selector"),
            ("*Value", "/*/value"),
            ("*AverageValue", "/*/averageValue"),
        ],
    ),
];

/// Converts an object of `v2` to `v1`.
pub(super) fn present(object: &mut Value) {
    let mut annotations = take_annotations(object);
    for (name, pointer) in ANNOTATIONS {
        let Some(content) = take(object, pointer) else {
            continue;
        };
        let text = match (name, &content) {
            (_, Value::Null) => continue,
            ("metrics", Value::Array(list)) => {
                let percentage = list
                    .iter()
                    .find(|it| is_cpu(it))
                    .map(|cpu| cpu.pointer("/resource/target/averageUtilization").cloned());
                if let Some(Some(percentage)) = percentage {
                    object["spec"]["targetCPUUtilizationPercentage"] = percentage;
                }
                let others = list.iter().filter(|it| {
                    !is_cpu(it) || it.pointer("/resource/target/averageUtilization").is_none()
                });
                others.map(|it| to_old(it, "target")).collect()
            }
            ("current-metrics", Value::Array(list)) => {
                let cpu = list.iter().find(|it| is_cpu(it));
                if let Some(used) =
                    cpu.and_then(|cpu| cpu.pointer("/resource/current/averageUtilization"))
                {
                    object["status"]["currentCPUUtilizationPercentage"] = used.clone();
                }
                list.iter().map(|it| to_old(it, "current")).collect()
            }
            ("behavior", content) => with_case(content, char::to_ascii_uppercase),
            (_, content) => content.clone(),
        };
        if text != json!([]) {
            annotations.insert(format!("{PREFIX}{name}"), text.to_string().into());
        }
    }
    put_annotations(object, annotations);
    // Go does not omit this field of `v1` if it is 0.
    if let Some(Value::Object(status)) = object.get_mut("status") {
        status.entry("currentReplicas").or_insert_with(|| 0.into());
    }
}

/// Changes the case of the first letters of the members of the behavior, because the annotation has
/// the names of the Go fields.
fn with_case(value: &Value, case: fn(&char) -> char) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            let members = members.map(|(name, value)| {
                let mut letters = name.chars();
                let first = letters.next().iter().map(case).collect::<String>();
                (first + letters.as_str(), with_case(value, case))
            });
            Value::Object(members.collect())
        }
        Value::Array(items) => items.iter().map(|item| with_case(item, case)).collect(),
        other => other.clone(),
    }
}

/// Converts an object of `v1` to the stored version `v2`.
pub(super) fn store(object: &mut Value) {
    let annotations = crate::metadata::field(object, "annotations").cloned();
    let kept = take_annotations(object);
    put_annotations(object, kept);
    for (name, pointer) in ANNOTATIONS {
        let text = annotations
            .as_ref()
            .and_then(|all| all.get(format!("{PREFIX}{name}"))?.as_str());
        let content = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let content = content.map(|content| match (name, content) {
            ("metrics", Value::Array(list)) => list.iter().map(|it| to_new(it, "target")).collect(),
            ("current-metrics", Value::Array(list)) => {
                list.iter().map(|it| to_new(it, "current")).collect()
            }
            ("behavior", content) => with_case(&content, char::to_ascii_lowercase),
            (_, content) => content,
        });
        if let Some(content) = content.filter(|it| fits(pointer, it)) {
            put(object, pointer, content);
        }
    }
    if let Some(percentage) = take(object, "/spec/targetCPUUtilizationPercentage")
        && percentage.is_number()
    {
        let cpu = json!({
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "target": { "type": "Utilization", "averageUtilization": percentage },
            },
        });
        match object.pointer_mut("/spec/metrics") {
            Some(Value::Array(list)) => list.push(cpu),
            _ => put(object, "/spec/metrics", json!([cpu])),
        }
    }
    let used = take(object, "/status/currentCPUUtilizationPercentage");
    if let Some(used) = used.filter(Value::is_number)
        && object.pointer("/status/currentMetrics").is_none()
    {
        let cpu = json!({
            "type": "Resource",
            "resource": { "name": "cpu", "current": { "averageUtilization": used } },
        });
        put(object, "/status/currentMetrics", json!([cpu]));
    }
}

/// Returns whether the content of an annotation is valid at `pointer`. kube-apiserver ignores invalid
/// content.
fn fits(pointer: &str, content: &Value) -> bool {
    let mut object = json!({});
    put(&mut object, pointer, content.clone());
    let kind = typed::kind("autoscaling/v2", "HorizontalPodAutoscaler");
    let is_typed = kind.is_some_and(|kind| typed::decode(kind, &mut object).is_ok());
    is_typed && (content.is_array() || content.is_object())
}

fn is_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric.pointer("/resource/name") == Some(&json!("cpu"))
}

/// Converts a metric to `v1`; `which` is `target` or `current`.
fn to_old(metric: &Value, which: &str) -> Value {
    let mut old = json!({ "type": metric["type"] });
    for (kind, fields) in METRICS {
        let Some(source) = metric.get(kind).filter(|it| it.is_object()) else {
            continue;
        };
        let values = fields.iter().filter_map(|(name, pointer)| {
            let value = source.pointer(&pointer.replace('*', which))?;
            Some((name.replace('*', which), value.clone()))
        });
        old[kind] = Value::Object(values.collect());
    }
    old
}

/// Converts a metric to `v2`.
fn to_new(metric: &Value, which: &str) -> Value {
    let mut new = json!({ "type": metric["type"] });
    for (kind, fields) in METRICS {
        let Some(source) = metric.get(kind).filter(|it| it.is_object()) else {
            continue;
        };
        new[kind] = json!({});
        for (name, pointer) in fields {
            if let Some(value) = source.get(name.replace('*', which)) {
                put(&mut new[kind], &pointer.replace('*', which), value.clone());
            }
        }
        if which == "target" {
            let target = &new[kind]["target"];
            let has = |field: &str| target.get(field).is_some();
            let form = if has("averageUtilization") {
                "Utilization"
            } else if has("averageValue") {
                "AverageValue"
            } else {
                "Value"
            };
            put(&mut new[kind], "/target/type", form.into());
        }
    }
    new
}

/// Returns the annotations of an object except those of this module.
fn take_annotations(object: &mut Value) -> Map<String, Value> {
    let Some(Value::Object(mut annotations)) = take(object, "/metadata/annotations") else {
        return Map::new();
    };
    for (name, _) in ANNOTATIONS {
        annotations.remove(&format!("{PREFIX}{name}"));
    }
    annotations
}

fn put_annotations(object: &mut Value, annotations: Map<String, Value>) {
    if !annotations.is_empty() {
        put(object, "/metadata/annotations", annotations.into());
    }
}

/// Removes and returns the value at a JSON pointer.
fn take(object: &mut Value, pointer: &str) -> Option<Value> {
    let (parent, name) = pointer.rsplit_once('/')?;
    object.pointer_mut(parent)?.as_object_mut()?.remove(name)
}

/// Inserts a value at a JSON pointer, and creates missing parent objects.
fn put(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for name in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name];
    }
    *place = value;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{present, store};

    #[test]
    fn a_round_trip_through_the_old_version_changes_no_field() {
        let quantity = json!({ "type": "AverageValue", "averageValue": "1" });
        let metric = json!({ "name": "m", "selector": { "matchLabels": { "a": "b" } } });
        let stored = json!({
            "metadata": { "name": "a", "annotations": { "mine": "x" } },
            "spec": {
                "maxReplicas": 3,
                "behavior": { "scaleDown": { "selectPolicy": "Max" } },
                "metrics": [
                    { "type": "Pods", "pods": { "metric": metric, "target": quantity } },
                    { "type": "External", "external": { "metric": metric,
                        "target": { "type": "Value", "value": "2" } } },
                    { "type": "Object", "object": { "metric": metric,
                        "describedObject": { "kind": "Service", "name": "s" },
                        "target": { "type": "Value", "value": "3" } } },
                    { "type": "ContainerResource", "containerResource": { "name": "cpu",
                        "container": "c", "target": quantity } },
                    { "type": "Resource", "resource": { "name": "cpu",
                        "target": { "type": "Utilization", "averageUtilization": 60 } } },
                ],
            },
            "status": {
                "conditions": [{ "type": "AbleToScale", "status": "True" }],
                "currentReplicas": 1,
                "currentMetrics": [{ "type": "Resource", "resource": { "name": "cpu",
                    "current": { "averageUtilization": 40, "averageValue": "4" } } }],
            },
        });
        let mut shown = stored.clone();
        present(&mut shown);
        assert_eq!(shown["spec"]["targetCPUUtilizationPercentage"], 60);
        assert_eq!(shown["status"]["currentCPUUtilizationPercentage"], 40);
        assert_eq!(shown["spec"].get("metrics"), None);
        let annotations = shown["metadata"]["annotations"].as_object();
        assert_eq!(annotations.map(serde_json::Map::len), Some(5));
        store(&mut shown);
        assert_eq!(shown, stored);
    }

    #[test]
    fn malformed_annotations_are_dropped() {
        let mut object = json!({
            "metadata": { "annotations": {
                "autoscaling.alpha.kubernetes.io/metrics": "{",
                "autoscaling.alpha.kubernetes.io/behavior": "7",
            } },
            "spec": { "maxReplicas": 1 },
        });
        store(&mut object);
        assert_eq!(
            object,
            json!({ "metadata": {}, "spec": { "maxReplicas": 1 } })
        );
    }
}
