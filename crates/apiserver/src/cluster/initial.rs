//! The objects that a kube-apiserver creates at its start: namespaces, the system priority classes,
//! and the service `kubernetes`.

use serde_json::{Value, json};

use super::Cluster;
use crate::wire::WriteOptions;

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The system priority classes: name, value and description.
const PRIORITY_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another \
         node if necessary.",
    ),
];

/// The initial objects: group, plural name of the resource, namespace and object.
pub(super) fn objects() -> Vec<(&'static str, &'static str, Option<&'static str>, Value)> {
    let namespaces = NAMESPACES.map(|name| {
        let object = json!({ "metadata": { "name": name } });
        ("", "namespaces", None, object)
    });
    let classes = PRIORITY_CLASSES.map(|(name, value, description)| {
        let object = json!({
            "metadata": { "name": name },
            "value": value,
            "description": description,
        });
        ("scheduling.k8s.io", "priorityclasses", None, object)
    });
    let labels = json!({ "component": "apiserver", "provider": "kubernetes" });
    let service = json!({
        "metadata": { "name": "kubernetes", "labels": labels },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ipFamilyPolicy": "SingleStack",
            "ports": [{ "name": "https", "port": 443, "targetPort": 6443 }],
        },
    });
    let service = ("", "services", Some("default"), service);
    let objects = namespaces.into_iter().chain(classes).chain([service]);
    objects.collect()
}

/// Whether a priority class is a system priority class.
pub(super) fn is_system_class(name: &str) -> bool {
    PRIORITY_CLASSES.iter().any(|(class, ..)| *class == name)
}

// === impl Cluster ===

impl Cluster {
    /// Creates an object with the field manager of kube-apiserver.
    pub(super) fn create_initial(
        &mut self,
        group: &str,
        plural: &str,
        namespace: Option<&str>,
        object: Value,
        now: &str,
    ) {
        let manager = "kube-apiserver";
        let created = self.create_as(manager, [group, plural], namespace, object, now);
        debug_assert!(created, "nothing else is there yet");
    }

    /// Creates an object with the field manager `manager`. Returns whether it was created: a quota
    /// can reject it.
    pub(super) fn create_as(
        &mut self,
        manager: &str,
        [group, plural]: [&str; 2],
        namespace: Option<&str>,
        object: Value,
        now: &str,
    ) -> bool {
        let Some(resource) = self.registry.find(group, "v1", plural).cloned() else {
            return false;
        };
        let options = WriteOptions {
            manager: manager.to_owned(),
            ..WriteOptions::default()
        };
        let created = self.create(&resource, namespace, object, &options, now);
        created.is_ok()
    }
}
