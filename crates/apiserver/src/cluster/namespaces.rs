//! The deletion of a namespace: first its contents, then the namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::contents::CONTROLLERS;
use super::delete::finalizers_of_deletion;
use super::pods::PODS;
use super::{Cluster, Deleted, NAMESPACES, Part, ownership};
use crate::metadata;
use crate::store::{Key, Stored, Table};
use crate::wire::{DeleteOptions, WriteOptions};

/// The maximum number of remaining objects of a terminating namespace that are counted after each
/// write. While more remain, its first conditions are kept.
const MAX_COUNTED: usize = 1_000;

// === impl Cluster ===

impl Cluster {
    /// Marks a namespace as terminating, and begins to delete its contents.
    pub(super) fn end_namespace(
        &mut self,
        key: &Key,
        object: &Arc<Stored>,
        options: &DeleteOptions,
        now: &str,
    ) -> Deleted {
        let table: Table = NAMESPACES.into();
        if object.is_terminating() {
            return Deleted::Dying(object.clone());
        }
        let value = terminating(object, options, now);
        let dying = self.store.put(&table, key, value, 0);
        self.dying_namespaces.insert(key.clone());
        self.end_contents(&key.name, |table| table == PODS, now);
        self.namespaces_with_pods.insert(key.clone());
        self.end_other_contents(key, now);
        Deleted::Dying(dying)
    }

    /// Begins to delete the contents of a namespace except its pods, once no pod is left.
    fn end_other_contents(&mut self, key: &Key, now: &str) {
        if self.namespaces_with_pods.contains(key) && !self.has_pods(&key.name) {
            self.namespaces_with_pods.remove(key);
            self.end_contents(&key.name, |table| table != PODS, now);
        }
    }

    fn has_pods(&self, namespace: &str) -> bool {
        let mut contents = self.store.in_namespace(namespace);
        contents.any(|(table, _)| &**table == PODS)
    }

    fn end_contents(&mut self, namespace: &str, is_wanted: impl Fn(&str) -> bool, now: &str) {
        let contents = self.store.in_namespace(namespace);
        let contents: Vec<(Table, Key)> = contents
            .filter(|(table, _)| is_wanted(table))
            .map(|(table, key)| (table.clone(), key.clone()))
            .collect();
        for (table, key) in contents {
            if let Some(object) = self.store.get(&table, &key).cloned() {
                self.end(&table, &key, &object, &DeleteOptions::default(), now);
            }
        }
    }

    /// Removes terminating namespaces that are empty, and updates the conditions of the others.
    pub(super) fn settle_namespaces(&mut self, now: &str) {
        let dying: Vec<Key> = self.dying_namespaces.iter().cloned().collect();
        for key in dying {
            let Some(object) = self.store.get(NAMESPACES, &key).cloned() else {
                self.dying_namespaces.remove(&key);
                self.namespaces_with_pods.remove(&key);
                continue;
            };
            self.end_other_contents(&key, now);
            let is_empty = self.store.in_namespace(&key.name).next().is_none();
            let others = object
                .value()
                .pointer("/spec/finalizers")
                .and_then(Value::as_array)
                .is_some_and(|list| list.iter().any(|finalizer| finalizer != "kubernetes"));
            if is_empty && !others && !object.has_finalizers() {
                self.store.remove(&NAMESPACES.into(), &key);
                self.dying_namespaces.remove(&key);
            } else {
                self.write_conditions(&key, &object, now);
            }
        }
    }

    /// Writes the conditions of a terminating namespace, if they have changed.
    fn write_conditions(&mut self, key: &Key, namespace: &Arc<Stored>, now: &str) {
        let old = namespace.value().pointer("/status/conditions");
        let old = old.and_then(Value::as_array).cloned().unwrap_or_default();
        let contents = self.store.in_namespace(&key.name);
        let counted = contents.take(MAX_COUNTED + 1).count();
        if !old.is_empty() && counted > MAX_COUNTED {
            return;
        }
        let mut new = old.clone();
        for (kind, is_true, reason, message) in self.conditions(&key.name) {
            let status = if is_true { "True" } else { "False" };
            let mut condition = json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": now,
            });
            let same = |it: &Value| it["message"] == message && it["status"] == status;
            match new.iter_mut().find(|it| it["type"] == kind) {
                Some(there) if same(there) => {}
                Some(there) => {
                    // The time of the condition is that of the last change of its status.
                    if there["status"] == status {
                        condition["lastTransitionTime"] = there["lastTransitionTime"].take();
                    }
                    *there = condition;
                }
                None => new.push(condition),
            }
        }
        if new == old {
            return;
        }
        let mut value = namespace.value().clone();
        value["status"]["conditions"] = new.into();
        if let Some(resource) = self.registry.find("", "v1", NAMESPACES).cloned() {
            let options = WriteOptions {
                manager: CONTROLLERS.to_owned(),
                ..WriteOptions::default()
            };
            let live: &Value = namespace.value();
            ownership::track(&resource, Part::Status, live, &mut value, &options, now);
        }
        self.store.put(&NAMESPACES.into(), key, value, 0);
    }

    /// The conditions of a namespace whose contents are being deleted: type, status, reason and
    /// message.
    fn conditions(&self, namespace: &str) -> [(&'static str, bool, &'static str, String); 5] {
        let mut resources: BTreeMap<&str, usize> = BTreeMap::new();
        let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
        // While pods remain, the namespace controller has not counted the contents.
        let counts = !self.has_pods(namespace);
        let contents = self.store.in_namespace(namespace).filter(|_| counts);
        for (table, key) in contents {
            *resources.entry(table).or_default() += 1;
            let object = self.store.get(table, key);
            let list = object.and_then(|it| it.metadata("finalizers")?.as_array());
            for finalizer in list.into_iter().flatten().filter_map(Value::as_str) {
                *finalizers.entry(finalizer).or_default() += 1;
            }
        }
        let resources = resources.into_iter().map(|(table, count)| {
            // The name of a resource in the core group ends with the dot.
            let dot = if table.contains('.') { "" } else { "." };
            format!("{table}{dot} has {count} resource instances")
        });
        let resources = resources.collect::<Vec<_>>().join(", ");
        let finalizers = finalizers
            .into_iter()
            .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
        let finalizers = finalizers.collect::<Vec<_>>().join(", ");
        let done = |kind, reason, message: &str| (kind, false, reason, message.to_owned());
        [
            done(
                "NamespaceDeletionDiscoveryFailure",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            done(
                "NamespaceDeletionGroupVersionParsingFailure",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            done(
                "NamespaceDeletionContentFailure",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            if resources.is_empty() {
                let message = "All content successfully removed";
                done("NamespaceContentRemaining", "ContentRemoved", message)
            } else {
                let message = format!("Some resources are remaining: {resources}");
                (
                    "NamespaceContentRemaining",
                    true,
                    "SomeResourcesRemain",
                    message,
                )
            },
            if finalizers.is_empty() {
                let message = "All content-preserving finalizers finished";
                done(
                    "NamespaceFinalizersRemaining",
                    "ContentHasNoFinalizers",
                    message,
                )
            } else {
                let message =
                    format!("Some content in the namespace has finalizers remaining: {finalizers}");
                (
                    "NamespaceFinalizersRemaining",
                    true,
                    "SomeFinalizersRemain",
                    message,
                )
            },
        ]
    }
}

/// A namespace, marked as terminating, with the finalizer that `options` request.
pub(super) fn terminating(namespace: &Stored, options: &DeleteOptions, now: &str) -> Value {
    let mut value = namespace.value().clone();
    metadata::mark_dying(&mut value, now);
    // A namespace waits for its contents, and has no grace period.
    metadata::of(&mut value).remove("deletionGracePeriodSeconds");
    let finalizers = finalizers_of_deletion(namespace, options);
    if !finalizers.is_empty() || namespace.has_finalizers() {
        metadata::of(&mut value).insert("finalizers".to_owned(), finalizers.into());
    }
    if !value.get("status").is_some_and(Value::is_object) {
        value["status"] = json!({});
    }
    value["status"]["phase"] = "Terminating".into();
    value
}
