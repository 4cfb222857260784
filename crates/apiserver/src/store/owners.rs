//! The index of all owner references by owner, and the queue of garbage collection.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::{Key, Stored, Table};

/// The resource and the key of an object.
pub(crate) type Location = (Table, Key);

/// A change that garbage collection has to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Garbage {
    /// An object with owners, or an object whose deletion waits for its dependents, was written.
    Written(Location),
    /// The object with this uid was removed, and other objects name it as their owner.
    OwnerRemoved(String),
    /// An object that named owners with these uids was removed or changed.
    DependentRemoved(Vec<String>),
}

/// The dependents of each owner, and the changes that garbage collection has not checked.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Whether changes are recorded, which only garbage collection needs.
    pub(super) is_tracked: bool,
    /// The dependents by uid of the owner.
    dependents: BTreeMap<String, BTreeSet<Location>>,
    /// The locations of owners that wait for their dependents, by uid.
    waiting: BTreeMap<String, Location>,
    pending: VecDeque<Garbage>,
}

/// The finalizer that keeps an object until no dependent refers to it.
pub(crate) const ORPHAN: &str = "orphan";

/// The finalizer that keeps an object until its blocking dependents were removed.
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
            // It may not block an owner any more that waits for it.
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

    /// The next change to check.
    pub(super) fn next(&mut self) -> Option<Garbage> {
        self.pending.pop_front()
    }

    /// The locations of the objects that name the object with this uid as an owner.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Location> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// The location of the object with this uid, if it waits for its dependents.
    pub(super) fn waiting(&self, uid: &str) -> Option<&Location> {
        self.waiting.get(uid)
    }
}

/// The references of an object to its owners.
pub(crate) fn references(object: &Value) -> impl Iterator<Item = &Value> {
    let list = crate::metadata::field(object, "ownerReferences");
    list.and_then(Value::as_array).into_iter().flatten()
}

fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    references(object).filter_map(|reference| reference.get("uid")?.as_str())
}

/// Whether an object has this finalizer.
pub(crate) fn has_finalizer(object: &Stored, finalizer: &str) -> bool {
    let list = object.metadata("finalizers").and_then(Value::as_array);
    list.is_some_and(|list| list.iter().any(|it| it == finalizer))
}
