//! Defaults of the core group that depend on other fields.

use serde_json::{Map, Value, json};

use super::{
    Members, absent, absent_labels, absent_or_empty, inner, is_latest, is_unset, is_zero,
    template_labels, text,
};

pub(super) fn container(container: &mut Members) {
    let policy = if is_latest(text(container, "image")) {
        "Always"
    } else {
        "IfNotPresent"
    };
    absent_or_empty(container, "imagePullPolicy", policy);
    absent_or_empty(container, "terminationMessagePath", "/dev/termination-log");
    absent_or_empty(container, "terminationMessagePolicy", "File");
}

/// A volume without a source is an `emptyDir`.
pub(super) fn volume(volume: &mut Members) {
    let has_source = volume
        .iter()
        .any(|(field, value)| field != "name" && !value.is_null());
    if !has_source {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    if let Some(Value::Object(image)) = volume.get_mut("image") {
        let policy = if is_latest(text(image, "reference")) {
            "Always"
        } else {
            "IfNotPresent"
        };
        absent_or_empty(image, "pullPolicy", policy);
    }
}

/// Defaults of pods that pod templates do not get.
pub(super) fn pod(pod: &mut Members) {
    let Some(spec) = inner(pod, "spec") else {
        return;
    };
    absent(spec, "enableServiceLinks", true);
    // A negative grace period becomes the minimum.
    let grace = spec.get("terminationGracePeriodSeconds");
    if grace.and_then(Value::as_i64).is_some_and(|it| it < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    let is_on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            request_limits(container);
            if is_on_host {
                open_on_host(container);
            }
        }
    }
}

/// The service account of a pod is in two fields. The newer one has priority.
pub(super) fn service_account(spec: &mut Members) {
    let old = text(spec, "serviceAccount").to_owned();
    if !old.is_empty() {
        absent_or_empty(spec, "serviceAccountName", old);
    }
    let name = spec.get("serviceAccountName").cloned();
    if let Some(name) = name.filter(|name| !is_zero(name)) {
        spec.insert("serviceAccount".to_owned(), name);
    }
}

/// The limit of a resource is the default of its request.
fn request_limits(container: &mut Value) {
    let Some(resources) = container
        .get_mut("resources")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    if let Some(Value::Object(limits)) = resources.get("limits").cloned()
        && let Some(requests) = inner(resources, "requests")
    {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// In the host network, the host port of a container port is the same port.
fn open_on_host(container: &mut Value) {
    let ports = container.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        if let Some(port) = port.as_object_mut()
            && let Some(number) = port.get("containerPort").cloned()
        {
            absent_or_empty(port, "hostPort", number);
        }
    }
}

pub(super) fn service(spec: &mut Members) {
    if text(spec, "sessionAffinity") == "None" {
        spec.remove("sessionAffinityConfig");
    }
    if text(spec, "sessionAffinity") == "ClientIP" {
        let timeout = spec
            .get("sessionAffinityConfig")
            .and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
        if timeout.is_none_or(Value::is_null) {
            let config = json!({ "clientIP": { "timeoutSeconds": 10800 } });
            spec.insert("sessionAffinityConfig".to_owned(), config);
        }
    }
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(port) = port.as_object_mut()
            && let Some(number) = port.get("port").and_then(Value::as_i64)
            // A port of the wrong type is reported at `port`.
            && let Ok(number) = i32::try_from(number)
        {
            absent_or_empty(port, "targetPort", number);
        }
    }
    let kind = text(spec, "type").to_owned();
    let is_external = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || kind == "ClusterIP" && !spec.get("externalIPs").is_none_or(is_zero);
    if is_external {
        absent_or_empty(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        absent(spec, "allocateLoadBalancerNodePorts", true);
    }
}

/// Sets how each address of a load balancer is routed.
pub(super) fn service_addresses(service: &mut Members) {
    let kind = service.get("spec").and_then(|spec| spec.get("type"));
    if kind.and_then(Value::as_str) != Some("LoadBalancer") {
        return;
    }
    let status = service.get_mut("status");
    let addresses = status.and_then(|status| status.pointer_mut("/loadBalancer/ingress"));
    for address in addresses
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(address) = address.as_object_mut()
            && !text(address, "ip").is_empty()
        {
            absent(address, "ipMode", "VIP");
        }
    }
}

/// A replication controller gets the labels of its template as its selector and its labels, unless
/// they are set.
pub(super) fn replication_controller(controller: &mut Members) {
    let Some(labels) = template_labels(controller) else {
        return;
    };
    if let Some(spec) = inner(controller, "spec") {
        absent_or_empty(spec, "selector", labels.clone());
    }
    absent_labels(controller, labels);
}

/// A limit of type `Container`: `default` defaults to `max`, and `defaultRequest` to `default`, or
/// else to `min`.
pub(super) fn limit_range_item(item: &mut Members) {
    if text(item, "type") != "Container" {
        return;
    }
    for (to, from) in [
        ("default", "max"),
        ("defaultRequest", "default"),
        ("defaultRequest", "min"),
    ] {
        let source = item.get(from).and_then(Value::as_object).cloned();
        let source: Map<_, _> = source.unwrap_or_default();
        if let Some(target) = inner(item, to) {
            for (name, value) in source {
                target.entry(name).or_insert(value);
            }
        }
    }
}

/// `allocatable` defaults to `capacity`.
pub(super) fn node_status(status: &mut Members) {
    if is_unset(status, "allocatable")
        && let Some(capacity @ Value::Object(_)) = status.get("capacity").cloned()
    {
        status.insert("allocatable".to_owned(), capacity);
    }
}
