//! `Primary`: the objects that a controller reconciles, and how they are woken.

use std::hash::Hash;

use kube::Resource;
use windlass_controller::{InformerController, Kind, Priority, Reasons};
use windlass_informer::{Informer, ObjectKey};

use super::key_queue::{KeyObject, KeyQueue};
use crate::reflector::{Lookup, Store, store::Ready};

/// The objects that a controller reconciles.
pub(super) enum Primary<K>
where
    K: Clone + Resource + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// From a list and watch.
    Informer {
        informer: Informer<K>,
        store: Store<K>,
        ready: Ready,
    },
    /// From a stream and a store of the user.
    Stream {
        queue: KeyQueue,
        informer: Informer<KeyObject>,
        store: Store<K>,
    },
}

/// The controlled kind in the engine: that of the objects, or that of their keys.
pub(super) enum Controlled<K> {
    Objects(Kind<K>),
    Keys(Kind<KeyObject>),
}

/// Wakes objects of the controlled kind.
pub(super) enum Wake<K> {
    Engine(InformerController, Kind<K>),
    Queue(KeyQueue),
}

// === impl Primary ===

impl<K> Primary<K>
where
    K: Clone + Resource + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// The objects of `informer`.
    pub(super) fn informer(informer: Informer<K>) -> Self {
        let (store, ready) = Store::of_informer(informer.store());
        Self::Informer {
            informer,
            store,
            ready,
        }
    }

    /// The objects of `store`, of which a stream names those that changed.
    pub(super) fn stream(store: Store<K>, resource: String) -> Self {
        let queue = KeyQueue::default();
        Self::Stream {
            informer: Informer::new(queue.source(resource, &store)),
            queue,
            store,
        }
    }

    pub(super) const fn store(&self) -> &Store<K> {
        match self {
            Self::Informer { store, .. } | Self::Stream { store, .. } => store,
        }
    }

    /// The queue of keys, if there is one.
    pub(super) const fn queue(&self) -> Option<&KeyQueue> {
        match self {
            Self::Informer { .. } => None,
            Self::Stream { queue, .. } => Some(queue),
        }
    }
}

// === impl Wake ===

impl<K> Wake<K> {
    /// Reconciles the objects with these keys, if they exist.
    pub(super) fn keys(&self, keys: Vec<ObjectKey>) {
        match self {
            Self::Engine(engine, kind) => {
                engine.wake(kind, keys, Priority::Live, Reasons::TRIGGER);
            }
            Self::Queue(queue) => queue.touch(keys),
        }
    }

    /// Reconciles an object of the controlled kind, which a stream of its objects names.
    pub(super) fn object(&self, key: ObjectKey) {
        match self {
            Self::Engine(..) => self.keys(vec![key]),
            Self::Queue(queue) => queue.touch_listed(key),
        }
    }

    /// Reconciles all objects of `store`.
    pub(super) fn all(&self, store: &Store<K>)
    where
        K: Lookup + Clone + 'static,
        K::DynamicType: Eq + Hash + Clone,
    {
        match self {
            Self::Engine(engine, kind) => {
                engine.wake_all(kind, Priority::Resync, Reasons::TRIGGER);
            }
            Self::Queue(queue) => queue.touch(store.keys()),
        }
    }
}

impl<K> Clone for Wake<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Engine(engine, kind) => Self::Engine(engine.clone(), kind.clone()),
            Self::Queue(queue) => Self::Queue(queue.clone()),
        }
    }
}
