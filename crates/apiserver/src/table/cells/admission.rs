//! The cells of webhook configurations and admission policies.

use jiff::Timestamp;
use serde_json::Value;

use super::{list_at, str_at};

pub(in super::super) fn webhooks(object: &Value, _: Timestamp) -> Value {
    list_at(object, "/webhooks").len().into()
}

pub(in super::super) fn validations(object: &Value, _: Timestamp) -> Value {
    list_at(object, "/spec/validations").len().into()
}

pub(in super::super) fn mutations(object: &Value, _: Timestamp) -> Value {
    list_at(object, "/spec/mutations").len().into()
}

pub(in super::super) fn policy_name(object: &Value, _: Timestamp) -> Value {
    str_at(object, "/spec/policyName", "").into()
}

/// Returns the kind of the parameters, as `version/kind`.
pub(in super::super) fn param_kind(object: &Value, _: Timestamp) -> Value {
    let Some(kind) = object.pointer("/spec/paramKind").filter(|it| !it.is_null()) else {
        return "<unset>".into();
    };
    let version = str_at(kind, "/apiVersion", "");
    format!("{version}/{}", str_at(kind, "/kind", "")).into()
}

/// Returns the parameters of a binding: `namespace/name`, or the selector in Go's format.
pub(in super::super) fn param_ref(object: &Value, _: Timestamp) -> Value {
    let Some(reference) = object.pointer("/spec/paramRef").filter(|it| !it.is_null()) else {
        return "<unset>".into();
    };
    match str_at(reference, "/name", "") {
        "" => reference.get("selector").map(selector).unwrap_or_default(),
        name => format!("{}/{name}", str_at(reference, "/namespace", "*")),
    }
    .into()
}

fn selector(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten().map(|(name, value)| {
        let value = value.as_str().unwrap_or_default();
        format!("{name}: {value},")
    });
    let expressions = list_at(selector, "/matchExpressions").iter().map(|it| {
        let key = str_at(it, "/key", "");
        let operator = str_at(it, "/operator", "");
        let values = list_at(it, "/values").iter().filter_map(Value::as_str);
        let values = values.collect::<Vec<_>>().join(" ");
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.collect::<String>(),
        expressions.collect::<String>()
    )
}
