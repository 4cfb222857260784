//! The fields that a runtime class sets in a new pod: overhead, node selector and tolerations.
//!
//! Source: `plugin/pkg/admission/runtimeclass` and `pkg/util/tolerations` of `k8s.io/kubernetes`.

use serde_json::{Map, Value, json};

/// Sets the fields of a pod's `spec` that the runtime class `class` determines; `null` for a pod
/// without a class.
///
/// # Errors
///
/// The message of the 403 for a pod that has other values.
pub(super) fn admit(class: &Value, spec: &mut Map<String, Value>) -> Result<(), String> {
    let overhead = class.pointer("/overhead/podFixed");
    let own = spec
        .get("overhead")
        .filter(|own| own.as_object().is_some_and(|it| !it.is_empty()));
    match (overhead, own) {
        (None, Some(_)) => {
            let message = "pod rejected: Pod Overhead set without corresponding RuntimeClass \
                           defined Overhead";
            return Err(message.to_owned());
        }
        // Quantities are stored in one form.
        (Some(overhead), Some(own)) if overhead != own => {
            let message =
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return Err(message.to_owned());
        }
        (Some(overhead), _) => _ = spec.insert("overhead".to_owned(), overhead.clone()),
        (None, None) => {}
    }
    if let Some(wanted) = class
        .pointer("/scheduling/nodeSelector")
        .and_then(Value::as_object)
    {
        let selector = spec.entry("nodeSelector").or_insert_with(|| json!({}));
        for (key, value) in wanted {
            if let Some(selector) = selector.as_object_mut() {
                if let Some(own) = selector.get(key).filter(|own| *own != value) {
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    return Err(format!(
                        "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; \
                         pod.spec.nodeSelector[{key}] = {}",
                        text(value),
                        text(own)
                    ));
                }
                selector.insert(key.clone(), value.clone());
            }
        }
    }
    let more = class
        .pointer("/scheduling/tolerations")
        .and_then(Value::as_array);
    if let Some(more) = more {
        let own = spec.get("tolerations").and_then(Value::as_array);
        let all: Vec<Value> = own.into_iter().flatten().chain(more).cloned().collect();
        spec.insert("tolerations".to_owned(), merged(&all).into());
    }
    Ok(())
}

/// The tolerations without those that another one includes. Of equal ones, the first stays.
fn merged(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (at, toleration) in all.iter().enumerate() {
        let is_included = merged.iter().any(|other| includes(other, toleration))
            || all[at + 1..]
                .iter()
                .any(|other| other != toleration && includes(other, toleration));
        if !is_included {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Returns whether the toleration `wide` tolerates everything that `narrow` tolerates.
fn includes(wide: &Value, narrow: &Value) -> bool {
    let text = |toleration: &Value, field: &str| {
        let value = toleration[field].as_str();
        value.unwrap_or_default().to_owned()
    };
    let [wide_operator, narrow_operator] = [wide, narrow].map(|it| text(it, "operator"));
    if wide == narrow {
        return true;
    }
    let (key, effect) = (text(wide, "key"), text(wide, "effect"));
    if text(narrow, "key") != key && !(key.is_empty() && wide_operator == "Exists") {
        return false;
    }
    if text(narrow, "effect") != effect && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute"
        && let Some(limit) = wide["tolerationSeconds"].as_i64()
        && narrow["tolerationSeconds"]
            .as_i64()
            .is_none_or(|it| it > limit)
    {
        return false;
    }
    match wide_operator.as_str() {
        "Equal" | "" => narrow_operator == "Equal" && text(narrow, "value") == text(wide, "value"),
        "Exists" => true,
        _ => false,
    }
}
