//! Services.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{At, Faults, container, network};
use crate::metadata::syntax;
use crate::status::{FieldError, FieldErrorKind};

pub(super) fn service(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        // The real server checks the addresses first, and nothing else if they are invalid.
        if at.text("type") != "ExternalName" {
            addresses(at, faults);
        }
        if faults.0.is_empty() {
            spec(at, faults);
        }
    });
}

/// The addresses of a service and their families.
fn addresses(at: At<'_>, faults: &mut Faults) {
    let (first, path) = (at.text("clusterIP"), at.path("clusterIPs"));
    let first = Some(first).filter(|first| !first.is_empty());
    let sent = at.get("clusterIPs");
    // Missing values follow from the first family.
    let all = match (at.list("clusterIPs"), first) {
        ([], Some(first)) => vec![Value::from(first)],
        (all, _) => all.to_vec(),
    };
    let value = Value::from(all.as_slice());
    if first.is_none() && sent.is_some() {
        let why = "must be empty when `clusterIP` is not specified";
        faults.invalid(path.as_str(), &value, why);
    } else if all.first().and_then(Value::as_str) != first {
        let why = "first value must match `clusterIP`";
        faults.invalid(path.as_str(), &value, why);
    }
    let families = at.list("ipFamilies");
    for (number, family) in families.iter().enumerate() {
        let path = format!("{}[{number}]", at.path("ipFamilies"));
        let known = ["IPv4", "IPv6"];
        if !family
            .as_str()
            .is_some_and(|family| known.contains(&family))
        {
            faults.add(FieldError::not_supported(path.as_str(), family, known));
        }
        if families[..number].contains(family) {
            faults.add(FieldError::duplicate(path, family));
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    faults.must_be_one_of(at, "ipFamilyPolicy", &policies);
    let before = faults.0.len();
    for (number, address) in all.iter().enumerate() {
        if number == 0 && address == "None" {
            if all.len() > 1 {
                let why = "'None' must be the first and only value";
                faults.invalid(path.as_str(), &value, why);
            }
        } else {
            faults.address(format!("{path}[{number}]"), address);
        }
    }
    let are_addresses = faults.0.len() == before;
    if all.len() > 2 {
        faults.invalid(path.as_str(), &value, "may only hold up to 2 values");
    }
    let is_new = |address: &Value| address.as_str().is_some_and(|it| it.contains(':'));
    if are_addresses && all.len() > 1 && is_new(&all[0]) == is_new(&all[1]) {
        let why = "may specify no more than one IP for each IP family";
        faults.invalid(path.as_str(), &value, why);
    }
    if are_addresses && first != Some("None") {
        for (number, (address, family)) in all.iter().zip(families).enumerate() {
            let found = if is_new(address) { "IPv6" } else { "IPv4" };
            if let Some(family) = family.as_str().filter(|family| *family != found) {
                let why =
                    format!("expected an {family} value as indicated by `ipFamilies[{number}]`");
                faults.invalid(format!("{path}[{number}]"), address, why);
            }
        }
    }
}

/// Checks the cluster IP of a service, unless its type needs none.
pub(super) fn has_addresses(service: &Value) -> bool {
    let spec = &service["spec"];
    let address = spec["clusterIP"].as_str().unwrap_or_default();
    matches!(address, "" | "None")
        || spec["type"] == "ExternalName"
        || address.parse::<std::net::IpAddr>().is_ok()
}

/// Whether clients outside of the cluster can reach a service with this spec.
pub(crate) fn is_external(spec: &Value) -> bool {
    let has_addresses = || {
        let addresses = spec["externalIPs"].as_array();
        addresses.is_some_and(|it| !it.is_empty())
    };
    match spec["type"].as_str() {
        Some("NodePort" | "LoadBalancer") => true,
        Some("ClusterIP") => has_addresses(),
        _ => false,
    }
}

fn spec(at: At<'_>, faults: &mut Faults) {
    let kind = at.text("type");
    let is_headless = at.text("clusterIP") == "None";
    let ports = at.list("ports");
    if ports.is_empty() && !is_headless && kind != "ExternalName" {
        faults.required(at.path("ports"), "");
    }
    if kind == "ExternalName" {
        external_name(at, faults);
    }
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    let many = ports.len() > 1;
    at.each("ports", |at| {
        port(at, many, kind, &mut names, faults);
        let (number, protocol) = (at.number("port"), at.text("protocol"));
        if !numbers.insert((number, protocol.to_owned())) {
            // The real server's error shows the Go names of these fields, in another order.
            let value = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\
                 \"NodePort\":0}}",
                Value::from(protocol),
                number.unwrap_or_default(),
            );
            faults.add(FieldError {
                path: at.path.to_owned(),
                kind: FieldErrorKind::Duplicate { value },
                detail: String::new(),
            });
        }
    });
    faults.labels(at, "selector");
    faults.one_of(at, "sessionAffinity", &["ClientIP", "None"]);
    for (number, address) in at.list("externalIPs").iter().enumerate() {
        faults.endpoint(format!("{}[{number}]", at.path("externalIPs")), address);
    }
    faults.one_of(
        at,
        "type",
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    );
    source_ranges(at, faults);
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    faults.must_be_one_of(at, "trafficDistribution", &known);
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if at.get(field).is_some() && kind != "LoadBalancer" {
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
    }
    let policy = at.text("externalTrafficPolicy");
    if !policy.is_empty() && !is_external(at.value) {
        let why = "may only be set for externally-accessible services";
        faults.invalid(at.path("externalTrafficPolicy"), &policy.into(), why);
    } else {
        faults.one_of(at, "externalTrafficPolicy", &["Cluster", "Local"]);
    }
    faults.one_of(at, "internalTrafficPolicy", &["Cluster", "Local"]);
}

/// Checks the name of a service outside of the cluster.
fn external_name(at: At<'_>, faults: &mut Faults) {
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

/// Checks the addresses from which clients can reach a load balancer.
fn source_ranges(at: At<'_>, faults: &mut Faults) {
    let ranges = at.list("loadBalancerSourceRanges");
    // The real server's error path has a capital letter.
    let path = at.path("LoadBalancerSourceRanges");
    if !ranges.is_empty() && at.text("type") != "LoadBalancer" {
        let why = "may only be used when `type` is 'LoadBalancer'";
        faults.forbidden(path.as_str(), why);
    }
    for (number, range) in ranges.iter().enumerate() {
        let text = range.as_str().unwrap_or_default().trim();
        faults.wrong(
            format!("{path}[{number}]"),
            &text.into(),
            network::cidr(text),
        );
    }
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
    faults.follows(at, "appProtocol", syntax::qualified_name);
    let node_port = at.number("nodePort").unwrap_or_default();
    if node_port != 0 && kind == "ClusterIP" {
        let why = "may not be used when `type` is 'ClusterIP'";
        faults.forbidden(at.path("nodePort"), why);
    }
}
