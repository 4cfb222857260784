//! The usage that each object adds to a quota.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::amounts::{self, Amounts, containers};
use crate::cluster::strategy::quality;
use crate::typed::Quantity;

/// The infix in the name of an amount that is limited for one storage class.
const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// The names of the amounts of pods, except those with a prefix.
const OF_PODS: [&str; 11] = [
    "count/pods",
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// The amounts that each container of a pod must specify if a quota limits them.
const REQUIRED: [&str; 6] = [
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];

/// Whether the quota amount `name` counts objects of `table`.
pub(super) fn tracks(table: &str, name: &str) -> bool {
    match table {
        "pods" => {
            let request = name.strip_prefix("requests.");
            OF_PODS.contains(&name)
                || request.unwrap_or(name).starts_with("hugepages-")
                || request.is_some_and(is_extended)
        }
        "services" => matches!(
            name,
            "count/services" | "services" | "services.nodeports" | "services.loadbalancers"
        ),
        "persistentvolumeclaims" => {
            let own = name
                .split_once(STORAGE_CLASS)
                .map_or(name, |(_, amount)| amount);
            matches!(own, "persistentvolumeclaims" | "requests.storage")
                || name == "count/persistentvolumeclaims"
        }
        "configmaps" | "resourcequotas" | "replicationcontrollers" | "secrets" if name == table => {
            true
        }
        _ => name.strip_prefix("count/") == Some(table),
    }
}

/// Whether a resource is extended: its domain is not one of Kubernetes.
fn is_extended(name: &str) -> bool {
    name.split_once('/')
        .is_some_and(|(domain, _)| !domain.ends_with("kubernetes.io"))
}

/// The usage of one object.
pub(super) fn usage(table: &str, object: &Value) -> Amounts {
    let mut used = Amounts::new();
    let mut count = |name: &str, count| {
        used.insert(name.to_owned(), Quantity::count(count));
    };
    count(&format!("count/{table}"), 1);
    let spec = &object["spec"];
    match table {
        "pods" => {
            let phase = object.pointer("/status/phase").and_then(Value::as_str);
            if !matches!(phase, Some("Succeeded" | "Failed")) {
                let whole = |field: &str| {
                    let mut amounts = amounts::of_pod(spec, field);
                    if field == "requests" || !amounts.is_empty() {
                        amounts::add(&mut amounts, &amounts::read(&spec["overhead"]));
                    }
                    amounts
                };
                used.extend(of_resources(&whole("requests"), &whole("limits")));
            }
        }
        "services" => {
            let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
            let has_no_ports = spec["allocateLoadBalancerNodePorts"] == false;
            let (on_nodes, balancers) = match spec["type"].as_str() {
                Some("NodePort") => (ports.len(), 0),
                Some("LoadBalancer") if has_no_ports => {
                    let is_set = |port: &&Value| port["nodePort"].as_i64().unwrap_or(0) != 0;
                    (ports.iter().filter(is_set).count(), 1)
                }
                Some("LoadBalancer") => (ports.len(), 1),
                _ => (0, 0),
            };
            count("services", 1);
            count("services.nodeports", on_nodes);
            count("services.loadbalancers", balancers);
        }
        "persistentvolumeclaims" => {
            let annotations = &object["metadata"]["annotations"];
            let legacy = annotations["volume.beta.kubernetes.io/storage-class"].as_str();
            let class = legacy.or_else(|| spec["storageClassName"].as_str());
            let requested = amounts::read(&spec["resources"]["requests"]);
            let allocated = amounts::read(&object["status"]["allocatedResources"]);
            let storage = requested.get("storage").map(|requested| {
                let allocated = allocated.get("storage").unwrap_or(requested);
                requested.max(*allocated).rounded_up()
            });
            let mut own = Amounts::new();
            own.insert(table.to_owned(), Quantity::count(1));
            own.extend(storage.map(|storage| ("requests.storage".to_owned(), storage)));
            if let Some(class) = class.filter(|class| !class.is_empty()) {
                let of_class = own.iter();
                let of_class = of_class
                    .map(|(name, amount)| (format!("{class}{STORAGE_CLASS}{name}"), *amount));
                used.extend(of_class);
            }
            used.extend(own);
        }
        "configmaps" | "resourcequotas" | "replicationcontrollers" | "secrets" => count(table, 1),
        _ => {}
    }
    used
}

/// The usage of a pod or a container with these requests and limits.
fn of_resources(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::new();
    used.insert("pods".to_owned(), Quantity::count(1));
    for (name, amount) in requests {
        let is_plain = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
            || name.starts_with("hugepages-");
        if is_plain {
            used.insert(name.clone(), *amount);
        }
        if is_plain || is_extended(name) {
            used.insert(format!("requests.{name}"), *amount);
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            used.insert(format!("limits.{name}"), *amount);
        }
    }
    used
}

/// The limited amounts that containers of a pod do not specify, in the format of Kubernetes' error.
pub(super) fn lacking(table: &str, tracked: &BTreeSet<&String>, pod: &Value) -> String {
    let spec = &pod["spec"];
    let has_whole = ["requests", "limits"]
        .into_iter()
        .any(|field| !amounts::read(&spec["resources"][field]).is_empty());
    if table != "pods" || has_whole {
        return String::new();
    }
    let mut lacking: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let all = ["containers", "initContainers"].into_iter();
    for container in all.flat_map(|list| containers(spec, list)) {
        let read = |field: &str| amounts::read(&container["resources"][field]);
        let named = of_resources(&read("requests"), &read("limits"));
        let required = tracked.iter().map(|name| name.as_str());
        let required = required.filter(|name| REQUIRED.contains(name));
        for name in required.filter(|name| !named.contains_key(*name)) {
            let own = container["name"].as_str().unwrap_or_default();
            lacking.entry(name).or_default().insert(own);
        }
    }
    let parts = lacking.into_iter().map(|(name, containers)| {
        let containers: Vec<_> = containers.into_iter().collect();
        format!("{name} for: {}", containers.join(","))
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// Whether the scopes of a quota include an object. Scopes only include pods.
pub(super) fn is_in_scope(quota: &Value, table: &str, object: &Value) -> bool {
    let spec = &quota["spec"];
    let plain = spec["scopes"].as_array().into_iter().flatten();
    let plain = plain.map(|scope| (scope, "Exists", &Value::Null));
    let selected = spec["scopeSelector"]["matchExpressions"].as_array();
    let selected = selected.into_iter().flatten().map(|it| {
        let operator = it["operator"].as_str().unwrap_or_default();
        (&it["scopeName"], operator, &it["values"])
    });
    let pod = &object["spec"];
    plain.chain(selected).all(|(scope, operator, values)| {
        let is_bounded = || {
            pod["activeDeadlineSeconds"]
                .as_i64()
                .is_some_and(|it| it >= 0)
        };
        let is_best_effort = || quality(pod) == "BestEffort";
        table == "pods"
            && match scope.as_str().unwrap_or_default() {
                "Terminating" => is_bounded(),
                "NotTerminating" => !is_bounded(),
                "BestEffort" => is_best_effort(),
                "NotBestEffort" => !is_best_effort(),
                "PriorityClass" => {
                    let class = pod["priorityClassName"].as_str().unwrap_or_default();
                    let is_one = || {
                        let mut values = values.as_array().into_iter().flatten();
                        !class.is_empty() && values.any(|value| *value == class)
                    };
                    match operator {
                        "Exists" => !class.is_empty(),
                        "DoesNotExist" => class.is_empty(),
                        "In" => is_one(),
                        "NotIn" => !is_one(),
                        _ => false,
                    }
                }
                "CrossNamespacePodAffinity" => reaches_other_namespaces(pod),
                _ => false,
            }
    })
}

/// Whether a pod affinity term of a pod selects other namespaces.
fn reaches_other_namespaces(pod: &Value) -> bool {
    let is_list = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    let reaches =
        |term: &Value| is_list(&term["namespaces"]) || !term["namespaceSelector"].is_null();
    let kinds = ["podAffinity", "podAntiAffinity"].into_iter();
    kinds.into_iter().any(|kind| {
        let affinity = &pod["affinity"][kind];
        let terms = |field: &str| affinity[field].as_array().cloned().unwrap_or_default();
        let required = terms("requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = terms("preferredDuringSchedulingIgnoredDuringExecution");
        required.iter().any(reaches)
            || preferred
                .iter()
                .any(|term| reaches(&term["podAffinityTerm"]))
    })
}
