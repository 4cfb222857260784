//! Resource quotas: the usage of each object, the admission of requests, and the status, which the
//! quota controller writes in a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::amounts::{self, Amounts};
use crate::cluster::contents::CONTROLLERS;
use crate::cluster::{Cluster, Part, ownership};
use crate::metadata;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::{Key, Stored};
use crate::typed::Quantity;
use crate::wire::WriteOptions;

mod usage;

use self::usage::{is_in_scope, lacking, tracks, usage};

/// The table of quotas in the store.
const QUOTAS: &str = "resourcequotas";

/// The amounts that a write adds to one quota.
struct Charge {
    key: Key,
    quota: Arc<Stored>,
    hard: Amounts,
    used: Amounts,
    added: Amounts,
}

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
                charged.push(Charge {
                    key,
                    quota,
                    hard,
                    used: quota_used,
                    added,
                });
            }
        }
        let mut writes = Vec::new();
        for charge in charged {
            let status = charge.status().map_err(&refused)?;
            writes.push((charge.key, charge.quota, status));
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

// === impl Charge ===

impl Charge {
    /// Returns the status of the quota after the write.
    ///
    /// # Errors
    ///
    /// The message of Kubernetes if an amount exceeds the quota.
    fn status(&self) -> Result<Value, String> {
        let mut total = self.used.clone();
        amounts::add(&mut total, &self.added);
        let exceeds = |name: &&String| {
            let of = |amounts: &Amounts| amounts.get(*name).map(|amount| amount.nanos());
            of(&total) > of(&self.hard)
        };
        let exceeded: Vec<_> = self.added.keys().filter(exceeds).collect();
        if !exceeded.is_empty() {
            let shown = |amounts: &Amounts| {
                let shown = exceeded.iter().filter_map(|name| {
                    let amount = amounts.get(*name)?;
                    Some(format!("{name}={amount}"))
                });
                shown.collect::<Vec<_>>().join(",")
            };
            return Err(format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                self.key.name,
                shown(&self.added),
                shown(&self.used),
                shown(&self.hard)
            ));
        }
        let mut status = self.quota.value()["status"].clone();
        status["used"] = amounts::written(&total);
        Ok(status)
    }
}
