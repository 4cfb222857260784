//! Defaults of the built-in kinds that are code in Kubernetes, by type.
//!
//! An object gets its defaults before its fields are checked, and before the objects in it get
//! theirs. Values of the wrong type are not changed.
//!
//! Source: the `defaults.go` files of Kubernetes v1.36.3 (`pkg/apis`).

use serde_json::{Map, Value, json};

use super::image::is_latest;

mod autoscaling;
mod core;
mod plain;

use plain::PLAIN;

type Members = Map<String, Value>;

/// The condition under which a default is filled in.
#[derive(Clone, Copy)]
enum If {
    /// The field is absent: it is a pointer in Go.
    Absent,
    /// The field is absent or empty.
    Empty,
}

/// Fills in the defaults of an object of type `name`.
pub(super) fn fill(name: &str, object: &mut Members) {
    let first = PLAIN.partition_point(|(of, ..)| *of < name);
    for (_, field, when, value) in PLAIN[first..].iter().take_while(|(of, ..)| *of == name) {
        let found = object.get(*field).filter(|value| !value.is_null());
        let lacks = match (when, found) {
            (_, None) => true,
            (If::Absent, Some(_)) => false,
            (If::Empty, Some(found)) => is_zero(found),
        };
        if !lacks {
            continue;
        }
        let Ok(value) = serde_json::from_str::<Value>(value) else {
            continue;
        };
        // The decoder rejects an empty value of another type, which therefore must not be replaced.
        let is_of_type = found
            .is_none_or(|found| std::mem::discriminant(found) == std::mem::discriminant(&value));
        if is_of_type {
            object.insert((*field).to_owned(), value);
        }
    }
    match name {
        "apps.v1.DeploymentStrategy" => rolling_update(object, "25%", "25%"),
        "apps.v1.DaemonSetUpdateStrategy" => rolling_update(object, 1, 0),
        "apps.v1.StatefulSetUpdateStrategy" => stateful_strategy(object),
        "apps.v1.StatefulSetSpec" => claim_types(object),
        "autoscaling.v2.HorizontalPodAutoscalerSpec" => autoscaling::metrics(object),
        "autoscaling.v2.HorizontalPodAutoscalerBehavior" => autoscaling::behavior(object),
        "batch.v1.Job" => job_labels(object),
        "core.v1.Container" | "core.v1.EphemeralContainer" => core::container(object),
        "core.v1.LimitRangeItem" => core::limit_range_item(object),
        "core.v1.NodeStatus" => core::node_status(object),
        "core.v1.Pod" => core::pod(object),
        "core.v1.PodSpec" => core::service_account(object),
        "core.v1.ReplicationController" => core::replication_controller(object),
        "core.v1.Service" => core::service_addresses(object),
        "core.v1.ServiceSpec" => core::service(object),
        "core.v1.Volume" => core::volume(object),
        // Kubernetes has removed this field, and still accepts it.
        "discovery.v1.Endpoint" => _ = object.remove("deprecatedTopology"),
        "networking.v1.NetworkPolicySpec" => policy_types(object),
        "resource.v1.ExactDeviceRequest" | "resource.v1.DeviceSubRequest" => device_request(object),
        "rbac.v1.Subject" => subject(object),
        _ => {}
    }
}

fn rolling_update(strategy: &mut Members, unavailable: impl Into<Value>, surge: impl Into<Value>) {
    if text(strategy, "type") != "RollingUpdate" {
        return;
    }
    if let Some(rolling) = inner(strategy, "rollingUpdate") {
        absent(rolling, "maxUnavailable", unavailable);
        absent(rolling, "maxSurge", surge);
    }
}

fn stateful_strategy(strategy: &mut Members) {
    let kind = strategy.get("type");
    if kind.is_none_or(|kind| kind.is_null() || kind == "") {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        absent(strategy, "rollingUpdate", json!({}));
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(Value::Object(rolling)) = strategy.get_mut("rollingUpdate")
    {
        absent(rolling, "partition", 0);
    }
}

/// Sets the type in the templates of volume claims.
fn claim_types(spec: &mut Members) {
    let claims = spec
        .get_mut("volumeClaimTemplates")
        .and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten() {
        if let Some(claim) = claim.as_object_mut() {
            absent_or_empty(claim, "apiVersion", "v1");
            absent_or_empty(claim, "kind", "PersistentVolumeClaim");
        }
    }
}

/// The requested number of devices: one, unless `count` is set.
fn device_request(request: &mut Members) {
    absent_or_empty(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" {
        absent_or_empty(request, "count", 1);
    }
}

/// The labels of the pod template in the `spec` of an object. `None` if one of them is not a
/// string: then the template does not decode, and the error has to name the template.
fn template_labels(object: &Members) -> Option<Value> {
    let spec = object.get("spec")?;
    let labels = spec.pointer("/template/metadata/labels")?;
    let are_texts = labels.as_object()?.values().all(Value::is_string);
    are_texts.then(|| labels.clone())
}

/// Sets the labels of an object without labels.
fn absent_labels(object: &mut Members, labels: Value) {
    if let Some(metadata) = inner(object, "metadata")
        // An empty list is an error, which the decoder of the metadata finds later.
        && metadata
            .get("labels")
            .is_none_or(|sent| is_zero(sent) && !sent.is_array() && !sent.is_string())
    {
        metadata.insert("labels".to_owned(), labels);
    }
}

/// Defaults of a job that the job template of a cron job does not get: its labels are those of its
/// pods, unless it has labels.
fn job_labels(job: &mut Members) {
    if let Some(labels) = template_labels(job) {
        absent_labels(job, labels);
    }
    let Some(spec) = inner(job, "spec") else {
        return;
    };
    if is_unset(spec, "completions") && is_unset(spec, "parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    absent(spec, "parallelism", 1);
    let limit = if is_unset(spec, "backoffLimitPerIndex") {
        6
    } else {
        i32::MAX
    };
    absent(spec, "backoffLimit", limit);
    absent(spec, "completionMode", "NonIndexed");
    absent(spec, "suspend", false);
    let replacement = if is_unset(spec, "podFailurePolicy") {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    absent(spec, "podReplacementPolicy", replacement);
    absent(spec, "manualSelector", false);
}

fn policy_types(policy: &mut Members) {
    if !policy.get("policyTypes").is_none_or(is_zero) {
        return;
    }
    let mut types = vec!["Ingress"];
    if !policy.get("egress").is_none_or(is_zero) {
        types.push("Egress");
    }
    policy.insert("policyTypes".to_owned(), types.into());
}

fn subject(subject: &mut Members) {
    if matches!(text(subject, "kind"), "User" | "Group") && text(subject, "apiGroup").is_empty() {
        absent_or_empty(subject, "apiGroup", "rbac.authorization.k8s.io");
    }
}

/// Whether a field is absent or `null`.
fn is_unset(object: &Members, field: &str) -> bool {
    object.get(field).is_none_or(Value::is_null)
}

/// Whether Go's `omitempty` omits a value.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

fn text<'a>(object: &'a Members, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The object in `field`, created if it is absent. `None` for a value of another type.
fn inner<'a>(object: &'a mut Members, field: &str) -> Option<&'a mut Members> {
    absent(object, field, json!({}));
    object.get_mut(field).and_then(Value::as_object_mut)
}

/// Fills in a field that is absent.
fn absent(object: &mut Members, field: &str, value: impl Into<Value>) {
    if is_unset(object, field) {
        object.insert(field.to_owned(), value.into());
    }
}

/// Fills in a field that is absent or empty.
fn absent_or_empty(object: &mut Members, field: &str, value: impl Into<Value>) {
    if object.get(field).is_none_or(is_zero) {
        object.insert(field.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::named;
    use super::PLAIN;

    #[test]
    fn the_table_is_sorted_and_names_existing_fields() {
        assert!(PLAIN.is_sorted_by_key(|(of, field, ..)| (of, field)));
        for (of, field, _, value) in PLAIN {
            let found = named(of).unwrap_or_else(|| panic!("no type {of}"));
            assert!(found.fields.contains_key(field), "{of}.{field}");
            assert!(
                serde_json::from_str::<serde_json::Value>(value).is_ok(),
                "{value}"
            );
        }
    }
}
