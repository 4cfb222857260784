//! The store: the last known state of each object of a kind, and indexes.

mod checksum;
mod index;
mod sharded_map;
mod writer;

use std::{
    borrow::Borrow,
    collections::HashSet,
    fmt,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use tokio::task::yield_now;

pub use self::index::{Index, LateIndex, UndeclaredIndex};
use self::sharded_map::{NameRef, ShardedMap};
pub(crate) use self::{
    index::{DeclaredIndexes, ErasedIndexTable, IndexTable},
    writer::{Deltas, Writer},
};
use crate::{
    LazyObject, ObjectIdentity, ObjectKey, Stored, lazy_object::decoded, metrics::Instruments,
};

/// The number of objects that an asynchronous list decodes without a yield: less than a millisecond
/// of Pods.
const DECODED_WITHOUT_YIELD: usize = 32;

/// The last known state of each object of a kind.
///
/// # Contract
///
/// *Guaranteed.* The informer is the only writer. Readers get an `Arc` and copy nothing. Reads do
/// not block each other, and a write blocks them only while it replaces one entry. An object is in
/// the store before its event is delivered.
///
/// By default the store keeps objects as JSON. A read decodes the object, without a lock;
/// [`get_lazy`](Self::get_lazy) does not. Objects that were read stay decoded in a cache of at most
/// 32 MiB ([`ListWatch::decode_cache`](crate::ListWatch::decode_cache)), and so do their later
/// states if the informer has subscribers. [`ListWatch::decoded`](crate::ListWatch::decoded) keeps
/// all objects decoded.
///
/// *Not guaranteed.* A consistent snapshot: two reads, or the objects of one list, can be of
/// different times. The store is empty before the first list, and before the informer runs.
///
/// Cloning a store increments a reference count.
pub struct Store<K> {
    contents: Arc<Contents<K>>,
}

struct Contents<K> {
    objects: ShardedMap<K>,

    /// In declaration order.
    indexes: DeclaredIndexes<K>,

    /// Changed when the history of the server goes back: no earlier state is known then.
    epoch: AtomicU32,

    instruments: Arc<Instruments>,
}

// === impl Store ===

impl<K: Stored> Store<K> {
    /// Returns the object with this key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read(&self.get_lazy(key)?)
    }

    /// Returns all objects, in no particular order.
    ///
    /// Decodes each object that is not decoded. Use [`len`](Self::len) to count objects,
    /// [`keys`](Self::keys) for their keys, and [`list_lazy`](Self::list_lazy) for labels and
    /// owners.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<K>> {
        self.list_lazy()
            .iter()
            .filter_map(|it| self.read(it))
            .collect()
    }

    /// Like [`list`](Self::list), but yields to the runtime after every 32 objects, so that other
    /// tasks of the thread continue.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any `await`.
    pub async fn list_async(&self) -> Vec<Arc<K>> {
        self.read_all(&self.list_lazy()).await
    }

    /// Returns the objects that `index` has under `value`. Does not read the others.
    ///
    /// # Errors
    ///
    /// [`UndeclaredIndex`] if the informer was not built with `index`.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use windlass_informer::{Index, Informer, Scripted};
    ///
    /// let by_node = Index::new(|pod: &Pod| pod.spec.as_ref()?.node_name.clone());
    /// let (_script, source) = Scripted::new();
    /// let pods = Informer::builder(source).index(&by_node).build();
    /// assert!(pods.store().by(&by_node, "node-1")?.is_empty());
    ///
    /// let elsewhere = Index::new(|pod: &Pod| pod.metadata.namespace.clone());
    /// assert!(pods.store().by(&elsewhere, "shop").is_err());
    /// # Ok::<(), windlass_informer::UndeclaredIndex>(())
    /// ```
    pub fn by<V, Q>(&self, index: &Index<K, V>, value: &Q) -> Result<Vec<Arc<K>>, UndeclaredIndex>
    where
        V: Eq + Hash + Borrow<Q> + Send + Sync + 'static,
        Q: Eq + Hash + ?Sized,
    {
        let stored = self.by_lazy(index, value)?;
        Ok(stored.iter().filter_map(|it| self.read(it)).collect())
    }

    /// Like [`by`](Self::by), but yields to the runtime after every 32 objects, so that other tasks
    /// of the thread continue.
    ///
    /// # Errors
    ///
    /// [`UndeclaredIndex`] if the informer was not built with `index`.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any `await`.
    pub async fn by_async<V, Q>(
        &self,
        index: &Index<K, V>,
        value: &Q,
    ) -> Result<Vec<Arc<K>>, UndeclaredIndex>
    where
        V: Eq + Hash + Borrow<Q> + Send + Sync + 'static,
        Q: Eq + Hash + ?Sized,
    {
        let stored = self.by_lazy(index, value)?;
        Ok(self.read_all(&stored).await)
    }

    /// Returns the objects that `index` has under `value`, without decoding them.
    fn by_lazy<V, Q>(
        &self,
        index: &Index<K, V>,
        value: &Q,
    ) -> Result<Vec<LazyObject<K>>, UndeclaredIndex>
    where
        V: Eq + Hash + Borrow<Q> + Send + Sync + 'static,
        Q: Eq + Hash + ?Sized,
    {
        let keys = self.keys_of(index, value)?;
        Ok(keys.iter().filter_map(|key| self.get_lazy(key)).collect())
    }

    /// Returns the keys of the objects that `index` has under `value`, in no particular order,
    /// without decoding the objects.
    ///
    /// # Errors
    ///
    /// [`UndeclaredIndex`] if the informer was not built with `index`.
    pub fn keys_by<V, Q>(
        &self,
        index: &Index<K, V>,
        value: &Q,
    ) -> Result<Vec<ObjectKey>, UndeclaredIndex>
    where
        V: Eq + Hash + Borrow<Q> + Send + Sync + 'static,
        Q: Eq + Hash + ?Sized,
    {
        Ok(self.keys_of(index, value)?.into_iter().collect())
    }

    fn keys_of<V, Q>(
        &self,
        index: &Index<K, V>,
        value: &Q,
    ) -> Result<HashSet<ObjectKey>, UndeclaredIndex>
    where
        V: Eq + Hash + Borrow<Q> + Send + Sync + 'static,
        Q: Eq + Hash + ?Sized,
    {
        let mut indexes = self.contents.indexes.all().iter();
        let table = indexes.find_map(|declared| index.table(&**declared));
        Ok(table.ok_or(UndeclaredIndex)?.keys(value))
    }

    /// Declares an index, if the store was neither written nor read through an index before.
    pub(crate) fn add_index<V>(&self, index: &Index<K, V>) -> Result<(), LateIndex>
    where
        V: Clone + Eq + Hash + Send + Sync + 'static,
    {
        self.contents.indexes.add(index)
    }

    /// Decodes objects, and yields after every 32 of them.
    async fn read_all(&self, stored: &[LazyObject<K>]) -> Vec<Arc<K>> {
        let mut objects = Vec::with_capacity(stored.len());
        for chunk in stored.chunks(DECODED_WITHOUT_YIELD) {
            objects.extend(chunk.iter().filter_map(|it| self.read(it)));
            yield_now().await;
        }
        objects
    }

    /// Decodes an object for a reader. `None` if decoding fails, which is logged.
    fn read(&self, lazy: &LazyObject<K>) -> Option<Arc<K>> {
        let count = |is_hit| self.contents.instruments.read(is_hit);
        decoded(lazy, |lazy| lazy.read(count))
    }

    /// Returns the object if the store has it with this uid and version.
    pub(crate) fn known(&self, object: &impl ObjectIdentity) -> Option<LazyObject<K>> {
        let (uid, version) = (object.uid(), object.resource_version()?);
        let objects = &self.contents.objects;
        let epoch = self.contents.epoch.load(Ordering::Acquire);
        let known = objects.get(NameRef::of(object), |entry| {
            let known = &entry.lazy;
            let is_same = entry.mark.epoch == epoch
                && known.resource_version() == Some(version)
                && known.uid() == uid;
            is_same.then(|| known.clone())
        });
        known.flatten()
    }
}

impl<K> Store<K> {
    pub(crate) fn has(&self, object: &impl ObjectIdentity) -> bool {
        self.contents
            .objects
            .get(NameRef::of(object), |_| ())
            .is_some()
    }

    /// How many objects the current list has contained so far.
    pub(crate) fn shown(&self) -> usize {
        self.contents.objects.shown()
    }

    /// Returns the object with this key, without decoding it.
    #[must_use]
    pub fn get_lazy(&self, key: &ObjectKey) -> Option<LazyObject<K>> {
        let objects = &self.contents.objects;
        objects.get(key.into(), |entry| entry.lazy.clone())
    }

    /// Returns all objects, in no particular order, without decoding them.
    #[must_use]
    pub fn list_lazy(&self) -> Vec<LazyObject<K>> {
        let objects = &self.contents.objects;
        objects.filter_map(|entry| Some(entry.lazy.clone()))
    }

    /// Whether the store has an object with this key.
    #[must_use]
    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.contents.objects.get(key.into(), |_| ()).is_some()
    }

    /// Returns all keys, in no particular order.
    #[must_use]
    pub fn keys(&self) -> Vec<ObjectKey> {
        let objects = &self.contents.objects;
        objects.filter_map(|entry| Some(entry.key.clone()))
    }

    /// The number of objects, and a checksum of their uids and resource versions.
    pub(crate) fn checksum(&self) -> (usize, u64) {
        let objects = &self.contents.objects;
        let digests = objects.filter_map(|entry| {
            let (uid, version) = (entry.lazy.uid(), entry.lazy.resource_version());
            let (uid, version) = (uid.unwrap_or_default(), version.unwrap_or_default());
            Some(checksum::digest(uid, version))
        });
        checksum::checksum(&digests)
    }

    /// Returns the keys that `wanted` accepts, in no particular order. Calls `wanted` under a lock.
    pub(crate) fn keys_where(&self, wanted: &dyn Fn(&ObjectKey) -> bool) -> Vec<ObjectKey> {
        let objects = &self.contents.objects;
        objects.filter_map(|entry| wanted(&entry.key).then(|| entry.key.clone()))
    }

    /// Returns all objects with their keys, in no particular order, without decoding them.
    #[doc(hidden)]
    #[must_use]
    pub fn entries(&self) -> Vec<(ObjectKey, LazyObject<K>)> {
        let objects = &self.contents.objects;
        objects.filter_map(|entry| Some((entry.key.clone(), entry.lazy.clone())))
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contents.objects.len()
    }

    /// Whether the store is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn new(
        indexes: Vec<Box<dyn ErasedIndexTable<K>>>,
        instruments: Arc<Instruments>,
    ) -> Self {
        Self {
            contents: Arc::new(Contents {
                objects: ShardedMap::new(),
                indexes: DeclaredIndexes::new(indexes),
                epoch: AtomicU32::new(0),
                instruments,
            }),
        }
    }
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self {
            contents: Arc::clone(&self.contents),
        }
    }
}

impl<K> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
