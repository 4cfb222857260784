//! The index of owner references by owner uid, and the queue of the garbage collector.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::{Key, Stored, Table};

/// The resource and the key of an object.
pub(crate) type Location = (Table, Key);

/// A change that the garbage collector checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Garbage {
    /// An object with owners, or an object whose deletion waits for its dependents, was written.
    Written(Location),
    /// The object with this uid was removed, and other objects have owner references to it.
    OwnerRemoved(String),
    /// An object with owner references to these uids was removed or changed.
    DependentRemoved(Vec<String>),
}

/// The dependents of each owner, and the changes that the garbage collector has not checked.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Whether changes are queued, which only the garbage collector requires.
    pub(super) is_tracked: bool,
    /// The locations of the dependents by the uid of the owner.
    dependents: BTreeMap<String, BTreeSet<Location>>,
    /// The locations of the owners whose deletion waits for their dependents, by uid.
    waiting: BTreeMap<String, Location>,
    pending: VecDeque<Garbage>,
}

/// The finalizer that delays a deletion until no dependent has a reference to the object.
pub(crate) const ORPHAN: &str = "orphan";

/// The finalizer that delays a deletion until the blocking dependents of the object are removed.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

// === impl Owners ===

impl Owners {
    /// Records that `object` replaces `previous`.
    pub(super) fn put(&mut self, location: &Location, previous: Option<&Stored>, object: &Stored) {
        if !self.is_tracked {
            return;
        }
        if let Some(previous) = previous {
            self.unlink(location, previous);
            // The object may no longer block the deletion of an owner.
            let uids = owner_uids(previous.value());
            let waiting = uids.filter(|uid| self.waiting.contains_key(*uid));
            let waiting: Vec<_> = waiting.map(str::to_owned).collect();
            if !waiting.is_empty() {
                self.pending.push_back(Garbage::DependentRemoved(waiting));
            }
        }
        let mut owned = false;
        for uid in owner_uids(object.value()) {
            let dependents = self.dependents.entry(uid.to_owned()).or_default();
            dependents.insert(location.clone());
            owned = true;
        }
        let waits = object.is_terminating()
            && (has_finalizer(object, ORPHAN) || has_finalizer(object, FOREGROUND));
        if waits {
            self.waiting
                .insert(object.uid().to_owned(), location.clone());
        } else {
            self.waiting.remove(object.uid());
        }
        if owned || waits {
            self.pending.push_back(Garbage::Written(location.clone()));
        }
    }

    /// Records that `object` was removed.
    pub(super) fn remove(&mut self, location: &Location, object: &Stored) {
        if !self.is_tracked {
            return;
        }
        self.unlink(location, object);
        self.waiting.remove(object.uid());
        if self.dependents.contains_key(object.uid()) {
            let uid = object.uid().to_owned();
            self.pending.push_back(Garbage::OwnerRemoved(uid));
        }
        let owners: Vec<_> = owner_uids(object.value()).map(str::to_owned).collect();
        if !owners.is_empty() {
            self.pending.push_back(Garbage::DependentRemoved(owners));
        }
    }

    fn unlink(&mut self, location: &Location, object: &Stored) {
        for uid in owner_uids(object.value()) {
            if let Some(dependents) = self.dependents.get_mut(uid) {
                dependents.remove(location);
                if dependents.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
    }

    /// Dequeues the next change.
    pub(super) fn next(&mut self) -> Option<Garbage> {
        self.pending.pop_front()
    }

    /// Returns the locations of the objects with an owner reference to this uid.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Location> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// Returns the location of the object with this uid if its deletion waits for its dependents.
    pub(super) fn waiting(&self, uid: &str) -> Option<&Location> {
        self.waiting.get(uid)
    }
}

/// Returns the owner references of an object.
pub(crate) fn references(object: &Value) -> impl Iterator<Item = &Value> {
    let list = crate::metadata::field(object, "ownerReferences");
    list.and_then(Value::as_array).into_iter().flatten()
}

fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    references(object).filter_map(|reference| reference.get("uid")?.as_str())
}

/// Returns whether an object has this finalizer.
pub(crate) fn has_finalizer(object: &Stored, finalizer: &str) -> bool {
    let list = object.metadata("finalizers").and_then(Value::as_array);
    list.is_some_and(|list| list.iter().any(|it| it == finalizer))
}
