//! The cells of services and ingresses: their addresses and ports.

use jiff::Timestamp;
use serde_json::Value;

use super::{NONE, int_at, labels, list_at, str_at, text, workload};

pub(in super::super) fn service_type(object: &Value, _: Timestamp) -> Value {
    text(object, "/spec/type", "")
}

pub(in super::super) fn cluster_ip(object: &Value, _: Timestamp) -> Value {
    text(
        object,
        "/spec/clusterIPs/0",
        str_at(object, "/spec/clusterIP", NONE),
    )
}

pub(in super::super) fn external_ip(object: &Value, _: Timestamp) -> Value {
    let fixed = list_at(object, "/spec/externalIPs")
        .iter()
        .filter_map(Value::as_str);
    let mut addresses: Vec<_> = fixed.collect();
    match str_at(object, "/spec/type", "") {
        "ClusterIP" | "NodePort" if addresses.is_empty() => NONE.into(),
        "ClusterIP" | "NodePort" => addresses.join(",").into(),
        "LoadBalancer" => {
            let mut all = load_balancer(object);
            all.append(&mut addresses);
            if all.is_empty() {
                "<pending>".into()
            } else {
                all.join(",").into()
            }
        }
        "ExternalName" => text(object, "/spec/externalName", ""),
        _ => "<unknown>".into(),
    }
}

fn load_balancer(object: &Value) -> Vec<&str> {
    let ingress = list_at(object, "/status/loadBalancer/ingress").iter();
    let addresses = ingress.map(|entry| str_at(entry, "/ip", str_at(entry, "/hostname", "")));
    let mut addresses: Vec<_> = addresses.filter(|address| !address.is_empty()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

pub(in super::super) fn ports(object: &Value, _: Timestamp) -> Value {
    let ports = list_at(object, "/spec/ports").iter().map(|port| {
        let protocol = str_at(port, "/protocol", "TCP");
        let number = int_at(port, "/port");
        match int_at(port, "/nodePort") {
            0 => format!("{number}/{protocol}"),
            node => format!("{number}:{node}/{protocol}"),
        }
    });
    match ports.collect::<Vec<_>>().join(",") {
        none if none.is_empty() => NONE.into(),
        ports => ports.into(),
    }
}

pub(in super::super) fn service_selector(object: &Value, _: Timestamp) -> Value {
    labels(object, "/spec/selector").into()
}

pub(in super::super) fn hosts(object: &Value, _: Timestamp) -> Value {
    let rules = list_at(object, "/spec/rules")
        .iter()
        .map(|rule| str_at(rule, "/host", ""));
    let hosts: Vec<_> = rules.filter(|host| !host.is_empty()).collect();
    match hosts.as_slice() {
        [] => "*".into(),
        [first, second, third, more @ ..] if !more.is_empty() => {
            format!("{first},{second},{third} + {} more...", more.len()).into()
        }
        hosts => hosts.join(",").into(),
    }
}

pub(in super::super) fn address(object: &Value, _: Timestamp) -> Value {
    load_balancer(object).join(",").into()
}

pub(in super::super) fn ingress_ports(object: &Value, _: Timestamp) -> Value {
    let tls = !list_at(object, "/spec/tls").is_empty();
    let ports = if tls { "80, 443" } else { "80" };
    ports.into()
}

pub(in super::super) fn pod_selector(object: &Value, _: Timestamp) -> Value {
    workload::selector_at(object, "/spec/podSelector").into()
}

pub(in super::super) fn parameters(object: &Value, _: Timestamp) -> Value {
    let Some(parameters) = object.pointer("/spec/parameters") else {
        return NONE.into();
    };
    let kind = str_at(parameters, "/kind", "");
    let name = str_at(parameters, "/name", "");
    match str_at(parameters, "/apiGroup", "") {
        "" => format!("{kind}/{name}").into(),
        group => format!("{kind}.{group}/{name}").into(),
    }
}
