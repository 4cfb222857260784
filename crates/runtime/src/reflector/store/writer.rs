//! `Writer`: keeps the objects of a stream in a store.

use std::{
    fmt::{self, Debug},
    hash::Hash,
};

use kube::runtime::reflector::store as kube_store;

use super::{Lookup, Objects, Ready, Store};
use crate::{
    reflector::handle::{ReflectHandle, Subscribers},
    watcher,
};

/// Writes a [`Store`].
pub struct Writer<K: 'static + Lookup + Clone>
where
    K::DynamicType: Eq + Hash + Clone,
{
    kube: kube_store::Writer<K>,
    ready: Ready,
    dyntype: K::DynamicType,
    subscribers: Option<Subscribers<K>>,
}

// === impl Writer ===

impl<K: 'static + Lookup + Clone> Writer<K>
where
    K::DynamicType: Eq + Hash + Clone,
{
    /// Creates a writer with an empty store.
    pub fn new(dyntype: K::DynamicType) -> Self {
        Self {
            kube: kube_store::Writer::new(dyntype.clone()),
            ready: Ready::new(),
            dyntype,
            subscribers: None,
        }
    }

    /// Creates a writer with an empty store and with subscribers, each with a buffer of `buf_size`
    /// objects.
    pub fn new_shared(buf_size: usize, dyntype: K::DynamicType) -> Self {
        Self {
            subscribers: Some(Subscribers::new(buf_size)),
            ..Self::new(dyntype)
        }
    }

    /// The store.
    #[must_use]
    pub fn as_reader(&self) -> Store<K> {
        Store {
            objects: Objects::Kube(self.kube.as_reader()),
            stage: self.ready.subscribe(),
        }
    }

    /// Subscribes to the objects that are added or changed from now on. `None` if this writer was not
    /// created with a buffer.
    pub fn subscribe(&self) -> Option<ReflectHandle<K>> {
        let subscribers = self.subscribers.as_ref()?;
        Some(subscribers.subscribe(self.as_reader()))
    }

    /// Applies an event of a watch to the store.
    pub fn apply_watcher_event(&mut self, event: &watcher::Event<K>) {
        self.kube.apply_watcher_event(event);
        match event {
            watcher::Event::Init => self.ready.relist(),
            watcher::Event::InitDone => self.ready.set(),
            _ => {}
        }
    }

    /// Sends the objects of `event` to the subscribers, and waits while one of them is full.
    pub(in crate::reflector) async fn dispatch(&mut self, event: &watcher::Event<K>) {
        let Some(subscribers) = &self.subscribers else {
            return;
        };
        let targets: Vec<_> = match event {
            watcher::Event::Apply(object) => vec![object.to_object_ref(self.dyntype.clone())],
            watcher::Event::InitDone => {
                let objects = self.kube.as_reader().state().into_iter();
                objects
                    .map(|object| object.to_object_ref(self.dyntype.clone()))
                    .collect()
            }
            _ => return,
        };
        for target in targets {
            subscribers.send(target).await;
        }
    }
}

impl<K> Default for Writer<K>
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Default + Eq + Hash + Clone,
{
    fn default() -> Self {
        Self::new(K::DynamicType::default())
    }
}

impl<K: 'static + Lookup + Clone> Debug for Writer<K>
where
    K::DynamicType: Eq + Hash + Clone,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}
