//! Defaults of autoscalers.

use serde_json::{Value, json};

use super::{Members, absent, is_zero};

/// An autoscaler without metrics scales by CPU utilization.
pub(super) fn metrics(spec: &mut Members) {
    if spec.get("metrics").is_none_or(is_zero) {
        let metric = json!([{ "type": "Resource", "resource": {
            "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 },
        }}]);
        spec.insert("metrics".to_owned(), metric);
    }
}

/// Completes scaling rules that are partly set.
pub(super) fn behavior(behavior: &mut Members) {
    let percent = json!({ "type": "Percent", "value": 100, "periodSeconds": 15 });
    let pods = json!({ "type": "Pods", "value": 4, "periodSeconds": 15 });
    let up = json!({
        "stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods, percent],
    });
    let down = json!({ "selectPolicy": "Max", "policies": [percent] });
    for (field, rules) in [("scaleUp", up), ("scaleDown", down)] {
        absent(behavior, field, json!({}));
        if let (Some(Value::Object(object)), Value::Object(rules)) =
            (behavior.get_mut(field), rules)
        {
            for (name, value) in rules {
                absent(object, &name, value);
            }
        }
    }
}
