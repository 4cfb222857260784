//! Queues the newest states of objects, as the stores have them.

use std::{collections::HashSet, sync::Arc};

use windlass_informer::{Event, ObjectKey};

use super::Shared;
use crate::{
    ErasedObject, Reasons,
    controller::queued::QueuedEvent,
    route::KindId,
    schedule::{LaneKey, Offer, Priority},
    trace::TraceParent,
};

// === impl Shared ===

impl Shared {
    /// The newest state of the object with this key in the stores of `kind`.
    pub(crate) fn newest(&self, kind: KindId, key: &ObjectKey) -> Option<Arc<dyn ErasedObject>> {
        let feeds = self.feeds.read();
        let feeds = feeds.iter().filter(|entry| entry.kind == kind);
        let stored = feeds.filter_map(|entry| entry.feed.stored(key));
        stored.reduce(|known, other| {
            if is_older(&*known, &*other) {
                other
            } else {
                known
            }
        })
    }

    /// The keys of all objects in the stores of `kind`.
    pub(crate) fn keys(&self, kind: KindId) -> HashSet<ObjectKey> {
        let feeds = self.feeds.read();
        let feeds = feeds.iter().filter(|entry| entry.kind == kind);
        feeds.flat_map(|entry| entry.feed.keys()).collect()
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
        let received = self.engine.now();
        let offers: Vec<_> = (keys.into_iter())
            .filter_map(|object| {
                let event = QueuedEvent {
                    event: Event::Resynced(self.newest(kind, &object)?),
                    resynced: false,
                    requested_by_mapper: true,
                    reasons,
                    from_list: false,
                    origin: TraceParent::default(),
                    received,
                    last_called: None,
                    permit: None,
                };
                let offer = Offer {
                    priority,
                    pendings_checked: false,
                    event,
                };
                Some((LaneKey { kind, object }, offer))
            })
            .collect();
        let woken = offers.len();
        let mut dropped = Vec::new();
        self.engine.offer(offers, |older, newer| {
            (self.settings.coalescing).coalesce(older, newer, &mut dropped)
        });
        woken
    }
}

/// Whether the version of `object` is lower than that of `other`.
fn is_older(object: &dyn ErasedObject, other: &dyn ErasedObject) -> bool {
    let number = |object: &dyn ErasedObject| object.resource_version()?.parse::<u64>().ok();
    number(object)
        .zip(number(other))
        .is_some_and(|(own, others)| own < others)
}
