//! The writes of the operator: how often each object was created and deleted, and who may write.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use tokio::time::Instant;

use super::{Origin, World};
use crate::{
    connection::Target,
    oracle::{self},
};

/// What the operator wrote.
pub(crate) struct Writes {
    /// By verb and object.
    counts: BTreeMap<String, u32>,
    /// The process that wrote each lease last, and when the lease ends by its own duration.
    leases: BTreeMap<String, (Origin, Instant)>,
    /// The processes whose lease another client deleted, and when it would have ended: until then
    /// they cannot know.
    deprived: BTreeMap<Origin, Instant>,
    /// Whether replicas compete.
    has_replicas: bool,
}

// === impl Writes ===

impl Writes {
    pub(super) const fn new(has_replicas: bool) -> Self {
        Self {
            counts: BTreeMap::new(),
            leases: BTreeMap::new(),
            deprived: BTreeMap::new(),
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
                let seconds = answer["spec"]["leaseDurationSeconds"].as_u64();
                let ends = Instant::now() + Duration::from_secs(seconds.unwrap_or_default());
                self.leases
                    .insert(target.object_path(answer), (origin, ends));
            }
            return None;
        }
        if matches!(target.verb, "create" | "delete") && target.subresource.is_empty() {
            let counted = target.described(answer);
            *self.counts.entry(counted).or_default() += 1;
        }
        let deprived = self.deprived.get(&origin);
        if !self.has_replicas || deprived.is_some_and(|ends| Instant::now() < *ends) {
            return None;
        }
        let mut holders = self.leases.values().map(|(holder, _)| *holder);
        holders.find(|holder| *holder != origin)
    }
}

impl World {
    /// Notes that another client deletes the leases: no lease protects from that.
    pub(super) fn deletes_leases(&self) {
        let writes = &mut self.state.lock().writes;
        writes.deprived.extend(writes.leases.values().copied());
    }

    /// Notes a write that the server has made.
    pub(crate) fn wrote(&self, origin: Origin, target: &Target, answer: &Value) {
        let overtaken = self.state.lock().writes.note(origin, target, answer);
        if let Some(holder) = overtaken {
            let text = format!("{origin} wrote ({target}) while {holder} holds the lease");
            self.violate(oracle::LEADER, text);
        }
    }
}
