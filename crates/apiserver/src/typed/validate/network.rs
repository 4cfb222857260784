//! Ingresses, network policies and endpoints.

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
            let plain = host.strip_prefix("*.").unwrap_or(host);
            if !host.is_empty() && host.parse::<std::net::IpAddr>().is_ok() {
                let why = "must be a DNS name, not an IP address";
                faults.invalid(at.path("host"), &host.into(), why);
            } else if !host.is_empty()
                && let Some(why) = syntax::subdomain(plain)
            {
                faults.invalid(at.path("host"), &host.into(), why);
            }
            at.inner("http", |at| {
                if at.list("paths").is_empty() {
                    faults.required(at.path("paths"), "");
                }
                at.each("paths", |at| path(at, faults));
            });
        });
    });
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
        "Exact" | "Prefix" if !path.starts_with('/') => {
            faults.invalid(at.path("path"), &path.into(), "must be an absolute path");
        }
        "ImplementationSpecific" if !path.is_empty() && !path.starts_with('/') => {
            faults.invalid(at.path("path"), &path.into(), "must be an absolute path");
        }
        _ => {}
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
                if faults.needs(at, "name") {
                    faults.follows(at, "name", syntax::label_1035);
                }
                at.inner("port", |at| {
                    let (name, number) = (at.text("name"), at.number("number").unwrap_or_default());
                    if name.is_empty() && number == 0 {
                        faults.required(parent, "port name or number is required");
                    } else if !name.is_empty() && number != 0 {
                        let why = "cannot set both port name & port number";
                        faults.invalid(parent, &"".into(), why);
                    } else if number != 0 {
                        faults.port(at.path("number"), &number.into());
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
                at.each("ports", |at| {
                    super::container::protocol(at, faults);
                    if let Some(port) = at.get("port") {
                        faults.port_or_name(&at.path("port"), port);
                    }
                });
                at.each(peers, |at| peer(at, faults));
            });
        }
        let known = ["Ingress", "Egress"];
        for (number, kind) in at.list("policyTypes").iter().enumerate() {
            if !kind.as_str().is_some_and(|kind| known.contains(&kind)) {
                let path = format!("{}[{number}]", at.path("policyTypes"));
                faults.add(FieldError::not_supported(path, kind, known));
            }
        }
    });
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
        if faults.needs(at, "cidr") {
            faults.follows(at, "cidr", |text| {
                let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
                (!is_cidr(text)).then(|| why.to_owned())
            });
        }
    });
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

pub(super) fn endpoints(root: At<'_>, faults: &mut Faults) {
    root.each("subsets", |at| {
        at.each("ports", |at| {
            faults.port(at.path("port"), at.get("port").unwrap_or(&Value::Null));
        });
        for list in ["addresses", "notReadyAddresses"] {
            at.each(list, |at| {
                let address = at.text("ip");
                if address.parse::<std::net::IpAddr>().is_err() {
                    faults.address(at.path("ip"), &address.into());
                    let why = "must be a valid IP address";
                    faults.invalid(at.path("ip"), &address.into(), why);
                }
            });
        }
    });
}

pub(super) fn ingress_class(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        if faults.needs(at, "controller") {
            faults.follows(at, "controller", |path| {
                let is_path = path.split_once('/').is_some_and(|(domain, rest)| {
                    syntax::subdomain(domain).is_none() && !rest.is_empty()
                });
                let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
                (!is_path).then(|| why.to_owned())
            });
        }
        at.inner("parameters", |at| {
            faults.needs(at, "kind");
            faults.needs(at, "name");
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
    at.each("endpoints", |at| {
        let addresses = at.list("addresses");
        if addresses.is_empty() {
            let why = "must contain at least 1 address";
            faults.required(at.path("addresses"), why);
        }
        for (number, address) in addresses.iter().enumerate() {
            let path = format!("{}[{number}]", at.path("addresses"));
            match kind {
                "IPv4" | "IPv6" => faults.address(path, address),
                _ => {}
            }
        }
    });
    at.each("ports", |at| super::container::protocol(at, faults));
}
