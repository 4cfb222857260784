//! `KeyQueue`: the keys that the streams of a user name, as the source of an informer.
//!
//! A controller that is created from a stream has no list and watch of its own. The engine then
//! schedules objects that only have a key and a version, and a call reads the object from the store
//! of the user.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    hash::Hash,
    sync::Arc,
};

use kube::{
    Resource,
    api::{DynamicObject, ObjectMeta, PartialObjectMeta},
    core::PartialObjectMetaExt as _,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use windlass_informer::{Change, Changes, Identity, ObjectKey, Source, WatchError};

use crate::reflector::{Store, store::Stage};

/// What the engine schedules: an object without content.
pub(super) type KeyObject = PartialObjectMeta<DynamicObject>;

/// A queue of keys. Clones share one queue.
#[derive(Clone, Default)]
pub(super) struct KeyQueue {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

/// The keys that were named and not sent to the informer.
#[derive(Default)]
struct Waiting {
    named: HashMap<ObjectKey, Named>,
    /// The keys that are touched when no list is in progress: a stream names the objects of a list
    /// before the store has them.
    listed: HashSet<ObjectKey>,
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
    /// How many keys the informer has before those of deleted objects are removed.
    most: usize,
    stage: watch::Receiver<Stage>,
    /// The keys of the objects of the store.
    stored: Box<dyn Fn() -> Vec<ObjectKey> + Send>,
}

/// The fewest keys before those of deleted objects are removed.
const FEWEST: usize = 1024;

// === impl KeyQueue ===

impl KeyQueue {
    /// Reconciles the objects with these keys.
    pub(super) fn touch(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        {
            let named = &mut self.shared.waiting.lock().named;
            named.extend(keys.into_iter().map(|key| (key, Named::Touched)));
        }
        self.shared.changed.notify_one();
    }

    /// Reconciles the object with this key when no list is in progress.
    pub(super) fn touch_listed(&self, key: ObjectKey) {
        self.shared.waiting.lock().listed.insert(key);
        self.shared.changed.notify_one();
    }

    /// Forgets the key in this version, because the store does not have the object. If `stage`, which
    /// was read before the object, is that of a list in progress, the key is touched when it ends.
    pub(super) fn miss(&self, key: &ObjectKey, version: Option<&str>, stage: Stage) {
        if stage != Stage::Complete {
            return self.touch_listed(key.clone());
        }
        let Some(version) = version else { return };
        {
            let named = &mut self.shared.waiting.lock().named;
            let Entry::Vacant(entry) = named.entry(key.clone()) else {
                return;
            };
            entry.insert(Named::Missing(version.to_owned()));
        }
        self.shared.changed.notify_one();
    }

    /// The queue as the source of an informer for objects of `resource`, which `store` has.
    pub(super) fn source<K>(&self, resource: String, store: &Store<K>) -> Keys
    where
        K: Resource + Clone + Send + Sync + 'static,
        K::DynamicType: Eq + Hash + Clone,
    {
        let (stage, store) = (store.stage(), store.clone());
        Keys {
            queue: self.clone(),
            resource,
            version: 0,
            sent: HashMap::new(),
            most: FEWEST,
            stage,
            stored: Box::new(move || store.keys()),
        }
    }
}

// === impl Keys ===

impl Keys {
    /// The changes of the keys that were named.
    fn changes(&mut self) -> Vec<Change<KeyObject>> {
        let Waiting { mut named, listed } = std::mem::take(&mut *self.queue.shared.waiting.lock());
        // Read after the keys: the store has the objects of the lists that named them, or such a list
        // is in progress.
        let is_complete = *self.stage.borrow_and_update() == Stage::Complete;
        if is_complete {
            named.extend(listed.into_iter().map(|key| (key, Named::Touched)));
        } else {
            self.queue.shared.waiting.lock().listed.extend(listed);
        }
        let changes = named.into_iter();
        let mut changes = changes
            .filter_map(|(key, named)| self.change(key, named))
            .collect();
        if is_complete && self.sent.len() > self.most {
            self.sweep(&mut changes);
        }
        changes
    }

    /// The change of one key, if there is one.
    fn change(&mut self, key: ObjectKey, named: Named) -> Option<Change<KeyObject>> {
        if let Named::Missing(version) = named {
            let is_current = self.sent.get(&key)?.to_string() == version;
            return is_current.then(|| self.deleted(key));
        }
        self.version = self.version.saturating_add(1);
        self.sent.insert(key.clone(), self.version);
        Some(Change::Applied(object(&key, self.version).into()))
    }

    fn deleted(&mut self, key: ObjectKey) -> Change<KeyObject> {
        self.sent.remove(&key);
        self.version = self.version.saturating_add(1);
        let identity = Identity {
            key,
            uid: None,
            resource_version: Some(self.version.to_string()),
        };
        Change::Deleted {
            identity,
            last: None,
        }
    }

    /// Removes the keys of deleted objects, which no stream names.
    fn sweep(&mut self, changes: &mut Vec<Change<KeyObject>>) {
        let stored: HashSet<_> = (self.stored)().into_iter().collect();
        let gone: Vec<_> = self
            .sent
            .keys()
            .filter(|key| !stored.contains(key))
            .cloned()
            .collect();
        changes.extend(gone.into_iter().map(|key| self.deleted(key)));
        self.most = self.sent.len().saturating_mul(2).max(FEWEST);
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
            for change in self.changes() {
                if changes.send(change).await.is_err() {
                    return Ok(());
                }
            }
            tokio::select! {
                () = queue.shared.changed.notified() => {}
                Ok(()) = self.stage.changed() => {}
            }
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
    use k8s_openapi::api::core::v1::ConfigMap;
    use windlass_informer::{Change, ObjectKey};

    use super::{FEWEST, KeyObject, KeyQueue, Keys, Named};
    use crate::{
        reflector::store::{self, Stage, Writer},
        watcher::Event,
    };

    /// A queue, its source, and the writer of its store, whose first list has ended.
    fn queue() -> (KeyQueue, Keys, Writer<ConfigMap>) {
        let (store, mut writer) = store::store::<ConfigMap>();
        let queue = KeyQueue::default();
        let keys = queue.source("configmaps".into(), &store);
        writer.apply_watcher_event(&Event::Init);
        writer.apply_watcher_event(&Event::InitDone);
        (queue, keys, writer)
    }

    fn config(name: &str) -> ConfigMap {
        let mut config = ConfigMap::default();
        config.metadata.name = Some(name.to_owned());
        config
    }

    /// What happens to each key: whether it is applied.
    fn shown(changes: &[Change<KeyObject>]) -> Vec<bool> {
        let applied = |change: &Change<_>| matches!(change, Change::Applied(_));
        changes.iter().map(applied).collect()
    }

    #[test]
    fn a_missing_object_is_forgotten_only_in_the_version_that_was_called() {
        let (queue, mut keys, _writer) = queue();
        let key = ObjectKey::new("web");
        for _ in 0..2 {
            queue.touch([key.clone()]);
            assert_eq!(shown(&keys.changes()), [true]);
        }
        for (version, expected) in [("1", &[][..]), ("2", &[false]), ("2", &[])] {
            queue.miss(&key, Some(version), Stage::Complete);
            assert_eq!(shown(&keys.changes()), expected, "{version}");
        }
    }

    #[test]
    fn a_key_that_was_touched_stays_touched() {
        let (queue, _keys, _writer) = queue();
        let key = ObjectKey::new("web");
        queue.touch([key.clone()]);
        queue.miss(&key, Some("1"), Stage::Complete);
        let waiting = queue.shared.waiting.lock();
        assert!(matches!(waiting.named.get(&key), Some(Named::Touched)));
    }

    #[test]
    fn a_key_of_a_list_is_touched_when_the_list_has_ended() {
        let (queue, mut keys, mut writer) = queue();
        let key = ObjectKey::new("web");
        writer.apply_watcher_event(&Event::Init);
        queue.touch_listed(key.clone());
        assert!(keys.changes().is_empty());
        // Another stream names it too.
        queue.touch([key.clone()]);
        assert_eq!(shown(&keys.changes()), [true]);
        queue.miss(&key, Some("1"), Stage::Relisting);
        assert!(keys.changes().is_empty());
        writer.apply_watcher_event(&Event::InitDone);
        assert_eq!(shown(&keys.changes()), [true]);
        assert!(keys.changes().is_empty());
    }

    /// Names of deleted objects, as those of the pods of a job.
    #[test]
    fn the_keys_of_deleted_objects_are_bounded() {
        let (queue, mut keys, mut writer) = queue();
        writer.apply_watcher_event(&Event::Apply(config("kept")));
        queue.touch_listed(ObjectKey::new("kept"));
        for number in 0..10 * FEWEST {
            let config = config(&format!("c-{number}"));
            queue.touch_listed(ObjectKey::of(&config));
            writer.apply_watcher_event(&Event::Apply(config.clone()));
            keys.changes();
            writer.apply_watcher_event(&Event::Delete(config));
        }
        assert!(keys.sent.len() <= FEWEST, "{}", keys.sent.len());
        assert!(keys.sent.contains_key(&ObjectKey::new("kept")));
    }
}
