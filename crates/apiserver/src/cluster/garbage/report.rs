//! Events about owner references to objects of other namespaces.
//!
//! Source: kube-controller-manager `pkg/controller/garbagecollector`, Kubernetes 1.36.

use serde_json::{Value, json};

use super::text;
use crate::cluster::Cluster;
use crate::cluster::contents::CONTROLLERS;
use crate::metadata;
use crate::metadata::syntax;
use crate::store::{Key, Location, Stored, references};

/// The maximum number of owners that are searched in all namespaces, for each written object. A search
/// visits all objects of a resource.
const MAX_SEARCHES: usize = 10;

/// The source of the events.
const COMPONENT: &str = "garbage-collector-controller";

// === impl Cluster ===

impl Cluster {
    /// Creates an event for each owner reference of `object` to an object of another namespace.
    pub(super) fn report_foreign_owners(
        &mut self,
        (table, key): &Location,
        object: &Stored,
        now: &str,
    ) {
        let references = references(object.value());
        let absent = references.filter(|reference| self.is_absent_here(reference, key));
        let foreign: Vec<Value> = absent
            .take(MAX_SEARCHES)
            .filter(|reference| self.is_elsewhere(reference, key))
            .cloned()
            .collect();
        let Some(resource) = self.resource_of(table).filter(|_| !foreign.is_empty()) else {
            return;
        };
        let involved = json!({
            "apiVersion": resource.api_version(),
            "kind": resource.info.kind,
            "namespace": *key.namespace,
            "name": *key.name,
            "uid": object.uid(),
        });
        for reference in foreign {
            let event = event(&involved, &reference, now);
            let namespace = metadata::text(&event, "namespace").to_owned();
            // It is not created if it exists, or if the namespace is terminating.
            self.create_as(CONTROLLERS, ["", "events"], Some(&namespace), event, now);
        }
    }

    /// Returns whether a namespaced owner is not in the namespace of `key`.
    fn is_absent_here(&self, reference: &Value, key: &Key) -> bool {
        let resource = self.owner_resource(reference);
        resource.is_some_and(|resource| {
            let here = Key::new(&key.namespace, text(reference, "name"));
            let found = self.store.get(&resource.table, &here);
            let is_here = found.is_some_and(|found| found.uid() == text(reference, "uid"));
            resource.info.namespaced && !is_here
        })
    }

    /// Returns whether an owner is in another namespace than that of `key`.
    fn is_elsewhere(&self, reference: &Value, key: &Key) -> bool {
        let resource = self.owner_resource(reference);
        resource.is_some_and(|resource| {
            let mut all = self.store.objects(&resource.table);
            all.any(|(at, owner)| {
                at.namespace != key.namespace && owner.uid() == text(reference, "uid")
            })
        })
    }
}

/// Returns the event about one reference, whose name depends only on the object and the owner.
fn event(involved: &Value, reference: &Value, now: &str) -> Value {
    let [namespace, name] = ["namespace", "name"].map(|field| text(involved, field));
    let [version, kind, owner, uid] =
        ["apiVersion", "kind", "name", "uid"].map(|field| text(reference, field));
    let short = uid.split('-').next().unwrap_or_default();
    let named = format!("{name}.{short}");
    let name = if syntax::subdomain(&named).is_none() {
        named
    } else {
        uid.to_owned()
    };
    json!({
        "metadata": {
            "name": name,
            "namespace": if namespace.is_empty() { "default" } else { namespace },
        },
        "involvedObject": involved,
        "reason": "OwnerRefInvalidNamespace",
        "message": format!(
            "ownerRef [{version}/{kind}, namespace: {namespace}, name: {owner}, uid: {uid}] does \
             not exist in namespace {namespace:?}"
        ),
        "type": "Warning",
        "source": { "component": COMPONENT },
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    })
}
