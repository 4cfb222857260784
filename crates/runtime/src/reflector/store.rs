//! `Store`: the objects of a reflector or a controller.

mod informed;
mod ready;
mod writer;

use std::{
    fmt::{self, Debug},
    hash::Hash,
    sync::Arc,
};

use kube::{
    Resource, ResourceExt,
    core::{Selector, SelectorExt as _},
    runtime::reflector::store as kube_store,
};
use tokio::sync::watch;
use windlass_informer::ObjectKey;

#[doc(inline)]
pub use kube::runtime::reflector::store::WriterDropped;

use self::informed::Informed;
pub(crate) use self::ready::{Ready, Stage, writer_dropped};
pub use self::writer::Writer;
use super::{Lookup, ObjectRef};

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
    stage: watch::Receiver<Stage>,
}

/// The objects of a store.
enum Objects<K: 'static + Lookup>
where
    K::DynamicType: Hash + Eq,
{
    Kube(kube_store::Store<K>),
    Informer(Arc<dyn Informed<K>>),
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
            stage: ready.subscribe(),
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
        let mut stage = self.stage.clone();
        let waited = stage.wait_for(|stage| *stage != Stage::Unlisted).await;
        if waited.is_ok() {
            return Ok(());
        }
        writer_dropped().map_or(Ok(()), Err)
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

    /// How complete the store is.
    pub(crate) fn stage(&self) -> watch::Receiver<Stage> {
        self.stage.clone()
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
            // The store of kube-runtime also returns a cluster-scoped object for a key with a namespace.
            Objects::Kube(kube) => {
                let found = kube.get(&target(key, dyntype));
                found.filter(|object| key_of(&**object) == *key)
            }
        }
    }

    /// The newest state of `object`, which has this key. `None` if the store does not have it.
    pub(crate) fn newest(
        &self,
        key: &ObjectKey,
        object: Arc<K>,
        dyntype: &K::DynamicType,
    ) -> Option<Arc<K>> {
        match &self.objects {
            Objects::Informer(informer) => informer.newest(key, object),
            Objects::Kube(_) => self.get_key(key, dyntype),
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
            stage: self.stage.clone(),
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
