//! The store: the objects of a kind as they were last seen, and indexes over them.

mod index;
mod sharded_map;
mod writer;

use std::{
    collections::HashSet,
    fmt,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

pub use self::index::{Index, UndeclaredIndex};
use self::sharded_map::{NameRef, ShardedMap};
pub(crate) use self::{
    index::{ErasedIndexTable, IndexTable},
    writer::{DeltaType, Deltas, Writer},
};
use crate::{LazyObject, ObjectIdentity, ObjectKey, Stored, lazy_object::decoded};

/// The objects of a kind as they were last seen.
///
/// # Contract
///
/// *Guaranteed.* One writer, the informer; any number of readers, who get an `Arc` and copy
/// nothing. A read never waits for another read, and for a write only as long as one entry
/// takes. An object is here before a handler receives its event.
///
/// An object that is kept as JSON is decoded when it is read ([`kept`](Self::get_lazy) does not),
/// outside of any lock. What is read more than once in five minutes stays decoded, its later
/// states too, until five minutes go by without a read: so the memory is that of what is
/// read, and to read the same things again and again costs nothing. [`ListWatch::decoded`](crate::ListWatch::decoded) keeps everything decoded.
///
/// *Not guaranteed.* That two reads see the same moment, or that a list does: each object is
/// as it was when the list came by. Before the first list, and without an informer that
/// runs, a store is empty.
///
/// Cloning one costs a reference count.
pub struct Store<K> {
    contents: Arc<Contents<K>>,
}

struct Contents<K> {
    objects: ShardedMap<K>,

    /// In the order in which they were declared.
    indexes: Vec<Box<dyn ErasedIndexTable<K>>>,

    /// How often the history of the server went back.
    epoch: AtomicU32,
}

// === impl Store ===

impl<K: Stored> Store<K> {
    /// The object of this name.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.get_lazy(key).as_ref().and_then(read)
    }

    /// All objects, in no order.
    ///
    /// Decodes each that is not decoded; to count or to name them, ask for
    /// [`len`](Self::len) or [`keys`](Self::keys), and to look at their labels and owners for
    /// [`list_lazy`](Self::list_lazy).
    #[must_use]
    pub fn list(&self) -> Vec<Arc<K>> {
        self.list_lazy().iter().filter_map(read).collect()
    }

    /// The object of this name, uid and version.
    pub(crate) fn known(&self, object: &impl ObjectIdentity) -> Option<LazyObject<K>> {
        let (uid, version) = (object.uid(), object.resource_version()?);
        let objects = &self.contents.objects;
        let known = objects.get(NameRef::of(object), |entry| {
            let known = &entry.kept;
            let is_same = entry.mark.epoch == self.epoch()
                && known.resource_version() == Some(version)
                && known.uid() == uid;
            is_same.then(|| known.clone())
        });
        known.flatten()
    }
}

impl<K> Store<K> {
    /// How often the history of the server went back since the informer was made: 0 for a
    /// cluster that was not restored from a backup.
    ///
    /// Versions of objects compare only within an epoch; across epochs the pair of epoch and
    /// version compares. The epoch never decreases, and is the new one before any object of
    /// the new history is here.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass_informer::{Informer, Scripted};
    ///
    /// let (_script, source) = Scripted::<ConfigMap>::new();
    /// assert_eq!(Informer::new(source).store().epoch(), 0);
    /// ```
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.contents.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn has(&self, object: &impl ObjectIdentity) -> bool {
        self.contents
            .objects
            .get(NameRef::of(object), |_| ())
            .is_some()
    }

    /// How many objects the list that is being taken has shown.
    pub(crate) fn shown(&self) -> usize {
        self.contents.objects.shown()
    }

    /// The object of this name as it is kept, which nothing is decoded for.
    #[must_use]
    pub fn get_lazy(&self, key: &ObjectKey) -> Option<LazyObject<K>> {
        let objects = &self.contents.objects;
        objects.get(key.into(), |entry| entry.kept.clone())
    }

    /// All objects as they are kept, in no order, which nothing is decoded for.
    #[must_use]
    pub fn list_lazy(&self) -> Vec<LazyObject<K>> {
        let objects = &self.contents.objects;
        objects.filter_map(|entry| Some(entry.kept.clone()))
    }

    /// Whether there is an object of this name.
    #[must_use]
    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.contents.objects.get(key.into(), |_| ()).is_some()
    }

    /// The names of all objects, in no order.
    #[must_use]
    pub fn keys(&self) -> Vec<ObjectKey> {
        let objects = &self.contents.objects;
        objects.filter_map(|entry| Some(entry.key.clone()))
    }

    /// The keys that `wanted` accepts, in no order. `wanted` is called under a lock.
    pub(crate) fn keys_where(&self, wanted: &dyn Fn(&ObjectKey) -> bool) -> Vec<ObjectKey> {
        let objects = &self.contents.objects;
        objects.filter_map(|entry| wanted(&entry.key).then(|| entry.key.clone()))
    }

    /// All objects with their names, in no order.
    pub(crate) fn entries(&self) -> Vec<(ObjectKey, LazyObject<K>)> {
        let objects = &self.contents.objects;
        objects.filter_map(|entry| Some((entry.key.clone(), entry.kept.clone())))
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contents.objects.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects that `index` files under `value`, without looking at the others.
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
        K: Stored,
        V: Eq + Hash + std::borrow::Borrow<Q> + Send + Sync + 'static,
        Q: Eq + Hash + ?Sized,
    {
        let table = self
            .contents
            .indexes
            .iter()
            .find_map(|declared| index.table(&**declared))
            .ok_or(UndeclaredIndex)?;
        let keys: HashSet<ObjectKey> = table.keys(value);
        Ok(keys.iter().filter_map(|key| self.get(key)).collect())
    }

    pub(crate) fn new(indexes: Vec<Box<dyn ErasedIndexTable<K>>>) -> Self {
        Self {
            contents: Arc::new(Contents {
                objects: ShardedMap::new(),
                indexes,
                epoch: AtomicU32::new(0),
            }),
        }
    }
}

impl<K: Stored> Store<K> {
    /// Another while is over: what was not read in it is not held decoded any more.
    pub(crate) fn evict_unread(&self) {
        for shard in self.contents.objects.shards() {
            // Dropped where nothing is locked.
            drop(shard.filter_map(|entry| entry.kept.evict_unread()));
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

/// What `kept` decodes to, for a reader. One that does not, though it did, is not there.
fn read<K: Stored>(kept: &LazyObject<K>) -> Option<Arc<K>> {
    decoded(kept, LazyObject::read)
}
