//! `Primary`: the objects that a controller reconciles, and how they are woken.

use std::hash::Hash;

use kube::{Resource, runtime::reflector::store::Writer as ReadyWriter};
use windlass_controller::{InformerController, Priority, Reasons};
use windlass_informer::{Informer, ObjectKey};

use super::key_queue::{KeyObject, KeyQueue};
use crate::{
    reflector::{Lookup, Store},
    watcher,
};

/// The name of the controlled kind in the engine.
pub(super) const KIND: &str = "controlled";

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
        ready: Ready<K>,
    },
    /// From a stream and a store of the user.
    Stream {
        queue: KeyQueue,
        informer: Informer<KeyObject>,
        store: Store<K>,
    },
}

/// Makes a store ready. If it is dropped before, waiting for the store is an error.
pub(super) struct Ready<K>(ReadyWriter<K>)
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone;

/// Wakes objects of the controlled kind.
#[derive(Clone)]
pub(super) enum Wake {
    Engine(InformerController),
    Queue(KeyQueue),
}

// === impl Primary ===

impl<K> Primary<K>
where
    K: Clone + Resource + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// The objects of `informer`.
    pub(super) fn informer(informer: Informer<K>, dyntype: K::DynamicType) -> Self {
        let ready = ReadyWriter::new(dyntype);
        Self::Informer {
            store: Store::of_informer(informer.store(), ready.as_reader()),
            ready: Ready(ready),
            informer,
        }
    }

    /// The objects of `store`, of which a stream names those that changed.
    pub(super) fn stream(store: Store<K>, resource: String) -> Self {
        let queue = KeyQueue::default();
        Self::Stream {
            informer: Informer::new(queue.source(resource)),
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

// === impl Ready ===

impl<K> Ready<K>
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// Makes the store ready.
    pub(super) fn set(mut self) {
        self.0.apply_watcher_event(&watcher::Event::InitDone);
    }
}

// === impl Wake ===

impl Wake {
    /// Reconciles the objects with these keys, if they exist.
    pub(super) fn keys(&self, keys: Vec<ObjectKey>) {
        match self {
            Self::Engine(engine) => {
                engine.wake(KIND, keys, Priority::Live, Reasons::TRIGGER);
            }
            Self::Queue(queue) => queue.touch(keys),
        }
    }

    /// Reconciles all objects of `store`.
    pub(super) fn all<K>(&self, store: &Store<K>)
    where
        K: Lookup + Clone + 'static,
        K::DynamicType: Eq + Hash + Clone,
    {
        match self {
            Self::Engine(engine) => {
                engine.wake_all(KIND, Priority::Resync, Reasons::TRIGGER);
            }
            Self::Queue(queue) => queue.touch(store.keys()),
        }
    }
}
