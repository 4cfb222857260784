//! The versions of the deleted objects of a kind, oldest delete first. *(pure)*

use std::collections::{HashMap, VecDeque};

use windlass_informer::Uid;

use super::version::Version;

/// The versions of deleted objects by uid.
#[derive(Default)]
pub(super) struct Tombstones {
    versions: HashMap<Uid, Version>,
    /// The same uids, oldest first.
    order: VecDeque<Uid>,
}

// === impl Tombstones ===

impl Tombstones {
    /// The maximum number of tombstones: 1 MB.
    pub(super) const MAX: usize = 10_000;

    /// Adds a tombstone. `uid` must not have one.
    pub(super) fn insert(&mut self, uid: Uid, version: Version) {
        self.versions.insert(uid.clone(), version);
        self.order.push_back(uid);
    }

    pub(super) fn get(&self, uid: &Uid) -> Option<Version> {
        self.versions.get(uid).copied()
    }

    /// Removes the tombstone of `uid`, if there is one.
    pub(super) fn remove(&mut self, uid: &Uid) {
        if self.versions.remove(uid).is_some() {
            self.order.retain(|it| it != uid);
        }
    }

    /// Returns the version of the oldest tombstone.
    pub(super) fn oldest(&self) -> Option<Version> {
        self.order.front().and_then(|uid| self.get(uid))
    }

    pub(super) fn remove_oldest(&mut self) {
        if let Some(uid) = self.order.pop_front() {
            self.versions.remove(&uid);
        }
    }

    /// Whether there are more than the maximum.
    pub(super) fn is_over(&self) -> bool {
        self.order.len() > Self::MAX
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}
