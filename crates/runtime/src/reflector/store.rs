//! `Store`, the objects of a reflector or a controller, and its `Writer`.

use std::{
    fmt::{self, Debug},
    hash::Hash,
    sync::Arc,
};

use futures::FutureExt as _;
use kube::{
    Resource, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    core::{Selector, SelectorExt as _},
    runtime::reflector::store as kube_store,
};
use tokio::sync::watch;
use windlass_informer::{ObjectIdentity as _, ObjectKey, Stored};

#[doc(inline)]
pub use kube::runtime::reflector::store::WriterDropped;

use super::{
    Lookup, ObjectRef,
    handle::{ReflectHandle, Subscribers},
};
use crate::watcher;

/// The objects of a kind in memory: those of a [`Controller`](crate::Controller), or those that a
/// [`Writer`] has.
///
/// The store of a controller keeps objects as JSON and decodes them when they are read; those that
/// were read stay decoded in a cache of at most 32 MiB. `state` decodes all of them.
pub struct Store<K: 'static + Lookup>
where
    K::DynamicType: Hash + Eq,
{
    objects: Objects<K>,
    ready: watch::Receiver<bool>,
}

/// The objects of a store.
enum Objects<K: 'static + Lookup>
where
    K::DynamicType: Hash + Eq,
{
    Kube(kube_store::Store<K>),
    Informer(Arc<dyn Informed<K>>),
}

/// Makes a store ready. If it is dropped before, waiting for the store is an error.
///
/// Not that of kube-runtime, which wakes only one of several tasks that wait.
#[derive(Debug)]
pub(crate) struct Ready(watch::Sender<bool>);

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

/// The store of an informer of any type.
trait Informed<K>: Send + Sync {
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>>;

    /// The stored object, if it is in another version than `object`, and `object` otherwise.
    fn newest(&self, object: Arc<K>) -> Option<Arc<K>>;

    fn list(&self) -> Vec<Arc<K>>;

    fn find(&self, wanted: &dyn Fn(&K) -> bool) -> Option<Arc<K>>;

    fn keys(&self) -> Vec<ObjectKey>;

    fn len(&self) -> usize;
}

/// Creates a store with its writer.
#[must_use]
pub fn store<K>() -> (Store<K>, Writer<K>)
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone + Default,
{
    let writer = Writer::<K>::default();
    (writer.as_reader(), writer)
}

/// Creates a store with a writer that has subscribers, each with a buffer of `buf_size` objects.
#[must_use]
pub fn store_shared<K>(buf_size: usize) -> (Store<K>, Writer<K>)
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone + Default,
{
    let writer = Writer::<K>::new_shared(buf_size, K::DynamicType::default());
    (writer.as_reader(), writer)
}

/// The error of a store whose writer was dropped before it was ready. Only kube-runtime can create it.
pub(crate) fn writer_dropped() -> Option<WriterDropped> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "", ""));
    let reader = kube_store::Writer::<DynamicObject>::new(kind).as_reader();
    reader.wait_until_ready().now_or_never()?.err()
}

// === impl Store ===

impl<K: 'static + Lookup> Store<K>
where
    K::DynamicType: Hash + Eq,
{
    /// The store of an informer, and what makes it ready.
    pub(crate) fn of_informer(objects: windlass_informer::Store<K>) -> (Self, Ready)
    where
        K: Resource + Send + Sync,
    {
        let ready = Ready::new();
        let store = Self {
            ready: ready.0.subscribe(),
            objects: Objects::Informer(Arc::new(objects)),
        };
        (store, ready)
    }
}

impl<K: 'static + Clone + Lookup> Store<K>
where
    K::DynamicType: Eq + Hash + Clone,
{
    /// Waits until the store has all objects of the first list.
    ///
    /// # Errors
    ///
    /// [`WriterDropped`] if the controller or the writer was dropped before.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any time.
    pub async fn wait_until_ready(&self) -> Result<(), WriterDropped> {
        let mut ready = self.ready.clone();
        let waited = ready.wait_for(|is_ready| *is_ready).await;
        match (waited.is_ok(), writer_dropped()) {
            (false, Some(dropped)) => Err(dropped),
            _ => Ok(()),
        }
    }

    /// The object that `key` names. A key with a namespace also finds an object without one.
    #[must_use]
    pub fn get(&self, key: &ObjectRef<K>) -> Option<Arc<K>> {
        match &self.objects {
            Objects::Informer(informer) => keys(key).find_map(|key| informer.get(&key)),
            Objects::Kube(kube) => kube.get(key),
        }
    }

    /// All objects, in no particular order.
    #[must_use]
    pub fn state(&self) -> Vec<Arc<K>> {
        match &self.objects {
            Objects::Informer(informer) => informer.list(),
            Objects::Kube(kube) => kube.state(),
        }
    }

    /// An object that `predicate` accepts.
    #[must_use]
    pub fn find<P>(&self, predicate: P) -> Option<Arc<K>>
    where
        P: Fn(&K) -> bool,
    {
        match &self.objects {
            Objects::Informer(informer) => informer.find(&predicate),
            Objects::Kube(kube) => kube.find(predicate),
        }
    }

    /// The objects that `predicate` accepts.
    #[must_use]
    pub fn state_filter<P>(&self, predicate: P) -> Vec<Arc<K>>
    where
        P: Fn(&K) -> bool,
    {
        match &self.objects {
            Objects::Informer(informer) => {
                let mut objects = informer.list();
                objects.retain(|object| predicate(object));
                objects
            }
            Objects::Kube(kube) => kube.state_filter(predicate),
        }
    }

    /// The objects whose labels match `selector`.
    #[must_use]
    pub fn state_filter_selector(&self, selector: &Selector) -> Vec<Arc<K>>
    where
        K: ResourceExt,
    {
        self.state_filter(|object| selector.matches(object.labels()))
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.objects {
            Objects::Informer(informer) => informer.len(),
            Objects::Kube(kube) => kube.len(),
        }
    }

    /// Whether the store is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys of all objects.
    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        match &self.objects {
            Objects::Informer(informer) => informer.keys(),
            Objects::Kube(kube) => kube.state().iter().map(|it| key_of(&**it)).collect(),
        }
    }
}

impl<K> Store<K>
where
    K: Clone + Resource + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// The object with this key.
    pub(crate) fn get_key(&self, key: &ObjectKey, dyntype: &K::DynamicType) -> Option<Arc<K>> {
        match &self.objects {
            Objects::Informer(informer) => informer.get(key),
            Objects::Kube(kube) => kube.get(&target(key, dyntype)),
        }
    }

    /// The newest state of `object`. `None` if the store does not have it.
    pub(crate) fn newest(&self, object: Arc<K>, dyntype: &K::DynamicType) -> Option<Arc<K>> {
        match &self.objects {
            Objects::Informer(informer) => informer.newest(object),
            Objects::Kube(_) => self.get_key(&key_of(&*object), dyntype),
        }
    }
}

/// The keys that `target` can have: one that names a namespace can also be of a cluster-scoped object.
pub(crate) fn keys<K: Lookup>(target: &ObjectRef<K>) -> impl Iterator<Item = ObjectKey> + use<K> {
    let key = ObjectKey::new(&*target.name);
    let namespaced = target.namespace.as_deref();
    let namespaced = namespaced.map(|namespace| key.clone().within(namespace));
    namespaced.into_iter().chain([key])
}

fn key_of<K: Lookup>(object: &K) -> ObjectKey {
    let key = ObjectKey::new(&*object.name().unwrap_or_default());
    match object.namespace() {
        Some(namespace) => key.within(&*namespace),
        None => key,
    }
}

fn target<K: Resource>(key: &ObjectKey, dyntype: &K::DynamicType) -> ObjectRef<K>
where
    K::DynamicType: Clone,
{
    let target = ObjectRef::new_with(key.name(), dyntype.clone());
    match key.namespace() {
        Some(namespace) => target.within(namespace),
        None => target,
    }
}

impl<K: 'static + Lookup> Clone for Store<K>
where
    K::DynamicType: Hash + Eq,
{
    fn clone(&self) -> Self {
        Self {
            objects: match &self.objects {
                Objects::Kube(kube) => Objects::Kube(kube.clone()),
                Objects::Informer(informer) => Objects::Informer(Arc::clone(informer)),
            },
            ready: self.ready.clone(),
        }
    }
}

impl<K: 'static + Lookup> Debug for Store<K>
where
    K::DynamicType: Hash + Eq,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
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
            ready: self.ready.0.subscribe(),
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
        if matches!(event, watcher::Event::InitDone) {
            self.ready.set();
        }
    }

    /// Sends the objects of `event` to the subscribers, and waits while one of them is full.
    pub(super) async fn dispatch(&mut self, event: &watcher::Event<K>) {
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

// === impl Ready ===

impl Ready {
    fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Makes the store ready.
    pub(crate) fn set(&self) {
        self.0.send_replace(true);
    }
}

// === impl Informed ===

impl<K: Stored> Informed<K> for windlass_informer::Store<K> {
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        Self::get(self, key)
    }

    fn newest(&self, object: Arc<K>) -> Option<Arc<K>> {
        let key = object.key();
        let stored = self.get_lazy(&key)?;
        if stored.resource_version() == object.resource_version() {
            return Some(object);
        }
        Self::get(self, &key)
    }

    fn list(&self) -> Vec<Arc<K>> {
        Self::list(self)
    }

    fn find(&self, wanted: &dyn Fn(&K) -> bool) -> Option<Arc<K>> {
        let objects = self.list_lazy().into_iter();
        objects.filter_map(|it| it.get().ok()).find(|it| wanted(it))
    }

    fn keys(&self) -> Vec<ObjectKey> {
        Self::keys(self)
    }

    fn len(&self) -> usize {
        Self::len(self)
    }
}
