//! Objects that the controllers of a cluster put into each namespace: the service account
//! `default`, and the config map `kube-root-ca.crt`. Both are recreated when they are deleted, and
//! the config map is restored when it is changed.
//!
//! Source: kube-controller-manager `pkg/controller/serviceaccount` and
//! `pkg/controller/certificates/rootcacertpublisher`, Kubernetes 1.36.

use serde_json::{Value, json};

use super::{Cluster, NAMESPACES, Part, ownership};
use crate::store::Key;
use crate::wire::WriteOptions;

/// The field manager of these controllers.
pub(super) const CONTROLLERS: &str = "kube-controller-manager";

/// The tables of service accounts and config maps in the store.
const CONTENTS: [&str; 2] = ["serviceaccounts", "configmaps"];

/// The name of the service account.
const ACCOUNT: &str = "default";

/// The name of the config map.
const ROOT_CA: &str = "kube-root-ca.crt";

/// A certificate that signs nothing, because this server speaks plain HTTP. Clients require one
/// that they can parse. Its key was deleted.
const CERTIFICATE: &str = include_str!("root_ca.pem");

/// The annotation of the config map, with the text of Kubernetes.
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when \
     using internal endpoints such as the internal service IP or kubernetes.default.svc. No other \
     usage is guaranteed across distributions of Kubernetes clusters.";

// === impl Cluster ===

impl Cluster {
    /// Creates or restores the initial objects of each namespace, after a write to one of the three
    /// resources. Returns whether it wrote anything.
    pub(super) fn fill_namespaces(&mut self, now: &str) -> bool {
        let Some(seen) = self.contents_seen else {
            return false;
        };
        let tables = [NAMESPACES, CONTENTS[0], CONTENTS[1]];
        let last = tables.map(|table| self.store.last_write(table));
        if last.iter().all(|last| *last <= seen) {
            return false;
        }
        let namespaces = self.store.objects(NAMESPACES);
        let alive = namespaces.filter(|(_, object)| !object.is_terminating());
        let names: Vec<_> = alive.map(|(key, _)| key.name.clone()).collect();
        let before = self.store.revision();
        for namespace in &names {
            let account = Key::new(namespace, ACCOUNT);
            if self.store.get(CONTENTS[0], &account).is_none() {
                let object = json!({ "metadata": { "name": ACCOUNT } });
                self.create_as(CONTROLLERS, ["", CONTENTS[0]], Some(namespace), object, now);
            }
            self.publish_certificate(namespace, now);
        }
        self.contents_seen = Some(self.store.revision());
        self.store.revision() != before
    }

    fn publish_certificate(&mut self, namespace: &str, now: &str) {
        let wanted = json!({ "ca.crt": CERTIFICATE });
        let key = Key::new(namespace, ROOT_CA);
        let Some(found) = self.store.get(CONTENTS[1], &key).cloned() else {
            let object = json!({
                "metadata": {
                    "name": ROOT_CA,
                    "annotations": { "kubernetes.io/description": DESCRIPTION },
                },
                "data": wanted,
            });
            self.create_as(CONTROLLERS, ["", CONTENTS[1]], Some(namespace), object, now);
            return;
        };
        if found.value().get("data") == Some(&wanted) || found.is_terminating() {
            return;
        }
        let mut value = found.value().clone();
        value["data"] = wanted;
        if let Some(resource) = self.registry.find("", "v1", CONTENTS[1]).cloned() {
            let options = WriteOptions {
                manager: CONTROLLERS.to_owned(),
                ..WriteOptions::default()
            };
            let live: &Value = found.value();
            ownership::track(&resource, Part::Main, live, &mut value, &options, now);
            self.store.put(&resource.table, &key, value, found.schema());
        }
    }
}
