//! Checks of children: whether one is ready or has failed.

use kube::Resource;
use serde::Serialize;
use serde_json::Value;

/// A check of the newest known state of a child.
pub(super) type Check<C> = Box<dyn Fn(&C) -> bool + Send + Sync>;

/// A check for [`Dependent::ready`](super::Dependent::ready) and
/// [`Dependent::failed`](super::Dependent::failed): the status of the child has a condition of this
/// type with this status, for the current generation if it has an `observedGeneration`.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use serde_json::json;
/// use windlass_controller::has_condition;
///
/// let is_available = has_condition("Available", "True");
/// let conditions = json!([{ "type": "Available", "status": "True" }]);
/// let deployment: Deployment =
///     serde_json::from_value(json!({ "status": { "conditions": conditions } }))?;
/// assert!(is_available(&deployment));
/// assert!(!is_available(&Deployment::default()));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn has_condition<C: Resource + Serialize>(
    condition: impl Into<String>,
    status: impl Into<String>,
) -> impl Fn(&C) -> bool + Send + Sync + 'static {
    let (condition, status) = (condition.into(), status.into());
    move |child: &C| {
        let value = status_of(child);
        let conditions = value.get("conditions").and_then(Value::as_array);
        let is = |it: &&Value| it["type"] == *condition && it["status"] == *status;
        let found = conditions.and_then(|them| them.iter().find(is));
        found.is_some_and(|it| is_observed_in(child, it))
    }
}

/// Whether the status of `child` is not that of an earlier generation.
pub(super) fn is_observed<C: Resource + Serialize>(child: &C) -> bool {
    is_observed_in(child, &status_of(child))
}

fn is_observed_in<C: Resource>(child: &C, status: &Value) -> bool {
    let observed = status.get("observedGeneration").and_then(Value::as_i64);
    observed.is_none_or(|observed| Some(observed) >= child.meta().generation)
}

/// The status of `child`. Null if it has none.
fn status_of<C: Serialize>(child: &C) -> Value {
    let mut value = serde_json::to_value(child).unwrap_or_default();
    value.get_mut("status").map(Value::take).unwrap_or_default()
}
