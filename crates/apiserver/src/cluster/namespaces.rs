//! The end of a namespace: first what is in it, then itself.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Cluster, Deleted, NAMESPACES};
use crate::metadata;
use crate::store::{Key, Stored, Table};
use crate::wire::DeleteOptions;

// === impl Cluster ===

impl Cluster {
    /// Marks a namespace as terminating, and begins to delete what is in it.
    pub(super) fn end_namespace(&mut self, key: &Key, object: &Arc<Stored>, now: &str) -> Deleted {
        let table: Table = NAMESPACES.into();
        if object.is_terminating() {
            return Deleted::Dying(object.clone());
        }
        let value = terminating(object, now);
        let dying = self.store.put(&table, key, value, 0);
        self.dying_namespaces.insert(key.clone());
        let contents: Vec<(Table, Key)> = self
            .store
            .in_namespace(&key.name)
            .map(|(table, key)| (table.clone(), key.clone()))
            .collect();
        for (table, key) in contents {
            if let Some(object) = self.store.get(&table, &key).cloned() {
                self.end(&table, &key, &object, &DeleteOptions::default(), now);
            }
        }
        Deleted::Dying(dying)
    }

    /// Lets namespaces go that are terminating and empty.
    pub(super) fn settle_namespaces(&mut self) {
        let empty: Vec<Key> = self
            .dying_namespaces
            .iter()
            .filter(|key| self.store.in_namespace(&key.name).next().is_none())
            .cloned()
            .collect();
        for key in empty {
            let Some(object) = self.store.get(NAMESPACES, &key) else {
                self.dying_namespaces.remove(&key);
                continue;
            };
            let others = object
                .value()
                .pointer("/spec/finalizers")
                .and_then(Value::as_array)
                .is_some_and(|list| list.iter().any(|finalizer| finalizer != "kubernetes"));
            if !others && !object.has_finalizers() {
                self.store.remove(&NAMESPACES.into(), &key);
                self.dying_namespaces.remove(&key);
            }
        }
    }
}

/// A namespace, marked as terminating.
pub(super) fn terminating(namespace: &Stored, now: &str) -> Value {
    let mut value = namespace.value().clone();
    metadata::mark_dying(&mut value, now);
    // What keeps a namespace is its contents, not a grace period.
    metadata::of(&mut value).remove("deletionGracePeriodSeconds");
    if !value.get("status").is_some_and(Value::is_object) {
        value["status"] = json!({});
    }
    value["status"]["phase"] = "Terminating".into();
    value
}
