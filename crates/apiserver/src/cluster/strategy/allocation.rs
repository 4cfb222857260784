//! Allocation of unique addresses and ports for services.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use rand::Rng as _;
use serde_json::{Value, json};

use super::service::{needs_address, needs_ports};
use crate::cluster::Cluster;
use crate::metadata;
use crate::status::FieldError;

/// The table of services in the store.
const SERVICES: &str = "services";

/// The range of random service addresses, in `10.96.0.0/12` as in a cluster of kubeadm. The first
/// 256 addresses are only allocated if a client requests them.
const ADDRESSES: std::ops::Range<u32> = 0x0a60_0100..0x0a6f_ffff;

/// The range of node ports.
const PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// The addresses and ports that other services have.
struct Taken {
    addresses: BTreeSet<String>,
    ports: BTreeSet<(u64, String)>,
}

// === impl Cluster ===

impl Cluster {
    /// Allocates the missing addresses and ports of a service.
    pub(super) fn allocate_service(
        &mut self,
        service: &mut Value,
        before: Option<&Value>,
    ) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if !needs_address(service) {
            return errors;
        }
        let taken = self.taken_by_others(service);
        let spec = &service["spec"];
        let is_headless = spec["clusterIP"] == "None";
        let is_open = spec["selector"]
            .as_object()
            .is_none_or(serde_json::Map::is_empty);
        let is_new = before.is_none_or(|before| !needs_address(before));
        let wanted = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
        if !(is_headless && is_open) {
            errors = second_family(spec);
            if !errors.is_empty() {
                return errors;
            }
        }
        if is_new && is_headless {
            fill(service, "clusterIPs", json!(["None"]));
            let (families, policy) = if is_open {
                (json!(["IPv4", "IPv6"]), "RequireDualStack")
            } else {
                (json!(["IPv4"]), "SingleStack")
            };
            fill(service, "ipFamilies", families);
            fill(service, "ipFamilyPolicy", policy.into());
        } else if wanted.is_empty() {
            let address = self.free_address(&taken);
            service["spec"]["clusterIP"] = address.as_str().into();
            service["spec"]["clusterIPs"] = json!([address]);
        } else if is_new && taken.addresses.contains(&wanted) {
            errors.push(FieldError::invalid(
                "spec.clusterIPs",
                &json!([wanted]),
                format!("failed to allocate IP {wanted}: provided IP is already allocated"),
            ));
        }
        if !is_headless {
            let address = service["spec"]["clusterIP"].clone();
            let family = if address.as_str().is_some_and(|it| it.contains(':')) {
                "IPv6"
            } else {
                "IPv4"
            };
            fill(service, "clusterIPs", json!([address]));
            fill(service, "ipFamilies", json!([family]));
            fill(service, "ipFamilyPolicy", "SingleStack".into());
        }
        if needs_ports(service) {
            self.allocate_ports(service, before, taken.ports, &mut errors);
        }
        errors
    }

    fn allocate_ports(
        &mut self,
        service: &mut Value,
        before: Option<&Value>,
        mut taken: BTreeSet<(u64, String)>,
        errors: &mut Vec<FieldError>,
    ) {
        let own = before.map(ports_of).unwrap_or_default();
        let wants_probe = super::service::needs_probe(service);
        let ports = service["spec"]["ports"].as_array_mut();
        for (at, port) in ports.into_iter().flatten().enumerate() {
            let protocol = port["protocol"].as_str().unwrap_or_default().to_owned();
            let wanted = port["nodePort"].as_u64().unwrap_or_default();
            if wanted == 0 {
                let number = self.free_port(&taken);
                port["nodePort"] = number.into();
                taken.insert((number, protocol));
                continue;
            }
            let is_own = own.contains(&(wanted, protocol.clone()));
            let path = format!("spec.ports[{at}].nodePort");
            let is_port = u16::try_from(wanted).is_ok_and(|port| PORTS.contains(&port));
            if !is_own && !is_port {
                let detail = "provided port is not in the valid range. The range of valid ports \
                              is 30000-32767";
                errors.push(FieldError::invalid(path, &wanted.into(), detail));
            } else if !is_own && taken.contains(&(wanted, protocol.clone())) {
                let detail = "provided port is already allocated";
                errors.push(FieldError::invalid(path, &wanted.into(), detail));
            }
            taken.insert((wanted, protocol));
        }
        if wants_probe
            && service["spec"]["healthCheckNodePort"]
                .as_u64()
                .unwrap_or_default()
                == 0
        {
            service["spec"]["healthCheckNodePort"] = self.free_port(&taken).into();
        }
    }

    fn taken_by_others(&self, service: &Value) -> Taken {
        let uid = metadata::text(service, "uid");
        let mut taken = Taken {
            addresses: BTreeSet::new(),
            ports: BTreeSet::new(),
        };
        for (_, other) in self.store.objects(SERVICES) {
            if other.uid() == uid {
                continue;
            }
            let other = other.value();
            let addresses = other["spec"]["clusterIPs"].as_array().into_iter().flatten();
            let addresses = addresses.filter_map(Value::as_str).map(str::to_owned);
            taken.addresses.extend(addresses);
            taken.ports.extend(ports_of(other));
        }
        taken
    }

    fn free_address(&mut self, taken: &Taken) -> String {
        loop {
            let address = Ipv4Addr::from(self.random.random_range(ADDRESSES)).to_string();
            // The range has a million addresses, and a server has fewer services.
            if !taken.addresses.contains(&address) {
                return address;
            }
        }
    }

    /// A free port. 0 if all ports are used.
    fn free_port(&mut self, taken: &BTreeSet<(u64, String)>) -> u64 {
        let is_free = |port: &u64| {
            taken
                .range((*port, String::new())..)
                .next()
                .is_none_or(|(other, _)| other != port)
        };
        for _ in 0..16 {
            let port = u64::from(self.random.random_range(PORTS));
            if is_free(&port) {
                return port;
            }
        }
        PORTS.map(u64::from).find(is_free).unwrap_or_default()
    }
}

/// The errors of a service that requests IPv6 addresses, which this server does not have.
fn second_family(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec["ipFamilyPolicy"] == "RequireDualStack" {
        errors.push(FieldError::invalid(
            "spec.ipFamilyPolicy",
            &spec["ipFamilyPolicy"],
            "this cluster is not configured for dual-stack services",
        ));
    }
    let families = spec["ipFamilies"].as_array().into_iter().flatten();
    for (number, family) in families.enumerate().filter(|(_, family)| *family == "IPv6") {
        let path = format!("spec.ipFamilies[{number}]");
        let why = "not configured on this cluster";
        errors.push(FieldError::invalid(path, family, why));
    }
    errors
}

fn ports_of(service: &Value) -> BTreeSet<(u64, String)> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let ports = ports.filter_map(|port| {
        let number = port["nodePort"].as_u64().filter(|number| *number != 0)?;
        Some((number, port["protocol"].as_str()?.to_owned()))
    });
    let probe = service["spec"]["healthCheckNodePort"].as_u64();
    let probe = probe.filter(|number| *number != 0);
    ports
        .chain(probe.map(|number| (number, "TCP".to_owned())))
        .collect()
}

fn fill(service: &mut Value, field: &str, value: Value) {
    if let Some(spec) = service["spec"].as_object_mut() {
        spec.entry(field).or_insert(value);
    }
}
