//! The writes of the operator: how often each object was created and deleted, and who may write.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use super::{Origin, World};
use crate::{
    connection::Target,
    oracle::{self, Violation},
};

/// What the operator wrote, and the leases that allow it to.
pub(crate) struct Writes {
    /// By verb and object.
    counts: BTreeMap<String, u32>,
    /// The leases as the server has them, by path.
    leases: BTreeMap<String, Lease>,
    /// When the last lease that a process wrote ends for it, by process and path.
    terms: BTreeMap<(Origin, String), Instant>,
    /// The processes whose lease another client deleted: until it would have ended they cannot
    /// know.
    deprived: BTreeSet<Origin>,
    /// Whether replicas compete.
    has_replicas: bool,
}

/// A lease.
#[derive(Clone, Copy)]
struct Lease {
    holder: Holder,
    /// When it ends by its own duration, unless it is renewed.
    ends: Instant,
}

/// Who wrote a lease last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Process(Origin),
    /// A client that is no process of the operator.
    Other,
}

// === impl Writes ===

impl Writes {
    pub(super) const fn new(has_replicas: bool) -> Self {
        Self {
            counts: BTreeMap::new(),
            leases: BTreeMap::new(),
            terms: BTreeMap::new(),
            deprived: BTreeSet::new(),
            has_replicas,
        }
    }

    pub(super) fn counts(&self) -> BTreeMap<String, u32> {
        self.counts.clone()
    }

    /// How long ago all leases that a process held have ended for it; none if one has not, or if
    /// it held none.
    pub(super) fn ended(&self, origin: Origin, at: Instant) -> Option<Duration> {
        let own = self.terms.iter().filter(|((of, _), _)| *of == origin);
        let last = own.map(|(_, ends)| *ends).max()?;
        let ended = self.has_replicas && at > last;
        ended.then(|| at.duration_since(last))
    }

    /// Whether a process holds a lease, or there is none.
    pub(super) fn may_lead(&self, origin: Origin) -> bool {
        let mut leases = self.leases.values();
        self.leases.is_empty() || leases.any(|it| it.holder == Holder::Process(origin))
    }

    /// Notes a write that the server has made.
    fn note(&mut self, origin: Origin, target: &Target, answer: &Value) -> Option<Violation> {
        if target.resource == "leases" && target.group == "coordination.k8s.io" {
            return self.note_lease(origin, target, answer);
        }
        if matches!(target.verb, "create" | "delete") && target.subresource.is_empty() {
            let counted = target.described(answer);
            *self.counts.entry(counted).or_default() += 1;
        }
        if !self.has_replicas || self.deprived.contains(&origin) {
            return None;
        }
        let has_term = self.terms.keys().any(|(of, _)| *of == origin);
        let mut holders = self.leases.values().map(|it| it.holder);
        let other = holders.find(|holder| match holder {
            Holder::Process(holder) => *holder != origin,
            // It took the lease from a process, which may not know yet.
            Holder::Other => !has_term,
        })?;
        let text = format!("{origin} wrote ({target}) while {other} holds the lease");
        Some(Violation::new(oracle::LEADER, text))
    }

    fn note_lease(&mut self, origin: Origin, target: &Target, answer: &Value) -> Option<Violation> {
        let path = target.object_path(answer);
        let now = Instant::now();
        let spec = &answer["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        if target.verb == "delete" || holder.is_empty() {
            self.leases.remove(&path);
            self.terms.insert((origin, path), now);
            return None;
        }
        let lease = Lease {
            holder: Holder::Process(origin),
            ends: now + duration(spec),
        };
        self.deprived.remove(&origin);
        self.terms.insert((origin, path.clone()), lease.ends);
        let before = self.leases.insert(path, lease)?;
        let is_taken = before.holder != lease.holder && now < before.ends;
        is_taken.then(|| {
            let text = format!(
                "{origin} took the lease that {} holds for another {:?}",
                before.holder,
                before.ends.duration_since(now)
            );
            Violation::new(oracle::LEASE, text)
        })
    }
}

/// The duration of a lease.
fn duration(spec: &Value) -> Duration {
    let seconds = spec["leaseDurationSeconds"].as_u64();
    Duration::from_secs(seconds.unwrap_or_default())
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(origin) => origin.fmt(f),
            Self::Other => f.write_str("another client"),
        }
    }
}

impl World {
    /// Notes that another client has deleted the lease at `path`, or all leases below it: no lease
    /// protects from that.
    pub(super) fn deletes_leases(&self, path: &str) {
        let mut state = self.state.lock();
        let Writes {
            leases, deprived, ..
        } = &mut state.writes;
        leases.retain(|of, lease| {
            let rest = of.strip_prefix(path);
            let is_deleted = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            if is_deleted && let Holder::Process(origin) = lease.holder {
                deprived.insert(origin);
            }
            !is_deleted
        });
    }

    /// Notes that another client has taken a lease. Its holder may go on until the lease would
    /// have ended, and no process may take it before it ends for the other client.
    pub(super) fn steals_lease(&self, path: &str, spec: &Value) {
        let lease = Lease {
            holder: Holder::Other,
            ends: Instant::now() + duration(spec),
        };
        let writes = &mut self.state.lock().writes;
        writes.leases.insert(path.to_owned(), lease);
    }

    /// Notes that a process sends a write, which a fault may keep from the server.
    pub(crate) fn sends_write(&self, origin: Origin, target: &Target) {
        let ended = self.state.lock().writes.ended(origin, Instant::now());
        if let Some(ago) = ended {
            let text = format!("{origin} sent ({target}) {ago:?} after its lease had ended");
            self.violate(oracle::LEADER, text);
        }
    }

    /// Notes a write that the server has made.
    pub(crate) fn wrote(&self, origin: Origin, target: &Target, answer: &Value) {
        let violation = self.state.lock().writes.note(origin, target, answer);
        if let Some(violation) = violation {
            self.report(violation);
        }
    }
}
