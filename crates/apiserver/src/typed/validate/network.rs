//! Ingresses, network policies and endpoints.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::{At, Faults, selector};
use crate::metadata::syntax;
use crate::status::FieldError;

pub(super) fn ingress(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        if at.list("rules").is_empty() && at.get("defaultBackend").is_none() {
            let why = "either `defaultBackend` or `rules` must be specified";
            faults.invalid(at.path, &Value::Null, why);
        }
        at.inner("defaultBackend", |at| backend(at, faults));
        at.each("rules", |at| {
            let host = at.text("host");
            if host.parse::<IpAddr>().is_ok() {
                let why = "must be a DNS name, not an IP address";
                faults.invalid(at.path("host"), &host.into(), why);
            } else {
                faults.follows(at, "host", host_rule);
            }
            at.inner("http", |at| {
                if at.list("paths").is_empty() {
                    faults.required(at.path("paths"), "");
                }
                at.each("paths", |at| path(at, faults));
            });
        });
        at.each("tls", |at| {
            faults.items(at, "hosts", host_rule);
            faults.follows(at, "secretName", syntax::subdomain);
        });
        if at.get("ingressClassName").is_some() {
            faults.must_follow(at, "ingressClassName", syntax::subdomain);
        }
    });
}

/// The host of an ingress: a domain name, or a wildcard such as `*.example.com`.
fn host_rule(host: &str) -> Option<String> {
    if host.contains('*') {
        syntax::wildcard(host)
    } else {
        syntax::subdomain(host)
    }
}

fn path(at: At<'_>, faults: &mut Faults) {
    const KINDS: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
    let (path, kind) = (at.text("path"), at.text("pathType"));
    match kind {
        "" if at.get("pathType").is_none() => {
            faults.required(at.path("pathType"), "pathType must be specified");
            return;
        }
        kind if !KINDS.contains(&kind) => {
            let path = at.path("pathType");
            faults.add(FieldError::not_supported(path, &kind.into(), KINDS));
        }
        "ImplementationSpecific" if path.is_empty() || path.starts_with('/') => {}
        kind => {
            let mut wrong = Vec::new();
            if !path.starts_with('/') {
                wrong.push("must be an absolute path".to_owned());
            }
            if kind != "ImplementationSpecific" {
                let parts = ["//", "/./", "/../", "%2f", "%2F"];
                let found = parts.into_iter().filter(|part| path.contains(part));
                wrong.extend(found.map(|part| format!("must not contain '{part}'")));
                let ends = ["/..", "/."].into_iter().filter(|end| path.ends_with(end));
                wrong.extend(ends.map(|end| format!("cannot end with '{end}'")));
            }
            faults.wrong(at.path("path"), &path.into(), wrong);
        }
    }
    at.inner("backend", |at| backend(at, faults));
}

fn backend(at: At<'_>, faults: &mut Faults) {
    match (at.get("service"), at.get("resource")) {
        (None, None) => {
            let why = "resource or service backend is required";
            faults.invalid(at.path, &"".into(), why);
        }
        (Some(_), Some(_)) => {
            let why = "cannot set both resource and service backends";
            faults.invalid(at.path, &"".into(), why);
        }
        (None, Some(_)) => {}
        (Some(_), None) => {
            let parent = at.path;
            at.inner("service", |at| {
                faults.needs_valid(at, "name", syntax::label);
                at.inner("port", |at| {
                    let (name, number) = (at.text("name"), at.number("number").unwrap_or_default());
                    if name.is_empty() && number == 0 {
                        faults.required(parent, "port name or number is required");
                    } else if !name.is_empty() && number != 0 {
                        let why = "cannot set both port name & port number";
                        faults.invalid(parent, &"".into(), why);
                    } else if number != 0 {
                        faults.port(at.path("number"), &number.into());
                    } else {
                        faults.follows(at, "name", syntax::port_name);
                    }
                });
            });
        }
    }
}

pub(super) fn policy(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        at.inner("podSelector", |at| _ = selector::check(at, faults));
        for (list, peers) in [("ingress", "from"), ("egress", "to")] {
            at.each(list, |at| {
                at.each("ports", |at| policy_port(at, faults));
                at.each(peers, |at| peer(at, faults));
            });
        }
        let known = ["Ingress", "Egress"];
        let kinds = at.list("policyTypes");
        if kinds.len() > known.len() {
            let why = "may not specify more than two policyTypes";
            faults.invalid(at.path("policyTypes"), &kinds.into(), why);
            return;
        }
        for (number, kind) in at.list("policyTypes").iter().enumerate() {
            if !kind.as_str().is_some_and(|kind| known.contains(&kind)) {
                let path = format!("{}[{number}]", at.path("policyTypes"));
                faults.add(FieldError::not_supported(path, kind, known));
            }
        }
    });
}

fn policy_port(at: At<'_>, faults: &mut Faults) {
    faults.one_of(at, "protocol", &["TCP", "UDP", "SCTP"]);
    let port = at.get("port");
    if let Some(port) = port {
        faults.port_or_name(&at.path("port"), port);
    }
    let Some(end) = at.get("endPort") else {
        return;
    };
    let number = port.and_then(Value::as_i64);
    let (value, why) = match (port, number) {
        (None, _) => (end, "may not be specified when `port` is not specified"),
        (Some(_), None) => (end, "may not be specified when `port` is non-numeric"),
        (Some(port), Some(number)) => {
            faults.port(at.path("endPort"), end);
            if end.as_i64().is_some_and(|end| end >= number) {
                return;
            }
            (port, "must be greater than or equal to `port`")
        }
    };
    faults.invalid(at.path("endPort"), value, why);
}

fn peer(at: At<'_>, faults: &mut Faults) {
    let has = |field: &str| at.get(field).is_some();
    for field in ["podSelector", "namespaceSelector"] {
        at.inner(field, |at| _ = selector::check(at, faults));
    }
    if has("ipBlock") && (has("podSelector") || has("namespaceSelector")) {
        let why = "may not specify both ipBlock and another peer";
        faults.forbidden(at.path, why);
    } else if !has("ipBlock") && !has("podSelector") && !has("namespaceSelector") {
        faults.required(at.path, "must specify a peer");
    }
    at.inner("ipBlock", |at| {
        faults.needs_valid(at, "cidr", cidr);
        let Some((whole, bits)) = network_of(at.text("cidr")) else {
            return;
        };
        faults.items(at, "except", |text| match network_of(text) {
            None => cidr(text),
            Some((part, more)) => {
                let is_inside = start(part, bits) == start(whole, bits) && more > bits;
                (!is_inside).then(|| "must be a strict subset of `cidr`".to_owned())
            }
        });
    });
}

pub(super) fn address(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        if at.get("parentRef").is_none() {
            faults.required(at.path("parentRef"), "");
        }
        at.inner("parentRef", |at| {
            faults.needs(at, "resource");
            faults.needs(at, "name");
        });
    });
}

/// The error of an invalid CIDR.
pub(super) fn cidr(text: &str) -> Option<String> {
    let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    network_of(text).is_none().then(|| why.to_owned())
}

/// The error of an invalid address of an interface, with the length of its network.
pub(super) fn interface(text: &str) -> Option<String> {
    // Zeros before a number are read, but are not canonical.
    let without_zeros = |part: &str| match part.trim_start_matches('0') {
        "" => "0".to_owned(),
        number => number.to_owned(),
    };
    let read = match text.split_once('/') {
        Some((address, bits)) if !address.contains(':') => {
            let parts: Vec<_> = address.split('.').map(without_zeros).collect();
            network_of(&format!("{}/{bits}", parts.join(".")))
        }
        _ => network_of(text),
    };
    let Some((address, bits)) = read else {
        let why = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return Some(why.to_owned());
    };
    let canonical = format!("{address}/{bits}");
    (canonical != text).then(|| format!("must be in canonical form ({canonical:?})"))
}

/// An address, and the length of its prefix in bits.
fn network_of(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let (address, bits) = (address.parse::<IpAddr>().ok()?, bits.parse().ok()?);
    let most = if address.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some((address, bits))
}

/// The network bits of an address, and whether it is an IPv4 address.
fn start(address: IpAddr, bits: u8) -> (bool, u128) {
    let (number, length) = match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let rest = length - u32::from(bits).min(length);
    (
        address.is_ipv4(),
        number.checked_shr(rest).unwrap_or_default(),
    )
}

pub(super) fn endpoints(root: At<'_>, faults: &mut Faults) {
    root.each("subsets", |at| {
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| at.list(list).is_empty()) {
            let why = "must specify `addresses` or `notReadyAddresses`";
            faults.required(at.path, why);
        }
        let is_one_of_many = at.list("ports").len() > 1;
        at.each("ports", |at| {
            if is_one_of_many {
                faults.needs(at, "name");
            }
            faults.follows(at, "name", syntax::label);
            faults.port(at.path("port"), at.get("port").unwrap_or(&Value::Null));
        });
        for list in lists {
            at.each(list, |at| {
                let address = at.text("ip");
                faults.endpoint(at.path("ip"), &address.into());
                if address.parse::<IpAddr>().is_err() {
                    let why = "must be a valid IP address";
                    faults.invalid(at.path("ip"), &address.into(), why);
                }
            });
        }
    });
}

/// The CIDRs of services.
pub(super) fn service_ranges(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        let (ranges, path) = (at.list("cidrs"), at.path("cidrs"));
        match ranges.len() {
            0 => faults.required(path, "at least one CIDR required"),
            1 | 2 => {
                faults.items(at, "cidrs", cidr);
                let family =
                    |range: &Value| network_of(range.as_str()?).map(|(it, _)| it.is_ipv4());
                let families: Vec<_> = ranges.iter().filter_map(family).collect();
                if matches!(families[..], [first, second] if first == second) {
                    let why = "may specify no more than one IP for each IP family, i.e \
                               192.168.0.0/24 and 2001:db8::/64";
                    faults.invalid(path, &ranges.into(), why);
                }
            }
            _ => {
                let value = serde_json::json!({ "CIDRs": ranges });
                faults.invalid(path, &value, "may only hold up to 2 values");
            }
        }
    });
}

pub(super) fn ingress_class(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        if faults.needs(at, "controller") {
            let controller = at.text("controller");
            match controller.split_once('/') {
                Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
                    let wrong = syntax::subdomain(host);
                    faults.wrong(at.path("controller"), &host.into(), wrong);
                }
                _ => {
                    let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
                    faults.invalid(at.path("controller"), &controller.into(), why);
                }
            }
        }
        at.inner("parameters", |at| {
            for field in ["kind", "name"] {
                faults.needs_valid(at, field, syntax::path_segment);
            }
            faults.must_be_one_of(at, "scope", &["Cluster", "Namespace"]);
            let has_namespace = at.get("namespace").is_some();
            let (path, scope) = (at.path("namespace"), at.text("scope"));
            let why = format!("`parameters.scope` is set to '{scope}'");
            match scope {
                "Namespace" if !has_namespace => faults.required(path, &why),
                "Cluster" if has_namespace => faults.forbidden(path, &why),
                _ => {}
            }
        });
    });
}

pub(super) fn endpoint_slice(at: At<'_>, faults: &mut Faults) {
    const KINDS: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
    let kind = at.text("addressType");
    if kind.is_empty() {
        faults.required(at.path("addressType"), "");
        return;
    }
    faults.one_of(at, "addressType", &KINDS);
    let mut names = BTreeSet::new();
    at.each("ports", |at| {
        let name = at.text("name");
        faults.follows(at, "name", syntax::label);
        if !names.insert(name.to_owned()) {
            faults.add(FieldError::duplicate(at.path("name"), &name.into()));
        }
        super::container::protocol(at, faults);
        faults.follows(at, "appProtocol", syntax::qualified_name);
    });
}

/// The endpoints of a slice: of a new one, or after they were changed.
pub(super) fn slice_endpoints(at: At<'_>, faults: &mut Faults) {
    let kind = at.text("addressType");
    at.each("endpoints", |at| {
        let addresses = at.list("addresses");
        if addresses.is_empty() {
            let why = "must contain at least 1 address";
            faults.required(at.path("addresses"), why);
        }
        for (number, address) in addresses.iter().enumerate() {
            let path = format!("{}[{number}]", at.path("addresses"));
            let text = address.as_str().unwrap_or_default();
            let is_old = text.parse::<IpAddr>().ok().map(|it| it.is_ipv4());
            if !matches!(kind, "IPv4" | "IPv6") {
                continue;
            }
            if is_old.is_some_and(|is_old| is_old != (kind == "IPv4")) {
                let why = format!("must be an {kind} address");
                faults.invalid(at.path("addresses"), address, why);
            }
            faults.endpoint(path, address);
        }
        faults.labels(at, "deprecatedTopology");
        if at.get("hostname").is_some() {
            faults.must_follow(at, "hostname", syntax::label);
        }
        if at.get("nodeName").is_some() {
            faults.must_follow(at, "nodeName", syntax::subdomain);
        }
    });
}
