//! Services.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{At, Faults, container};
use crate::metadata::syntax;
use crate::status::FieldError;

pub(super) fn service(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        // The real server looks at the addresses first, and at nothing else if one is none.
        if has_addresses(root.value) {
            spec(at, faults);
        } else {
            faults.address(
                "spec.clusterIPs[0]".to_owned(),
                &at.text("clusterIP").into(),
            );
        }
    });
}

/// Whether the address of a service is one, or none is needed.
pub(super) fn has_addresses(service: &Value) -> bool {
    let spec = &service["spec"];
    let address = spec["clusterIP"].as_str().unwrap_or_default();
    matches!(address, "" | "None")
        || spec["type"] == "ExternalName"
        || address.parse::<std::net::IpAddr>().is_ok()
}

fn spec(at: At<'_>, faults: &mut Faults) {
    let kind = at.text("type");
    let is_headless = at.text("clusterIP") == "None";
    let ports = at.list("ports");
    if ports.is_empty() && !is_headless && kind != "ExternalName" {
        faults.required(at.path("ports"), "");
    }
    if kind == "ExternalName" {
        if !at.text("clusterIP").is_empty() {
            let why = "may not be set when `type` is 'ExternalName'";
            faults.forbidden(at.path("clusterIPs"), why);
        }
        if faults.needs(at, "externalName") {
            faults.follows(at, "externalName", |name| {
                syntax::subdomain(name.strip_suffix('.').unwrap_or(name))
            });
        }
    }
    let mut names = BTreeSet::new();
    let many = ports.len() > 1;
    at.each("ports", |at| port(at, many, kind, &mut names, faults));
    faults.labels(at, "selector");
    faults.one_of(at, "sessionAffinity", &["ClientIP", "None"]);
    for (number, address) in at.list("externalIPs").iter().enumerate() {
        faults.address(format!("{}[{number}]", at.path("externalIPs")), address);
    }
    faults.one_of(
        at,
        "type",
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    );
    let is_known = matches!(
        kind,
        "ClusterIP" | "ExternalName" | "LoadBalancer" | "NodePort"
    );
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if is_known && at.get(field).is_some() && kind != "LoadBalancer" {
            let why = "may only be used when `type` is 'LoadBalancer'";
            faults.forbidden(at.path(field), why);
        }
    }
    if is_headless && matches!(kind, "NodePort" | "LoadBalancer") {
        let why = format!("may not be set to 'None' for {kind} services");
        faults.invalid("spec.clusterIPs[0]", &"None".into(), why);
    }
    if kind == "ExternalName" && at.get("ipFamilyPolicy").is_some() {
        let why = "may not be set for ExternalName services";
        faults.forbidden(at.path("ipFamilyPolicy"), why);
    } else {
        let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        faults.one_of(at, "ipFamilyPolicy", &policies);
    }
    let policy = at.text("externalTrafficPolicy");
    let is_external = matches!(kind, "NodePort" | "LoadBalancer")
        || kind == "ClusterIP" && !at.list("externalIPs").is_empty();
    if !policy.is_empty() && is_known && !is_external {
        let why = "may only be set for externally-accessible services";
        faults.invalid(at.path("externalTrafficPolicy"), &policy.into(), why);
    } else {
        faults.one_of(at, "externalTrafficPolicy", &["Cluster", "Local"]);
    }
    faults.one_of(at, "internalTrafficPolicy", &["Cluster", "Local"]);
}

fn port(at: At<'_>, many: bool, kind: &str, names: &mut BTreeSet<String>, faults: &mut Faults) {
    let name = at.text("name");
    if many && name.is_empty() {
        faults.required(at.path("name"), "");
    } else if !name.is_empty() {
        faults.follows(at, "name", syntax::label);
        if !names.insert(name.to_owned()) {
            faults.add(FieldError::duplicate(at.path("name"), &name.into()));
        }
    }
    faults.port(at.path("port"), at.get("port").unwrap_or(&Value::Null));
    container::protocol(at, faults);
    if let Some(target) = at.get("targetPort") {
        faults.port_or_name(&at.path("targetPort"), target);
    }
    let node_port = at.number("nodePort").unwrap_or_default();
    if node_port != 0 && kind == "ClusterIP" {
        let why = "may not be used when `type` is 'ClusterIP'";
        faults.forbidden(at.path("nodePort"), why);
    }
}
