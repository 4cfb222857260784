//! The owner references of all objects, by owner.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::{Key, Stored, Table};

/// An object, by its place.
pub(crate) type Location = (Table, Key);

/// Something that garbage collection has to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Garbage {
    /// An object with owners, or one whose deletion is about its dependents, was written.
    Written(Location),
    /// An object with this uid is gone, and others name it as their owner.
    OwnerGone(String),
    /// An object that named these owners, as uid, is gone, or has changed.
    DependentGone(Vec<String>),
}

/// The dependents of each owner, and what garbage collection has not looked at.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Whether anything is noted; without garbage collection nothing reads it.
    pub(super) is_tracked: bool,
    /// By uid of the owner.
    dependents: BTreeMap<String, BTreeSet<Location>>,
    /// By uid: where owners are whose dependents are deleted first.
    waiting: BTreeMap<String, Location>,
    pending: VecDeque<Garbage>,
}

/// What keeps an object until its dependents have no reference to it.
pub(crate) const ORPHAN: &str = "orphan";

/// What keeps an object until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

// === impl Owners ===

impl Owners {
    /// Notes that `object` has taken the place of `previous`.
    pub(super) fn put(&mut self, location: &Location, previous: Option<&Stored>, object: &Stored) {
        if !self.is_tracked {
            return;
        }
        if let Some(previous) = previous {
            self.unlink(location, previous);
            // It may block an owner no more that waits for it.
            let uids = owner_uids(previous.value());
            let waiting = uids.filter(|uid| self.waiting.contains_key(*uid));
            let waiting: Vec<_> = waiting.map(str::to_owned).collect();
            if !waiting.is_empty() {
                self.pending.push_back(Garbage::DependentGone(waiting));
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

    /// Notes that `object` is gone.
    pub(super) fn remove(&mut self, location: &Location, object: &Stored) {
        if !self.is_tracked {
            return;
        }
        self.unlink(location, object);
        self.waiting.remove(object.uid());
        if self.dependents.contains_key(object.uid()) {
            let uid = object.uid().to_owned();
            self.pending.push_back(Garbage::OwnerGone(uid));
        }
        let owners: Vec<_> = owner_uids(object.value()).map(str::to_owned).collect();
        if !owners.is_empty() {
            self.pending.push_back(Garbage::DependentGone(owners));
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

    /// The next thing to look at.
    pub(super) fn next(&mut self) -> Option<Garbage> {
        self.pending.pop_front()
    }

    /// Those who name the object with this uid as an owner.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Location> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// Where the object with this uid is, if it waits for its dependents.
    pub(super) fn waiting(&self, uid: &str) -> Option<&Location> {
        self.waiting.get(uid)
    }
}

/// The references of an object to its owners.
pub(crate) fn references(object: &Value) -> impl Iterator<Item = &Value> {
    let list = object.pointer("/metadata/ownerReferences");
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
