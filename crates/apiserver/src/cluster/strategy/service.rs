//! The allocated fields of a service: which ones it needs, and which ones an update keeps.

use serde_json::{Map, Value};

use crate::typed;

/// Whether a service has a cluster IP.
pub(super) fn needs_address(service: &Value) -> bool {
    service["spec"]["type"] != "ExternalName"
}

/// Whether a service has node ports.
pub(super) fn needs_ports(service: &Value) -> bool {
    let spec = &service["spec"];
    spec["type"] == "NodePort"
        || spec["type"] == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false
}

/// Whether a service has a health check port on the nodes.
pub(super) fn needs_probe(service: &Value) -> bool {
    let spec = &service["spec"];
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// Copies the allocated values that an update omits, and drops old values that the new type does
/// not need.
pub(super) fn keep_allocated(before: &Value, service: &mut Value) {
    let address = (needs_address(before), needs_address(service));
    let node_ports = (needs_ports(before), needs_ports(service));
    let probe = (needs_probe(before), needs_probe(service));
    let is_balanced = |service: &Value| service["spec"]["type"] == "LoadBalancer";
    let drops_balancer = is_balanced(before) && !is_balanced(service);
    let [was_external, is_external] = [before, service].map(|it| typed::is_external(&it["spec"]));
    let drops_policy = was_external && !is_external;
    let old = before["spec"].as_object();
    let (Some(old), Some(spec)) = (old, service["spec"].as_object_mut()) else {
        return;
    };
    if address == (true, true) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            keep(old, spec, field);
        }
        // If only the first address changes, the list follows it.
        let is_same = |field: &str| old.get(field) == spec.get(field);
        if !is_same("clusterIP") && is_same("clusterIPs") {
            let address = spec.get("clusterIP").cloned().into_iter().collect();
            spec.insert("clusterIPs".to_owned(), Value::Array(address));
        }
    } else if address == (true, false) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            drop_same(old, spec, field);
        }
    }
    if probe == (true, true) {
        keep(old, spec, "healthCheckNodePort");
    } else if probe == (true, false) {
        drop_same(old, spec, "healthCheckNodePort");
    }
    if drops_balancer {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            drop_same(old, spec, field);
        }
    }
    if drops_policy {
        drop_same(old, spec, "externalTrafficPolicy");
    }
    let old_ports = old.get("ports").and_then(Value::as_array);
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        let same =
            |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        let number = old_ports
            .and_then(|ports| ports.iter().find(same))
            .and_then(|old| old.get("nodePort"))
            .cloned();
        let (Some(number), Some(port)) = (number, port.as_object_mut()) else {
            continue;
        };
        if node_ports == (true, true) {
            port.entry("nodePort").or_insert(number);
        } else if node_ports == (true, false) && port.get("nodePort") == Some(&number) {
            port.remove("nodePort");
        }
    }
}

fn keep(old: &Map<String, Value>, spec: &mut Map<String, Value>, field: &str) {
    if let Some(value) = old.get(field)
        && !spec.contains_key(field)
    {
        spec.insert(field.to_owned(), value.clone());
    }
}

fn drop_same(old: &Map<String, Value>, spec: &mut Map<String, Value>, field: &str) {
    if old.get(field) == spec.get(field) {
        spec.remove(field);
    }
}
