//! The writes of other clients to an object, and the delayed effects of faults.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::World;
use crate::{Fault, direct::Direct};

/// The name of the finalizer and of the label that another client sets.
pub(super) const FOREIGN: &str = "simulate.windlass.dev/foreign";

/// The time until a foreign finalizer is removed.
const FINALIZER: Duration = Duration::from_secs(20);

/// The time until removed labels are restored.
const LABELS: Duration = Duration::from_secs(10);

/// The largest number of attempts of a write.
const TRIES: u32 = 10;

/// The longest wait for the removal of a deleted object: longer than any fault delays the operator.
const DELETION: Duration = Duration::from_secs(3600);

impl World {
    /// Compacts the history of the server after `delay`.
    pub(super) fn compact_after(self: &Arc<Self>, delay: Duration) {
        let world = Arc::clone(self);
        self.background_tasks.spawn(async move {
            sleep(delay).await;
            world.server.compact(world.server.resource_version());
            world.log(None, "the server compacted its history");
        });
    }

    /// Starts a task that writes to the object at `path` as another client.
    pub(super) fn write_as_other_client(self: &Arc<Self>, fault: Fault, path: String) {
        let world = Arc::clone(self);
        self.background_tasks.spawn(async move {
            // An object that is recreated without its labels would not get them back.
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
            self.record_lease_deletion(path);
            self.mark_effective(Fault::LeaseDeleted);
        }
    }

    async fn strip_finalizers(&self, path: &str) {
        let object = self.direct.get(path).await.unwrap_or_default();
        let content = json!({ "metadata": { "finalizers": null } });
        if object["metadata"]["finalizers"].is_array()
            && self.direct.merge(path, &content).await.is_ok()
        {
            self.mark_effective(Fault::StripFinalizers);
        }
    }

    async fn foreign_finalizer(&self, path: &str) {
        let added = self.change_finalizers(path, |finalizers, is_terminating| {
            if !is_terminating {
                finalizers.push(FOREIGN.into());
            }
        });
        if added.await {
            self.mark_effective(Fault::ForeignFinalizer);
        }
        sleep(FINALIZER).await;
        self.change_finalizers(path, |finalizers, _| finalizers.retain(|it| it != FOREIGN))
            .await;
    }

    /// Changes the finalizers of an object, and repeats this after a conflict. Returns whether they
    /// have changed.
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
            self.mark_effective(Fault::Relabel);
        }
        sleep(LABELS).await;
        let content = json!({ "metadata": { "labels": back } });
        for _ in 0..TRIES {
            // Another client may be recreating the object.
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
        if !wait_until_removed(&self.direct, path).await {
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
            self.mark_effective(Fault::Recreate);
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
            self.record_lease_theft(path, spec);
            self.mark_effective(Fault::LeaseStolen);
        }
    }
}

/// Waits until the object at `path` does not exist any more. Returns `false` after [`DELETION`].
async fn wait_until_removed(direct: &Direct, path: &str) -> bool {
    const PAUSE: Duration = Duration::from_millis(100);

    let removed = async {
        while direct.get(path).await.is_some() {
            sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(DELETION, removed).await.is_ok()
}
