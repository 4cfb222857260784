//! The cells of resource quotas: used and allowed amounts.

use jiff::Timestamp;
use serde_json::Value;

use super::text_at;

pub(in super::super) fn requests(object: &Value, _: Timestamp) -> Value {
    used_of_allowed(object, false)
}

pub(in super::super) fn limits(object: &Value, _: Timestamp) -> Value {
    used_of_allowed(object, true)
}

/// Formats `name: used/allowed` of each resource whose name begins with `limits`, or of all others.
fn used_of_allowed(object: &Value, of_limits: bool) -> Value {
    let allowed = object.pointer("/status/hard").and_then(Value::as_object);
    let names = allowed.into_iter().flatten().map(|(name, _)| name);
    let shown = names
        .filter(|name| name.starts_with("limits") == of_limits)
        .map(|name| {
            let key = name.replace('~', "~0").replace('/', "~1");
            let quantity = |map: &str| {
                text_at(object, &format!("/status/{map}/{key}")).unwrap_or_else(|| "0".to_owned())
            };
            format!("{name}: {}/{}", quantity("used"), quantity("hard"))
        });
    shown.collect::<Vec<_>>().join(", ").into()
}
