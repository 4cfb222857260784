//! The lifecycle of a custom resource definition: accepted, established, served, terminating,
//! deleted.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Cluster, DEFINITIONS, Deleted, Part, names, ownership};
use crate::metadata;
use crate::registry::{CRD_FINALIZER, Definition, Resource};
use crate::store::{Key, Stored, Table};
use crate::wire::{DeleteOptions, WriteOptions};

/// The field with the grace period of a deletion.
const GRACE: &str = "deletionGracePeriodSeconds";

// === impl Cluster ===

impl Cluster {
    /// Records in `managedFields` of a definition that the server owns its status.
    pub(super) fn own_status(&self, before: &Value, value: &mut Value, now: &str) {
        let group = "apiextensions.k8s.io";
        if let Some(resource) = self.registry.find(group, "v1", "customresourcedefinitions") {
            let options = WriteOptions {
                manager: "kube-apiserver".to_owned(),
                ..WriteOptions::default()
            };
            ownership::track(resource, Part::Status, before, value, &options, now);
        }
    }

    /// Serves the resources of an established definition. A resource with the name of a built-in
    /// resource, or in a version with built-in resources, is not served, as on the real server.
    pub(super) fn serve(&mut self, key: &Key) {
        let Some(object) = self.store.get(DEFINITIONS, key).cloned() else {
            return;
        };
        let definition = Definition::of(object.value());
        if !definition.is_established() {
            return;
        }
        self.schemas += 1;
        let (group, plural) = (definition.group(), definition.plural());
        if self.is_built_in(key) {
            return;
        }
        let before = self.registry.versions(group, plural);
        let mut resources = definition.resources(self.schemas, before, &self.pattern_memory);
        resources.retain(|resource| !self.registry.has_built_in(group, &resource.info.version));
        self.registry.remove(group, plural);
        self.registry.insert(resources);
    }

    /// Marks a definition as terminating, and begins to delete the objects of its kind.
    pub(super) fn end_definition(&mut self, key: &Key, object: &Arc<Stored>, now: &str) -> Deleted {
        let mut value = object.value().clone();
        if !metadata::mark_dying(&mut value, now) {
            // As on the real server, the second deletion sets the grace period.
            let grace = metadata::of(&mut value).insert(GRACE.to_owned(), 0.into());
            if grace.is_some() {
                return Deleted::Dying(object.clone());
            }
            return Deleted::Dying(self.store.put(&DEFINITIONS.into(), key, value, 0));
        }
        let finalizers = metadata::of(&mut value)
            .entry("finalizers")
            .or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut() {
            finalizers.push(CRD_FINALIZER.into());
        }
        // Like a namespace, a definition waits for other objects, and has no grace period.
        let metadata = metadata::of(&mut value);
        metadata.remove(GRACE);
        if let Some(generation) = object.metadata("generation") {
            metadata.insert("generation".to_owned(), generation.clone());
        }
        names::set(
            &mut value,
            "Terminating",
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            now,
        );
        let dying = self.store.put(&DEFINITIONS.into(), key, value.clone(), 0);
        let before = value.clone();
        names::set(
            &mut value,
            "Terminating",
            "True",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
            now,
        );
        self.own_status(&before, &mut value, now);
        self.store.put(&DEFINITIONS.into(), key, value, 0);
        self.serve(key);
        self.dying_definitions.insert(key.clone());
        let table = table_of(key);
        let objects: Vec<(Key, Arc<Stored>)> = self
            .objects_of(key)
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, object) in objects {
            self.end(&table, &key, &object, &DeleteOptions::default(), now);
        }
        Deleted::Dying(dying)
    }

    /// Removes terminating definitions whose objects were removed.
    pub(super) fn settle_definitions(&mut self, now: &str) {
        let empty: Vec<Key> = self
            .dying_definitions
            .iter()
            .filter(|key| self.objects_of(key).next().is_none())
            .cloned()
            .collect();
        for key in empty {
            self.dying_definitions.remove(&key);
            let Some(object) = self.store.get(DEFINITIONS, &key).cloned() else {
                continue;
            };
            let mut value = object.value().clone();
            let finalizers = value
                .pointer_mut("/metadata/finalizers")
                .and_then(Value::as_array_mut);
            if let Some(finalizers) = finalizers {
                finalizers.retain(|finalizer| finalizer != CRD_FINALIZER);
            }
            if metadata::is_unfinalized(&value) {
                self.store.remove(&DEFINITIONS.into(), &key);
                self.retire(&key);
            } else {
                // A client's finalizer keeps the definition, without any objects. As on the real
                // server, objects can be created again.
                let (reason, message) = if Definition::of(&value).is_established() {
                    ("InstanceDeletionCompleted", "removed all instances")
                } else {
                    ("NeverEstablished", "resource was never established")
                };
                let before = value.clone();
                names::set(&mut value, "Terminating", "False", reason, message, now);
                self.own_status(&before, &mut value, now);
                self.store.put(&DEFINITIONS.into(), &key, value, 0);
                self.serve(&key);
            }
        }
    }

    /// The `generation` of the definition of a custom resource: it changes with the schema and the
    /// served versions.
    pub(crate) fn definition_generation(&self, resource: &Resource) -> Option<u64> {
        let key = Key::new("", &resource.table);
        let definition = self.store.get(DEFINITIONS, &key)?;
        definition.metadata("generation")?.as_u64()
    }

    /// Stops serving the resources of the object at `key`, if it is a definition.
    pub(super) fn forget_definition(&mut self, resource: &Resource, key: &Key) {
        if &*resource.table == DEFINITIONS {
            self.retire_definition(key);
        }
    }

    /// Stops serving the resources of the definition at `key`.
    pub(super) fn retire_definition(&mut self, key: &Key) {
        self.dying_definitions.remove(key);
        self.retire(key);
    }

    /// The objects of a definition. Empty if a built-in resource has its name.
    fn objects_of(&self, key: &Key) -> impl Iterator<Item = (&Key, &Arc<Stored>)> {
        let objects = (!self.is_built_in(key)).then(|| self.store.objects(&key.name));
        objects.into_iter().flatten()
    }

    /// Whether a built-in resource has the name of the definition at `key`.
    fn is_built_in(&self, key: &Key) -> bool {
        let versions = key
            .name
            .split_once('.')
            .map(|(plural, group)| self.registry.versions(group, plural));
        let mut versions = versions.into_iter().flatten();
        versions.any(|resource| !resource.info.custom)
    }

    fn retire(&mut self, key: &Key) {
        self.released_names.insert(key.clone());
        if self.is_built_in(key) {
            return;
        }
        // The name of a definition is the plural name and the group of its resource.
        if let Some((plural, group)) = key.name.split_once('.') {
            self.registry.remove(group, plural);
        }
        self.retired.push(table_of(key));
    }
}

/// The table of the objects of a definition, which has the name of the definition.
fn table_of(key: &Key) -> Table {
    key.name.clone()
}
