//! The writes of the operator: how often each object was created and deleted, and who may write.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Origin, World};
use crate::{
    connection::Target,
    oracle::{self},
};

/// What the operator wrote.
pub(crate) struct Writes {
    /// By verb and object.
    counts: BTreeMap<String, u32>,
    /// The process that wrote each lease last.
    leases: BTreeMap<String, Origin>,
    /// Whether replicas compete.
    has_replicas: bool,
}

// === impl Writes ===

impl Writes {
    pub(super) const fn new(has_replicas: bool) -> Self {
        Self {
            counts: BTreeMap::new(),
            leases: BTreeMap::new(),
            has_replicas,
        }
    }

    pub(super) fn counts(&self) -> BTreeMap<String, u32> {
        self.counts.clone()
    }

    /// Notes a write; returns the process that should not have been overtaken.
    fn note(&mut self, origin: Origin, target: &Target, answer: &Value) -> Option<Origin> {
        if target.resource == "leases" && target.group == "coordination.k8s.io" {
            let holder = answer["spec"]["holderIdentity"]
                .as_str()
                .unwrap_or_default();
            if holder.is_empty() {
                self.leases.remove(&target.path);
            } else {
                self.leases.insert(target.object_path(answer), origin);
            }
            return None;
        }
        if matches!(target.verb, "create" | "delete") && target.subresource.is_empty() {
            let counted = target.described(answer);
            *self.counts.entry(counted).or_default() += 1;
        }
        let holders = self.leases.values().filter(|_| self.has_replicas);
        holders.copied().find(|holder| *holder != origin)
    }
}

impl World {
    /// Notes a write that the server has made.
    pub(crate) fn wrote(&self, origin: Origin, target: &Target, answer: &Value) {
        let overtaken = self.state.lock().writes.note(origin, target, answer);
        if let Some(holder) = overtaken {
            let text = format!("{origin} wrote ({target}) while {holder} holds the lease");
            self.violate(oracle::LEADER, text);
        }
    }
}
