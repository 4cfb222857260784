//! Garbage collection: deletes objects whose owners do not exist, and keeps owners until their
//! dependents were deleted.
//!
//! It runs within the request that causes it, so that tests do not have to wait for it. It treats
//! an object like kube-controller-manager does:
//!
//! | object | result |
//! |--|--|
//! | none of its owners exists | it is deleted |
//! | some of its owners exist | the references to the other owners are removed |
//! | it is being deleted with `orphanDependents` | it is removed when no object names it as an owner |
//! | it is being deleted in the foreground | its dependents without another owner are deleted; it is removed when those that block it were removed |
//!
//! An owner exists if the object of that kind and name has the uid of the reference. If this cannot
//! be decided, the object is not changed: for an owner of a kind that is not served, and for a
//! namespaced owner of a cluster-scoped object. An owner in another namespace is reported as an
//! event.
//!
//! Source: kube-controller-manager `pkg/controller/garbagecollector`, Kubernetes 1.36.

use std::sync::Arc;

use serde_json::Value;

use super::contents::CONTROLLERS;
use super::{Cluster, DEFINITIONS, NAMESPACES, Part, ownership};
use crate::metadata;
use crate::registry::Resource;
use crate::store::Key;
use crate::store::{FOREGROUND, Garbage, Location, ORPHAN, has_finalizer, references};
use crate::wire::{DeleteOptions, Propagation, WriteOptions};

mod report;

/// The state of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// It exists.
    Solid,
    /// It does not exist.
    Absent,
    /// It is terminating, and waits for its dependents.
    Waiting,
    /// Its state cannot be decided.
    Unknown,
}

/// The reason for which an object is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// It was written.
    Written,
    /// One of its owners was removed, or waits for it.
    Owner,
    /// One of its dependents was removed, or no longer blocks it.
    Dependent,
}

// === impl Cluster ===

impl Cluster {
    /// Collects garbage until there is none. Returns whether there was any.
    pub(super) fn collect_garbage(&mut self, now: &str) -> bool {
        let mut any = false;
        while let Some(garbage) = self.store.next_garbage() {
            any = true;
            match garbage {
                Garbage::Written(location) => self.attend(&location, Cause::Written, now),
                Garbage::OwnerRemoved(uid) => {
                    for dependent in self.store.dependents(&uid) {
                        self.attend(&dependent, Cause::Owner, now);
                    }
                }
                Garbage::DependentRemoved(owners) => {
                    for owner in owners {
                        if let Some(owner) = self.store.waiting_owner(&owner) {
                            self.attend(&owner, Cause::Dependent, now);
                        }
                    }
                }
            }
        }
        any
    }

    /// Checks one object, like the garbage collector of Kubernetes for this cause.
    fn attend(&mut self, location: &Location, cause: Cause, now: &str) {
        let Some(mut object) = self.store.get(&location.0, &location.1).cloned() else {
            return;
        };
        if cause == Cause::Written {
            self.report_foreign_owners(location, &object, now);
        }
        if object.is_terminating() {
            if has_finalizer(&object, ORPHAN) {
                self.orphan_dependents(location, object.uid(), now);
            } else if has_finalizer(&object, FOREGROUND) {
                self.delete_dependents(location, object.uid(), cause, now);
            }
            return;
        }
        let owners: Vec<(String, Owner)> = references(object.value())
            .map(|reference| {
                let uid = text(reference, "uid").to_owned();
                (uid, self.owner(reference, &location.1))
            })
            .collect();
        let is = |wanted| owners.iter().any(|(_, owner)| *owner == wanted);
        if owners.is_empty() || is(Owner::Unknown) {
            return;
        }
        // A new dependent of a waiting owner is kept until another dependent is removed.
        if cause == Cause::Written && !is(Owner::Absent) {
            return;
        }
        if is(Owner::Solid) {
            let gone = owners.iter().filter(|(_, owner)| *owner != Owner::Solid);
            let gone: Vec<_> = gone.map(|(uid, _)| uid.as_str()).collect();
            if !gone.is_empty() {
                self.drop_references(location, &gone, now);
            }
            return;
        }
        let dependents = self.store.dependents(object.uid());
        let propagation = if is(Owner::Waiting) && !dependents.is_empty() {
            // Without this, two objects that own each other would wait for each other forever.
            if dependents.iter().any(|it| self.waits_for_dependents(it)) {
                self.unblock(location, now);
                if let Some(unblocked) = self.store.get(&location.0, &location.1) {
                    object = unblocked.clone();
                }
            }
            Some(Propagation::Foreground)
        } else {
            // The propagation policy is that of its finalizers, or else `Background`.
            None
        };
        let options = DeleteOptions {
            propagation,
            ..DeleteOptions::default()
        };
        let (table, key) = location;
        match &**table {
            NAMESPACES => _ = self.end_namespace(key, &object, &options, now),
            DEFINITIONS => _ = self.end_definition(key, &object, now),
            _ => _ = self.end(table, key, &object, &options, now),
        }
    }

    /// The state of the owner that an object at `key` refers to.
    fn owner(&self, reference: &Value, key: &Key) -> Owner {
        let Some(resource) = self.owner_resource(reference) else {
            return Owner::Unknown;
        };
        if resource.info.namespaced && key.namespace.is_empty() {
            return Owner::Unknown;
        }
        let namespace = if resource.info.namespaced {
            &*key.namespace
        } else {
            ""
        };
        let owner = Key::new(namespace, text(reference, "name"));
        match self.store.get(&resource.table, &owner) {
            Some(owner) if owner.uid() != text(reference, "uid") => Owner::Absent,
            Some(owner) if owner.is_terminating() && has_finalizer(owner, FOREGROUND) => {
                Owner::Waiting
            }
            Some(_) => Owner::Solid,
            None => Owner::Absent,
        }
    }

    /// The resource of an owner, if its kind is served.
    fn owner_resource(&self, reference: &Value) -> Option<&Arc<Resource>> {
        let api_version = text(reference, "apiVersion");
        let (group, _) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = text(reference, "kind");
        let mut all = self.registry.iter();
        all.find(|resource| resource.info.group == group && resource.info.kind == kind)
    }

    /// Removes the references to an object from its dependents, and then removes the object.
    fn orphan_dependents(&mut self, location: &Location, uid: &str, now: &str) {
        for dependent in self.store.dependents(uid) {
            self.drop_references(&dependent, &[uid], now);
        }
        self.drop_finalizer(location, ORPHAN, now);
    }

    /// Deletes the dependents of an object that have no other owner; only those that block it, if
    /// another dependent was the cause. If none of the remaining ones blocks it, removes the object.
    fn delete_dependents(&mut self, location: &Location, uid: &str, cause: Cause, now: &str) {
        for dependent in self.store.dependents(uid) {
            let found = self.store.get(&dependent.0, &dependent.1);
            let is_affected = found.is_some_and(|found| {
                !found.is_terminating() && (cause == Cause::Written || blocks(found.value(), uid))
            });
            if is_affected {
                self.attend(&dependent, Cause::Owner, now);
            }
        }
        let remaining = self.store.dependents(uid);
        let is_blocked = remaining.iter().any(|(table, key)| {
            let dependent = self.store.get(table, key);
            dependent.is_some_and(|dependent| blocks(dependent.value(), uid))
        });
        if !is_blocked {
            self.drop_finalizer(location, FOREGROUND, now);
        }
    }

    /// Whether the object is being deleted in the foreground.
    fn waits_for_dependents(&self, (table, key): &Location) -> bool {
        let object = self.store.get(table, key);
        object.is_some_and(|object| object.is_terminating() && has_finalizer(object, FOREGROUND))
    }

    fn drop_references(&mut self, location: &Location, uids: &[&str], now: &str) {
        self.change(location, now, |metadata| {
            let list = metadata.get_mut("ownerReferences");
            if let Some(list) = list.and_then(Value::as_array_mut) {
                list.retain(|reference| !uids.contains(&text(reference, "uid")));
            }
        });
    }

    /// Clears `blockOwnerDeletion` in the owner references of an object.
    fn unblock(&mut self, location: &Location, now: &str) {
        self.change(location, now, |metadata| {
            let list = metadata.get_mut("ownerReferences");
            for reference in list.and_then(Value::as_array_mut).into_iter().flatten() {
                if reference.get("blockOwnerDeletion") == Some(&Value::Bool(true)) {
                    reference["blockOwnerDeletion"] = false.into();
                }
            }
        });
    }

    fn drop_finalizer(&mut self, location: &Location, finalizer: &str, now: &str) {
        self.change(location, now, |metadata| {
            let list = metadata.get_mut("finalizers");
            if let Some(list) = list.and_then(Value::as_array_mut) {
                list.retain(|it| it != finalizer);
            }
        });
    }

    /// Changes the metadata of an object with a patch, like a client.
    fn change(
        &mut self,
        (table, key): &Location,
        now: &str,
        change: impl FnOnce(&mut serde_json::Map<String, Value>),
    ) {
        let Some(object) = self.store.get(table, key).cloned() else {
            return;
        };
        let mut value = object.value().clone();
        let metadata = metadata::of(&mut value);
        change(metadata);
        metadata.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
        if object.is_terminating() && metadata::is_unfinalized(&value) && &**table != NAMESPACES {
            self.store.remove(table, key);
            if &**table == DEFINITIONS {
                self.retire_definition(key);
            }
            return;
        }
        if let Some(resource) = self.resource_of(table).cloned() {
            let options = WriteOptions {
                manager: CONTROLLERS.to_owned(),
                ..WriteOptions::default()
            };
            let part = Part::Main;
            ownership::track(&resource, part, object.value(), &mut value, &options, now);
        }
        self.store.put(table, key, value, object.schema());
    }

    /// The resource whose objects are stored in `table`, in the version in which they are.
    fn resource_of(&self, table: &str) -> Option<&Arc<Resource>> {
        let mut all = self.registry.iter();
        all.find(|resource| &*resource.table == table && resource.info.storage)
    }
}

/// Whether an owner reference of the object has `blockOwnerDeletion`.
fn blocks(object: &Value, uid: &str) -> bool {
    references(object).any(|reference| {
        text(reference, "uid") == uid
            && reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
    })
}

fn text<'a>(reference: &'a Value, field: &str) -> &'a str {
    reference
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
