//! The cells of autoscalers: their target and metrics.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

use super::{NONE, int_at, list_at, str_at, text_at};
use crate::view::View;

/// The maximum number of metrics in a cell. A cell with more metrics ends with their number.
const SHOWN_METRICS: usize = 2;

const UNKNOWN: &str = "<unknown>";

/// The text that Go prints for a missing quantity.
const NIL: &str = "<nil>";

pub(in super::super) fn reference(object: &Value, _: Timestamp) -> Value {
    let kind = str_at(object, "/spec/scaleTargetRef/kind", "");
    format!("{kind}/{}", str_at(object, "/spec/scaleTargetRef/name", "")).into()
}

pub(in super::super) fn targets(object: &Value, _: Timestamp) -> Value {
    let object = with_metrics(object);
    let current = list_at(&object, "/status/currentMetrics");
    let wanted = list_at(&object, "/spec/metrics");
    let shown: Vec<_> = wanted
        .iter()
        .enumerate()
        .take(SHOWN_METRICS)
        .map(|(index, metric)| target(metric, current.get(index)))
        .collect();
    match wanted.len() {
        0 => NONE.into(),
        all if all > SHOWN_METRICS => {
            let more = all - SHOWN_METRICS;
            format!("{} + {more} more...", shown.join(", ")).into()
        }
        _ => shown.join(", ").into(),
    }
}

pub(in super::super) fn min_pods(object: &Value, _: Timestamp) -> Value {
    text_at(object, "/spec/minReplicas")
        .unwrap_or_else(|| "<unset>".to_owned())
        .into()
}

pub(in super::super) fn max_pods(object: &Value, _: Timestamp) -> Value {
    int_at(object, "/spec/maxReplicas").into()
}

pub(in super::super) fn replicas(object: &Value, _: Timestamp) -> Value {
    int_at(object, "/status/currentReplicas").into()
}

/// Formats the metrics of `autoscaling/v1`, which are in other fields and in annotations.
fn with_metrics(object: &Value) -> Cow<'_, Value> {
    if str_at(object, "/apiVersion", "") != "autoscaling/v1" {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    View::Autoscaler.store(&mut object);
    Cow::Owned(object)
}

/// Returns the current and the target value of a metric.
fn target(metric: &Value, current: Option<&Value>) -> String {
    let (field, is_resource) = match str_at(metric, "/type", "") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = metric.get(field).unwrap_or(&Value::Null);
    let current = current
        .and_then(|current| current.get(field))
        .filter(|current| !current.is_null())
        .map(|current| current.get("current").unwrap_or(&Value::Null));
    let value_of = |name: &str| match current {
        None => UNKNOWN.to_owned(),
        Some(current) => text_at(current, name).unwrap_or_else(|| NIL.to_owned()),
    };
    let average = text_at(wanted, "/target/averageValue");
    if is_resource {
        let name = str_at(wanted, "/name", "");
        if let Some(average) = average {
            return format!("{name}: {}/{average}", value_of("/averageValue"));
        }
        let percent = |value: Option<String>| value.map(|value| format!("{value}%"));
        let now = percent(current.and_then(|current| text_at(current, "/averageUtilization")));
        let wanted = percent(text_at(wanted, "/target/averageUtilization"));
        return format!(
            "{name}: {}/{}",
            now.as_deref().unwrap_or(UNKNOWN),
            wanted.as_deref().unwrap_or("<auto>")
        );
    }
    match average {
        Some(average) if field == "pods" => format!("{}/{average}", value_of("/averageValue")),
        Some(average) => {
            let now = current.and_then(|current| text_at(current, "/averageValue"));
            format!("{}/{average} (avg)", now.as_deref().unwrap_or(UNKNOWN))
        }
        None => {
            let wanted = text_at(wanted, "/target/value");
            format!(
                "{}/{}",
                value_of("/value"),
                wanted.as_deref().unwrap_or(NIL)
            )
        }
    }
}
