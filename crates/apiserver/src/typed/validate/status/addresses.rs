//! The addresses of load balancers.

use std::net::IpAddr;

use serde_json::Value;

use super::super::{At, Faults};
use crate::metadata::syntax;

pub(super) fn service(after: &Value, old: At<'_>, at: At<'_>, faults: &mut Faults) {
    let is_balanced = after["spec"]["type"] == "LoadBalancer";
    let before = known(old);
    at.inner("loadBalancer", |at| {
        if !is_balanced && !at.list("ingress").is_empty() {
            let why = "may only be used when `spec.type` is 'LoadBalancer'";
            faults.forbidden(at.path("ingress"), why);
            return;
        }
        at.each("ingress", |at| {
            optional(at, &before, faults);
            mode(at, faults);
            hostname(at, faults);
        });
    });
}

pub(super) fn ingress(old: At<'_>, at: At<'_>, faults: &mut Faults) {
    let before = known(old);
    at.inner("loadBalancer", |at| {
        at.each("ingress", |at| {
            optional(at, &before, faults);
            hostname(at, faults);
        });
    });
}

/// The addresses of the old status, which remain valid.
fn known(old: At<'_>) -> Vec<Value> {
    let list = old.value.pointer("/loadBalancer/ingress");
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.get("ip")).cloned().collect()
}

fn optional(at: At<'_>, known: &[Value], faults: &mut Faults) {
    if let Some(address) = at.get("ip").filter(|it| *it != "") {
        strict(at.path("ip"), address, known, faults);
    }
}

fn mode(at: At<'_>, faults: &mut Faults) {
    match (at.text("ip").is_empty(), at.get("ipMode").is_some()) {
        (false, false) => {
            faults.required(at.path("ipMode"), "must be specified when `ip` is set");
        }
        (true, true) => {
            let why = "may not be specified when `ip` is not set";
            faults.forbidden(at.path("ipMode"), why);
        }
        _ => faults.must_be_one_of(at, "ipMode", &["Proxy", "VIP"]),
    }
}

fn hostname(at: At<'_>, faults: &mut Faults) {
    faults.follows(at, "hostname", syntax::subdomain);
    let host = at.text("hostname");
    if host.parse::<IpAddr>().is_ok() {
        let why = "must be a DNS name, not an IP address";
        faults.invalid(at.path("hostname"), &host.into(), why);
    }
}

/// Checks an address. One of the `known` ones needs not have the strict form.
pub(super) fn strict(path: String, address: &Value, known: &[Value], faults: &mut Faults) {
    if known.contains(address) {
        return;
    }
    let text = address.as_str().unwrap_or_default();
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(parsed)) if parsed.to_ipv4_mapped().is_some() => {
            faults.invalid(path, address, "must not be an IPv4-mapped IPv6 address");
        }
        Err(_) if without_zeros(text).parse::<IpAddr>().is_ok() => {
            faults.invalid(path, address, "must not have leading 0s");
        }
        _ => faults.address(path, address),
    }
}

/// The text without the zeros before the numbers of an IPv4 address.
fn without_zeros(text: &str) -> String {
    let parts = text.split('.').map(|part| {
        let short = part.trim_start_matches('0');
        if short.is_empty() && !part.is_empty() {
            "0"
        } else {
            short
        }
    });
    parts.collect::<Vec<_>>().join(".")
}
