//! Resource quotas: the usage of each object, the admission of requests, and the status, which the
//! quota controller writes in a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::amounts::{self, Amounts, containers};
use crate::cluster::contents::CONTROLLERS;
use crate::cluster::strategy::quality;
use crate::cluster::{Cluster, Part, ownership};
use crate::metadata;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::{Key, Stored};
use crate::typed::Quantity;
use crate::wire::WriteOptions;

/// The table of quotas in the store.
const QUOTAS: &str = "resourcequotas";

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

// === impl Cluster ===

impl Cluster {
    /// Adds the usage of an object, minus its usage `before`, to the quotas of its namespace.
    ///
    /// # Errors
    ///
    /// 403 if a quota does not allow it.
    pub(in crate::cluster) fn charge_quotas(
        &mut self,
        resource: &Resource,
        part: Part,
        [before, object]: [Option<&Value>; 2],
        dry_run: bool,
        now: &str,
    ) -> Result<(), Status> {
        let Some(object) = object.filter(|_| resource.info.namespaced) else {
            return Ok(());
        };
        let is_counted = match (&*resource.table, part) {
            ("events" | "events.events.k8s.io", _) => false,
            ("services" | "persistentvolumeclaims", Part::Main) | ("pods", Part::Resize) => true,
            _ => before.is_none() && part == Part::Main,
        };
        let quotas = self.quotas_in(metadata::text(object, "namespace"));
        if !is_counted || quotas.is_empty() {
            return Ok(());
        }
        let table: &str = &resource.table;
        let name = metadata::text(object, "name");
        let refused = |detail: String| Status::forbidden(&resource.about(name), &detail);
        let (used, used_before) = (usage(table, object), before.map(|it| usage(table, it)));
        let mut charged = Vec::new();
        for (key, quota) in quotas {
            let hard = amounts::read(&quota.value()["status"]["hard"]);
            let tracked: BTreeSet<_> = hard.keys().filter(|name| tracks(table, name)).collect();
            if tracked.is_empty() || !is_in_scope(quota.value(), table, object) {
                continue;
            }
            let lacking = lacking(table, &tracked, object);
            if !lacking.is_empty() {
                return Err(refused(format!(
                    "failed quota: {}: must specify {lacking}",
                    key.name
                )));
            }
            let quota_used = amounts::read(&quota.value()["status"]["used"]);
            if tracked.iter().any(|name| !quota_used.contains_key(*name)) {
                let names: Vec<_> = tracked.iter().map(|name| name.as_str()).collect();
                return Err(refused(format!(
                    "status unknown for quota: {}, resources: {}",
                    key.name,
                    names.join(",")
                )));
            }
            let mut added = used.clone();
            if let Some(used_before) = &used_before
                && before.is_some_and(|before| is_in_scope(quota.value(), table, before))
            {
                for (name, amount) in &mut added {
                    if let Some(before) = used_before.get(name) {
                        *amount = amount.minus(*before);
                    }
                }
            }
            added.retain(|name, amount| amount.nanos() != 0 && hard.contains_key(name));
            if !added.is_empty() {
                charged.push((key, quota, hard, quota_used, added));
            }
        }
        let mut writes = Vec::new();
        for (key, quota, hard, quota_used, added) in charged {
            let mut total = quota_used.clone();
            amounts::add(&mut total, &added);
            let exceeds = |name: &&String| {
                let of = |amounts: &Amounts| amounts.get(*name).map(|amount| amount.nanos());
                of(&total) > of(&hard)
            };
            let exceeded: Vec<_> = added.keys().filter(exceeds).collect();
            if !exceeded.is_empty() {
                let shown = |amounts: &Amounts| {
                    let shown = exceeded.iter().filter_map(|name| {
                        let amount = amounts.get(*name)?;
                        Some(format!("{name}={amount}"))
                    });
                    shown.collect::<Vec<_>>().join(",")
                };
                return Err(refused(format!(
                    "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                    key.name,
                    shown(&added),
                    shown(&quota_used),
                    shown(&hard)
                )));
            }
            let mut status = quota.value()["status"].clone();
            status["used"] = amounts::written(&total);
            writes.push((key, quota, status));
        }
        if !dry_run {
            for (key, quota, status) in writes {
                self.write_status(&key, &quota, status, "kube-apiserver", now);
            }
        }
        Ok(())
    }

    /// Updates the status of all quotas after a write to the server. Returns whether it wrote any.
    pub(in crate::cluster) fn count_quotas(&mut self, now: &str) -> bool {
        let revision = self.store.revision();
        let Some(seen) = self.quotas_seen.filter(|seen| *seen < revision) else {
            return false;
        };
        let quotas = self.store.objects(QUOTAS);
        let quotas: Vec<_> = quotas.map(|(at, it)| (at.clone(), it.clone())).collect();
        for (key, quota) in quotas {
            let spec = &quota.value()["spec"];
            let hard = amounts::read(&spec["hard"]);
            let used = self.used(&key, &quota, &hard, seen);
            let Some(used) = used else { continue };
            let hard = spec.get("hard").cloned().unwrap_or_else(|| json!({}));
            let status = json!({ "hard": hard, "used": amounts::written(&used) });
            if quota.value().get("status") != Some(&status) {
                self.write_status(&key, &quota, status, CONTROLLERS, now);
            }
        }
        self.quotas_seen = Some(self.store.revision());
        self.store.revision() != revision
    }

    /// The usage of the objects of a namespace, of the amounts that a quota limits. `None` if
    /// neither they nor the quota have changed since `seen`.
    fn used(&self, key: &Key, quota: &Stored, hard: &Amounts, seen: u64) -> Option<Amounts> {
        let mut has_changed = quota.revision() > seen;
        let mut used = Amounts::new();
        let mut by_table: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
        for resource in self.registry.iter().filter(|it| it.info.namespaced) {
            let names = hard.keys().filter(|name| tracks(&resource.table, name));
            let names: Vec<_> = names.collect();
            if !names.is_empty() {
                has_changed |= self.store.last_write(&resource.table) > seen;
                by_table.insert(&resource.table, names);
            }
        }
        if !has_changed {
            return None;
        }
        for (table, names) in by_table {
            for name in names {
                used.insert(name.clone(), Quantity::count(0));
            }
            for (at, object) in self.store.objects(table) {
                let object = object.value();
                if at.namespace != key.namespace || !is_in_scope(quota.value(), table, object) {
                    continue;
                }
                let mut own = usage(table, object);
                own.retain(|name, _| hard.contains_key(name));
                amounts::add(&mut used, &own);
            }
        }
        Some(used)
    }

    fn quotas_in(&self, namespace: &str) -> Vec<(Key, Arc<Stored>)> {
        let quotas = self.store.objects(QUOTAS);
        let quotas = quotas.filter(|(key, _)| &*key.namespace == namespace);
        let quotas = quotas.map(|(key, quota)| (key.clone(), quota.clone()));
        quotas.collect()
    }

    fn write_status(
        &mut self,
        key: &Key,
        quota: &Arc<Stored>,
        status: Value,
        manager: &str,
        now: &str,
    ) {
        let Some(resource) = self.registry.find("", "v1", QUOTAS).cloned() else {
            return;
        };
        let mut value = quota.value().clone();
        value["status"] = status;
        let options = WriteOptions {
            manager: manager.to_owned(),
            ..WriteOptions::default()
        };
        let live = quota.value();
        ownership::track(&resource, Part::Status, live, &mut value, &options, now);
        self.store.put(&resource.table, key, value, quota.schema());
    }
}

/// Whether the quota amount `name` counts objects of `table`.
fn tracks(table: &str, name: &str) -> bool {
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
fn usage(table: &str, object: &Value) -> Amounts {
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
fn lacking(table: &str, tracked: &BTreeSet<&String>, pod: &Value) -> String {
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
fn is_in_scope(quota: &Value, table: &str, object: &Value) -> bool {
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
