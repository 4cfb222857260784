//! Queues the newest states of objects, as the stores have them.

use std::{collections::HashMap, sync::Arc};

use windlass_informer::{Event, ObjectKey};

use super::Shared;
use crate::{
    ErasedObject, Reasons,
    controller::queued::QueuedEvent,
    route::KindId,
    schedule::{LaneKey, Offer, Priority},
};

// === impl Shared ===

impl Shared {
    /// The newest state of the object with this key in the stores of `kind`.
    pub(crate) fn newest(&self, kind: KindId, key: &ObjectKey) -> Option<Arc<dyn ErasedObject>> {
        let feeds = self.feeds.read();
        let feeds = feeds.iter().filter(|entry| entry.kind == kind);
        feeds
            .filter_map(|entry| entry.feed.stored(key))
            .reduce(newer)
    }

    /// The newest state of each object in the stores of `kind`.
    fn all_newest(&self, kind: KindId) -> Vec<(ObjectKey, Arc<dyn ErasedObject>)> {
        let feeds = self.feeds.read();
        let feeds = feeds.iter().filter(|entry| entry.kind == kind);
        let mut stores: Vec<_> = feeds.map(|entry| entry.feed.all_stored()).collect();
        if let [_] = &*stores {
            return stores.remove(0);
        }
        let mut newest = HashMap::new();
        for (key, object) in stores.into_iter().flatten() {
            let object = match newest.remove(&key) {
                Some(known) => newer(known, object),
                None => object,
            };
            newest.insert(key, object);
        }
        newest.into_iter().collect()
    }

    /// Queues a resync of each object of `kind` that is in a store and whose key is in `keys`, with
    /// its newest state. Returns their number.
    pub(crate) fn wake(
        &self,
        kind: KindId,
        keys: impl IntoIterator<Item = ObjectKey>,
        priority: Priority,
        reasons: Reasons,
    ) -> usize {
        let keys = keys.into_iter();
        let objects = keys.filter_map(|key| {
            let object = self.newest(kind, &key)?;
            Some((key, object))
        });
        self.queue_resyncs(kind, objects, priority, reasons)
    }

    /// Queues a resync of each object in the stores of `kind`, with its newest state. Returns their
    /// number.
    pub(crate) fn wake_all(&self, kind: KindId, priority: Priority, reasons: Reasons) -> usize {
        self.queue_resyncs(kind, self.all_newest(kind), priority, reasons)
    }

    fn queue_resyncs(
        &self,
        kind: KindId,
        objects: impl IntoIterator<Item = (ObjectKey, Arc<dyn ErasedObject>)>,
        priority: Priority,
        reasons: Reasons,
    ) -> usize {
        let received = self.engine.now();
        let offers: Vec<_> = (objects.into_iter())
            .map(|(key, object)| {
                let event = QueuedEvent {
                    requested_by_mapper: true,
                    ..QueuedEvent::new(Event::Resynced(object), reasons, received)
                };
                let lane = LaneKey { kind, object: key };
                (lane, Offer::new(priority, event))
            })
            .collect();
        let woken = offers.len();
        self.engine.offer(offers, |older, newer| {
            self.settings.coalescing.coalesce(older, newer)
        });
        woken
    }
}

/// The state with the higher version; the first one, if that is not known.
fn newer(known: Arc<dyn ErasedObject>, other: Arc<dyn ErasedObject>) -> Arc<dyn ErasedObject> {
    if is_older(&*known, &*other) {
        other
    } else {
        known
    }
}

/// Whether the version of `object` is lower than that of `other`.
fn is_older(object: &dyn ErasedObject, other: &dyn ErasedObject) -> bool {
    let versions = object.resource_version().zip(other.resource_version());
    versions.is_some_and(|(own, others)| windlass_informer::is_older(own, others))
}
