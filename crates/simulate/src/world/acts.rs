//! Writes of other clients to an object, and the later effects of a fault.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::World;
use crate::{Fault, direct::Direct};

/// The finalizer and the label of another client.
const FOREIGN: &str = "simulate.windlass.dev/foreign";

/// How long a foreign finalizer stays.
const FINALIZER: Duration = Duration::from_secs(20);

/// How long labels are away.
const LABELS: Duration = Duration::from_secs(10);

/// How often a write is tried.
const TRIES: u32 = 10;

/// How long it is waited for that a deleted object is gone: longer than any fault holds the
/// operator up.
const DELETION: Duration = Duration::from_secs(3600);

impl World {
    /// Has the server forget its history after `delay`.
    pub(super) fn compact_after(self: &Arc<Self>, delay: Duration) {
        let world = Arc::clone(self);
        self.background_tasks.spawn(async move {
            sleep(delay).await;
            world.server.compact(world.server.resource_version());
            world.log(None, "the server compacted its history");
        });
    }

    /// Has another client write to the object at `path`.
    pub(super) fn act(self: &Arc<Self>, fault: Fault, path: String) {
        let world = Arc::clone(self);
        self.background_tasks.spawn(async move {
            // An object that is recreated while its labels are away would never have them again.
            let lock = Arc::clone(world.foreign_locks.lock().entry(path.clone()).or_default());
            let _guard = lock.lock().await;
            match fault {
                Fault::StripFinalizers => {
                    world.strip_finalizers(&path).await;
                }
                Fault::ForeignFinalizer => world.foreign_finalizer(&path).await,
                Fault::Relabel => world.relabel(&path).await,
                Fault::Recreate => world.recreate(&path).await,
                Fault::LeaseStolen => world.steal(&path).await,
                Fault::LeaseDeleted => world.delete_lease(&path).await,
                _ => {}
            }
        });
    }

    async fn delete_lease(&self, path: &str) {
        if self.direct.delete(path).await.is_ok() {
            self.deletes_leases(path);
            self.took_effect(Fault::LeaseDeleted);
        }
    }

    async fn strip_finalizers(&self, path: &str) {
        let object = self.direct.get(path).await.unwrap_or_default();
        let content = json!({ "metadata": { "finalizers": null } });
        if object["metadata"]["finalizers"].is_array()
            && self.direct.merge(path, &content).await.is_ok()
        {
            self.took_effect(Fault::StripFinalizers);
        }
    }

    async fn foreign_finalizer(&self, path: &str) {
        let added = self.change_finalizers(path, |finalizers, dying| {
            if !dying {
                finalizers.push(FOREIGN.into());
            }
        });
        if added.await {
            self.took_effect(Fault::ForeignFinalizer);
        }
        sleep(FINALIZER).await;
        self.change_finalizers(path, |finalizers, _| finalizers.retain(|it| it != FOREIGN))
            .await;
    }

    /// Changes the finalizers of an object, however often other clients are faster. Returns whether
    /// they are others than before.
    async fn change_finalizers(&self, path: &str, change: impl Fn(&mut Vec<Value>, bool)) -> bool {
        for _ in 0..TRIES {
            let Some(object) = self.direct.get(path).await else {
                return false;
            };
            let metadata = &object["metadata"];
            let before = metadata["finalizers"].as_array().cloned();
            let before = before.unwrap_or_default();
            let mut finalizers = before.clone();
            change(&mut finalizers, metadata["deletionTimestamp"].is_string());
            let version = &metadata["resourceVersion"];
            let content =
                json!({ "metadata": { "finalizers": finalizers, "resourceVersion": version } });
            if self.direct.merge(path, &content).await.is_ok() {
                return finalizers != before;
            }
        }
        false
    }

    async fn relabel(&self, path: &str) {
        let Some(object) = self.direct.get(path).await else {
            return;
        };
        let labels = object["metadata"]["labels"].as_object().cloned();
        let labels = labels.unwrap_or_default();
        let mut away: serde_json::Map<_, _> = labels
            .keys()
            .map(|key| (key.clone(), Value::Null))
            .collect();
        let mut back = labels;
        away.insert(FOREIGN.to_owned(), "".into());
        back.insert(FOREIGN.to_owned(), Value::Null);
        let content = json!({ "metadata": { "labels": away } });
        if self.direct.merge(path, &content).await.is_ok() {
            self.took_effect(Fault::Relabel);
        }
        sleep(LABELS).await;
        let content = json!({ "metadata": { "labels": back } });
        for _ in 0..TRIES {
            // Another client may be about to create it again.
            if self.direct.merge(path, &content).await.is_ok() {
                return;
            }
            sleep(LABELS).await;
        }
    }

    async fn recreate(&self, path: &str) {
        let _guard = self.write_lock.lock().await;
        let Some(object) = self.direct.get(path).await else {
            return;
        };
        let metadata = &object["metadata"];
        let Some((collection, _)) = path.rsplit_once('/') else {
            return;
        };
        if metadata["deletionTimestamp"].is_string() {
            return;
        }
        _ = self.direct.delete(path).await;
        if !is_gone(&self.direct, path).await {
            return;
        }
        let mut successor = object.clone();
        successor["metadata"] = json!({
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": metadata["labels"],
            "annotations": metadata["annotations"],
        });
        if let Some(fields) = successor.as_object_mut() {
            fields.remove("status");
        }
        if self.direct.create(collection, &successor).await.is_ok() {
            self.took_effect(Fault::Recreate);
        }
    }

    async fn steal(&self, path: &str) {
        let Some(lease) = self.direct.get(path).await else {
            return;
        };
        let spec = &lease["spec"];
        let transitions = spec["leaseTransitions"].as_i64().unwrap_or_default();
        let content = json!({ "spec": {
            "holderIdentity": "intruder",
            "acquireTime": spec["renewTime"],
            "leaseTransitions": transitions + 1,
        } });
        if self.direct.merge(path, &content).await.is_ok() {
            self.steals_lease(path, spec);
            self.took_effect(Fault::LeaseStolen);
        }
    }
}

/// Waits until the object at `path` is gone; false if that takes too long.
async fn is_gone(direct: &Direct, path: &str) -> bool {
    const PAUSE: Duration = Duration::from_millis(100);

    let gone = async {
        while direct.get(path).await.is_some() {
            sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(DELETION, gone).await.is_ok()
}
