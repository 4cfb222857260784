//! Reads of the stores of all informers of a kind.

use std::{borrow::Borrow, collections::BTreeMap, hash::Hash, sync::Arc};

use kube::{
    ResourceExt as _,
    core::{Selector, SelectorExt as _},
};
use windlass_informer::{
    Index, LazyObject, ObjectIdentity as _, ObjectKey, Store, UndeclaredIndex,
};

use super::Informers;
use crate::level::Watchable;

// === impl Informers ===

impl<K: Watchable> Informers<K> {
    /// Returns the object with this key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.newest(key)?.get(key)
    }

    /// Returns the object with this key, without decoding it.
    #[must_use]
    pub fn get_lazy(&self, key: &ObjectKey) -> Option<LazyObject<K>> {
        self.newest(key)?.get_lazy(key)
    }

    /// The store with the newest state of the object with this key.
    fn newest(&self, key: &ObjectKey) -> Option<Store<K>> {
        let informers = self.shared.informers.read();
        if let [only] = &**informers {
            return Some(only.store());
        }
        let versions = informers.iter().filter_map(|informer| {
            let store = informer.store();
            Some((version(&store.get_lazy(key)?), store))
        });
        Some(versions.max_by_key(|(version, _)| *version)?.1)
    }

    /// Returns all objects, in no particular order.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<K>> {
        let informers = self.shared.informers.read();
        match &**informers {
            [only] => only.store().list(),
            all => {
                let mut keys: Vec<_> = all.iter().flat_map(|it| it.store().keys()).collect();
                keys.sort_unstable();
                keys.dedup();
                drop(informers);
                keys.iter().filter_map(|key| self.get(key)).collect()
            }
        }
    }

    /// Returns the objects with labels that match `selector`, of one namespace or of all, in no
    /// particular order. It looks at the labels of all objects, and decodes only those that it returns:
    /// for a question that is asked often, declare an [`Index`].
    #[must_use]
    pub fn list_matching(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<K>> {
        let informers = self.shared.informers.read();
        let (none, mut keys) = (BTreeMap::new(), Vec::new());
        for object in informers.iter().flat_map(|it| it.store().list_lazy()) {
            let (key, metadata) = (object.key(), object.metadata());
            let is_inside = namespace.is_none() || key.namespace() == namespace;
            if is_inside && selector.matches(metadata.labels.as_ref().unwrap_or(&none)) {
                keys.push(key);
            }
        }
        drop(informers);
        keys.sort_unstable();
        keys.dedup();
        let is_match = |object: &Arc<K>| selector.matches(object.labels());
        keys.iter()
            .filter_map(|key| self.get(key))
            .filter(is_match)
            .collect()
    }

    /// Returns the objects that `index` has under `value`.
    ///
    /// # Errors
    ///
    /// [`UndeclaredIndex`] if the [`Watch`](crate::Watch) or a shared informer was not built with `index`.
    pub fn by<V, Q>(&self, index: &Index<K, V>, value: &Q) -> Result<Vec<Arc<K>>, UndeclaredIndex>
    where
        V: Eq + Hash + Borrow<Q> + Send + Sync + 'static,
        Q: Eq + Hash + ?Sized,
    {
        let keys = self.keys_by(index, value)?;
        Ok(keys.iter().filter_map(|key| self.get(key)).collect())
    }

    /// Returns the keys of the objects that `index` has under `value`, without decoding them.
    ///
    /// # Errors
    ///
    /// [`UndeclaredIndex`] like [`by`](Self::by).
    pub fn keys_by<V, Q>(
        &self,
        index: &Index<K, V>,
        value: &Q,
    ) -> Result<Vec<ObjectKey>, UndeclaredIndex>
    where
        V: Eq + Hash + Borrow<Q> + Send + Sync + 'static,
        Q: Eq + Hash + ?Sized,
    {
        let informers = self.shared.informers.read();
        let mut keys = Vec::new();
        for informer in &*informers {
            keys.extend(informer.store().keys_by(index, value)?);
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// The number of objects; of an object that several informers show, the number of these.
    #[must_use]
    pub fn len(&self) -> usize {
        let informers = self.shared.informers.read();
        informers.iter().map(|it| it.store().len()).sum()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The version as a number, to compare two states of one object.
fn version<K>(object: &LazyObject<K>) -> Option<u64> {
    object.resource_version()?.parse().ok()
}
