//! The writes of the operator: counts creates and deletes, and checks that the writer holds the lease.

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
    mask,
    oracle::{self, Violation},
};

/// The counted writes of the operator, and the leases.
pub(crate) struct Writes {
    /// The number of creates and deletes by verb and object.
    counts: BTreeMap<String, u32>,
    /// The leases of the server by path.
    leases: BTreeMap<String, Lease>,
    /// The end of the last lease that a process wrote, by process and path.
    terms: BTreeMap<(Origin, String), Instant>,
    /// The processes whose lease another client deleted. They may continue until the lease would
    /// have ended, because they cannot know about the deletion earlier.
    without_lease: BTreeSet<Origin>,
    /// Whether there are several replicas, which compete for the lease.
    has_replicas: bool,
}

/// The holder and the end of a lease.
#[derive(Clone, Copy)]
struct Lease {
    holder: Holder,
    /// The end of the lease by its duration, unless the holder renews it.
    ends: Instant,
}

/// The last writer of a lease.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Process(Origin),
    /// A client that is not a process of the operator.
    Other,
}

// === impl Writes ===

impl Writes {
    pub(super) const fn new(has_replicas: bool) -> Self {
        Self {
            counts: BTreeMap::new(),
            leases: BTreeMap::new(),
            terms: BTreeMap::new(),
            without_lease: BTreeSet::new(),
            has_replicas,
        }
    }

    pub(super) fn counts(&self) -> BTreeMap<String, u32> {
        self.counts.clone()
    }

    /// The time since the last lease of a process ended. `None` if one has not ended, or if the
    /// process never held a lease.
    pub(super) fn time_without_lease(&self, origin: Origin, at: Instant) -> Option<Duration> {
        let own = self.terms.iter().filter(|((of, _), _)| *of == origin);
        let last = own.map(|(_, ends)| *ends).max()?;
        let ended = self.has_replicas && at > last;
        ended.then(|| at.duration_since(last))
    }

    /// Whether a process holds a lease, or no lease exists.
    pub(super) fn may_lead(&self, origin: Origin) -> bool {
        let mut leases = self.leases.values();
        self.leases.is_empty() || leases.any(|it| it.holder == Holder::Process(origin))
    }

    /// Records and checks a successful write.
    fn record(&mut self, origin: Origin, target: &Target, answer: &Value) -> Option<Violation> {
        if target.resource == "leases" && target.group == "coordination.k8s.io" {
            return self.record_lease(origin, target, answer);
        }
        // Recorders create events, and update them if they repeat soon enough.
        let is_counted = matches!(target.verb, "create" | "delete")
            && target.subresource.is_empty()
            && target.resource != "events";
        if is_counted {
            let counted = mask::without_uids(&target.described(answer));
            *self.counts.entry(counted).or_default() += 1;
        }
        if !self.has_replicas || self.without_lease.contains(&origin) {
            return None;
        }
        let has_term = self.terms.keys().any(|(of, _)| *of == origin);
        let mut holders = self.leases.values().map(|it| it.holder);
        let other = holders.find(|holder| match holder {
            Holder::Process(holder) => *holder != origin,
            // The other client took the lease from a process, which may not have read that yet.
            Holder::Other => !has_term,
        })?;
        let text = format!("{origin} wrote ({target}) while {other} holds the lease");
        Some(Violation::new(oracle::LEADER, text))
    }

    fn record_lease(
        &mut self,
        origin: Origin,
        target: &Target,
        answer: &Value,
    ) -> Option<Violation> {
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
        self.without_lease.remove(&origin);
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
    /// Records that another client has deleted the lease at `path`, or all leases below it. Leader
    /// election cannot protect against such a deletion.
    pub(super) fn record_lease_deletion(&self, path: &str) {
        let mut state = self.state.lock();
        let Writes {
            leases,
            without_lease,
            ..
        } = &mut state.writes;
        leases.retain(|of, lease| {
            let rest = of.strip_prefix(path);
            let is_deleted = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            if is_deleted && let Holder::Process(origin) = lease.holder {
                without_lease.insert(origin);
            }
            !is_deleted
        });
    }

    /// Records that another client has taken a lease. The previous holder may continue until its
    /// lease would have ended. No process may take the lease before that of the other client ends.
    pub(super) fn record_lease_theft(&self, path: &str, spec: &Value) {
        let lease = Lease {
            holder: Holder::Other,
            ends: Instant::now() + duration(spec),
        };
        let writes = &mut self.state.lock().writes;
        writes.leases.insert(path.to_owned(), lease);
    }

    /// Checks a write when the process sends it, because a fault can prevent its arrival.
    pub(crate) fn check_sent_write(&self, origin: Origin, target: &Target) {
        let ended = self
            .state
            .lock()
            .writes
            .time_without_lease(origin, Instant::now());
        if let Some(ago) = ended {
            let text = format!("{origin} sent ({target}) {ago:?} after its lease had ended");
            self.report_violation(oracle::LEADER, text);
        }
    }

    /// Records and checks a successful write of a process.
    pub(crate) fn record_write(&self, origin: Origin, target: &Target, answer: &Value) {
        let violation = self.state.lock().writes.record(origin, target, answer);
        if let Some(violation) = violation {
            self.report(violation);
        }
    }
}
