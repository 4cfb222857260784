//! The time to live of events. *(pure)*
//!
//! An event is deleted when a certain time has passed since its last write, at the next write or
//! request for events.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Cluster;
use crate::registry::Resource;
use crate::store::Key;

/// The tables of the events of both API groups.
const EVENTS: &str = "events";

/// The expiry times of events.
#[derive(Debug)]
pub(super) struct Expiry {
    /// The time to live. Zero if events do not expire.
    ttl: Duration,
    /// The expiry time of each event, since the start of the server. A deleted event remains here
    /// until this time.
    due: BTreeMap<Key, Duration>,
    /// No event expires before this time.
    next: Duration,
}

/// Returns whether objects of `resource` expire.
pub(crate) fn expires(resource: &Resource) -> bool {
    &*resource.table == EVENTS
}

// === impl Expiry ===

impl Expiry {
    pub(super) fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            due: BTreeMap::new(),
            next: Duration::MAX,
        }
    }

    /// Sets the expiry time of the event at `key`, which was written.
    pub(super) fn renew(&mut self, key: &Key, now: Duration) {
        if self.ttl > Duration::ZERO {
            let due = now.saturating_add(self.ttl);
            self.due.insert(key.clone(), due);
            self.next = self.next.min(due);
        }
    }

    /// Removes and returns the keys of the events that have expired.
    fn take_expired(&mut self, now: Duration) -> Vec<Key> {
        if now < self.next {
            return Vec::new();
        }
        let mut expired = Vec::new();
        self.due.retain(|key, due| {
            let is_live = *due > now;
            if !is_live {
                expired.push(key.clone());
            }
            is_live
        });
        self.next = self.due.values().min().copied().unwrap_or(Duration::MAX);
        expired
    }
}

// === impl Cluster ===

impl Cluster {
    /// Deletes the events that have expired.
    pub(crate) fn delete_expired_events(&mut self) {
        let now = self.store.now();
        for key in self.expiry.take_expired(now) {
            self.store.remove(&EVENTS.into(), &key);
        }
    }
}
