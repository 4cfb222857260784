//! `KeyQueue`: the keys that the streams of a user name, as the source of an informer.
//!
//! A controller that is created from a stream has no list and watch of its own. The engine then
//! schedules objects that only have a key and a version, and a call reads the object from the store
//! of the user.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use kube::{
    api::{DynamicObject, ObjectMeta, PartialObjectMeta},
    core::PartialObjectMetaExt as _,
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_informer::{Change, Changes, Identity, ObjectKey, Source, WatchError};

/// What the engine schedules: an object without content.
pub(super) type KeyObject = PartialObjectMeta<DynamicObject>;

/// The keys that were named and not sent to the informer. Clones share one queue.
#[derive(Clone, Default)]
pub(super) struct KeyQueue {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    named: Mutex<HashMap<ObjectKey, Named>>,
    changed: Notify,
}

/// What happens to a key.
enum Named {
    /// It is reconciled.
    Touched,
    /// The object does not exist. The key is forgotten, unless it was touched after this version.
    Missing(String),
}

/// The queue as a source.
pub(super) struct Keys {
    queue: KeyQueue,
    resource: String,
    /// The version of the last change.
    version: u64,
    /// The versions of the keys that the informer has.
    sent: HashMap<ObjectKey, u64>,
}

// === impl KeyQueue ===

impl KeyQueue {
    /// Reconciles the objects with these keys.
    pub(super) fn touch(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        {
            let mut named = self.shared.named.lock();
            named.extend(keys.into_iter().map(|key| (key, Named::Touched)));
        }
        self.shared.changed.notify_one();
    }

    /// Forgets the object with this key, which does not exist, in this version.
    pub(super) fn forget(&self, key: &ObjectKey, version: Option<&str>) {
        let Some(version) = version else { return };
        {
            let mut named = self.shared.named.lock();
            let Entry::Vacant(entry) = named.entry(key.clone()) else {
                return;
            };
            entry.insert(Named::Missing(version.to_owned()));
        }
        self.shared.changed.notify_one();
    }

    /// The queue as the source of an informer for objects of `resource`.
    pub(super) fn source(&self, resource: String) -> Keys {
        Keys {
            queue: self.clone(),
            resource,
            version: 0,
            sent: HashMap::new(),
        }
    }
}

// === impl Keys ===

impl Keys {
    /// The change of one key, if there is one.
    fn change(&mut self, key: ObjectKey, named: Named) -> Option<Change<KeyObject>> {
        match named {
            Named::Touched => {
                self.version = self.version.saturating_add(1);
                self.sent.insert(key.clone(), self.version);
                Some(Change::Applied(object(&key, self.version).into()))
            }
            Named::Missing(version) => {
                let sent = self.sent.get(&key)?.to_string();
                if sent != version {
                    return None;
                }
                self.sent.remove(&key);
                self.version = self.version.saturating_add(1);
                let identity = Identity {
                    key,
                    uid: None,
                    resource_version: Some(self.version.to_string()),
                };
                Some(Change::Deleted {
                    identity,
                    last: None,
                })
            }
        }
    }
}

impl Source<KeyObject> for Keys {
    fn resource(&self) -> String {
        self.resource.clone()
    }

    async fn run(&mut self, changes: Changes<KeyObject>) -> Result<(), WatchError> {
        self.sent.clear();
        let list = [
            Change::ListStarted,
            Change::ListEnded {
                resource_version: None,
            },
            Change::Connected,
        ];
        for change in list {
            if changes.send(change).await.is_err() {
                return Ok(());
            }
        }
        let queue = self.queue.clone();
        loop {
            let notified = queue.shared.changed.notified();
            let named = std::mem::take(&mut *queue.shared.named.lock());
            for (key, named) in named {
                if let Some(change) = self.change(key, named)
                    && changes.send(change).await.is_err()
                {
                    return Ok(());
                }
            }
            notified.await;
        }
    }
}

fn object(key: &ObjectKey, version: u64) -> KeyObject {
    let metadata = ObjectMeta {
        name: Some(key.name().to_owned()),
        namespace: key.namespace().map(str::to_owned),
        resource_version: Some(version.to_string()),
        ..ObjectMeta::default()
    };
    metadata.into_response_partial()
}

#[cfg(test)]
mod tests {
    use windlass_informer::{Change, ObjectKey};

    use super::{KeyQueue, Named};

    #[test]
    fn a_missing_object_is_forgotten_only_in_the_version_that_was_called() {
        let mut keys = KeyQueue::default().source("websites".into());
        let key = ObjectKey::new("web");
        let applied = |change| matches!(change, Some(Change::Applied(_)));
        assert!(applied(keys.change(key.clone(), Named::Touched)));
        assert!(applied(keys.change(key.clone(), Named::Touched)));
        let missing = |version: &str| Named::Missing(version.to_owned());
        assert!(keys.change(key.clone(), missing("1")).is_none());
        let deleted = keys.change(key.clone(), missing("2"));
        assert!(matches!(deleted, Some(Change::Deleted { .. })));
        assert!(keys.change(key, missing("2")).is_none());
    }

    #[test]
    fn a_key_that_was_touched_stays_touched() {
        let queue = KeyQueue::default();
        let key = ObjectKey::new("web");
        queue.touch([key.clone()]);
        queue.forget(&key, Some("1"));
        let named = queue.shared.named.lock();
        assert!(matches!(named.get(&key), Some(Named::Touched)));
    }
}
