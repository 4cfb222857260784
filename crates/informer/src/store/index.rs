//! Indexes: objects by values other than their key.

use std::{
    any::Any,
    borrow::Borrow,
    collections::{HashMap, HashSet},
    fmt,
    hash::Hash,
    panic::resume_unwind,
    sync::{Arc, OnceLock},
};

use dashmap::{DashMap, mapref::entry::Entry};
use parking_lot::Mutex;

use crate::{ObjectKey, log, panics};

/// Finds objects of kind `K` by values of type `V`, for example an owner, a node, or a label.
///
/// # Contract
///
/// Declare an index with [`InformerBuilder::index`](crate::InformerBuilder::index), and read it with
/// [`Store::by`](crate::Store::by). The informer updates it with each change. A read of an
/// undeclared index is an error, not an empty result.
///
/// The function is called once for each state of an object, and its result is kept. If it panics,
/// the panic is logged, and the object has no index entries until its next change. If `Hash`, `Eq`,
/// `Clone` or `Drop` of a value panics, the informer fails with
/// [`InformerError::Panicked`](crate::InformerError::Panicked), which names the type `V`.
pub struct Index<K, V> {
    values: Arc<Values<K, V>>,
}

type Values<K, V> = dyn Fn(&K) -> Vec<V> + Send + Sync;

/// The informer was built without this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this index was not declared when the informer was built; add it with `Informer::builder(source).index(&index)`"
)]
pub struct UndeclaredIndex;

/// An index was added to an informer that has run before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an index can only be added to an informer before its first run")]
pub struct LateIndex;

/// The indexes of a store. Fixed at the first use, so that reads take no lock.
pub(crate) struct DeclaredIndexes<K> {
    declared: Mutex<Vec<Box<dyn ErasedIndexTable<K>>>>,
    fixed: OnceLock<Vec<Box<dyn ErasedIndexTable<K>>>>,
}

/// The contents of one index.
pub(crate) struct IndexTable<K, V> {
    index: Index<K, V>,
    keys_by_value: DashMap<V, HashSet<ObjectKey>>,

    /// The values of each object, because the previous state cannot be asked for them.
    values: Mutex<HashMap<ObjectKey, Box<[V]>>>,
}

/// An [`IndexTable`] of any value type.
pub(crate) trait ErasedIndexTable<K>: Any + Send + Sync {
    /// Replaces the values of `key` by those of `new`.
    fn update(&self, key: &ObjectKey, new: Option<&K>);

    fn as_any(&self) -> &dyn Any;
}

// === impl Index ===

impl<K, V> Index<K, V> {
    /// Creates an index. `values` returns the values of an object: none, one (`Option`), or
    /// several.
    pub fn new<F, I>(values: F) -> Self
    where
        F: Fn(&K) -> I + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        Self {
            values: Arc::new(move |object| values(object).into_iter().collect()),
        }
    }

    pub(super) fn table<'t>(
        &self,
        declared: &'t dyn ErasedIndexTable<K>,
    ) -> Option<&'t IndexTable<K, V>>
    where
        K: 'static,
        V: 'static,
    {
        let table = declared.as_any().downcast_ref::<IndexTable<K, V>>()?;
        Arc::ptr_eq(&table.index.values, &self.values).then_some(table)
    }

    fn values(&self, key: &ObjectKey, object: &K) -> Vec<V> {
        panics::catch(|| (self.values)(object)).unwrap_or_else(|message| {
            log::error!(%key, panic = %message, "index function panicked, leaving the object out of the index until its next change");
            Vec::new()
        })
    }
}

impl<K, V> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        Self {
            values: Arc::clone(&self.values),
        }
    }
}

impl<K, V> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").finish_non_exhaustive()
    }
}

// === impl DeclaredIndexes ===

impl<K> DeclaredIndexes<K> {
    pub(crate) fn new(declared: Vec<Box<dyn ErasedIndexTable<K>>>) -> Self {
        Self {
            declared: Mutex::new(declared),
            fixed: OnceLock::new(),
        }
    }

    /// All indexes, which are fixed from now on.
    pub(crate) fn all(&self) -> &[Box<dyn ErasedIndexTable<K>>] {
        if let Some(fixed) = self.fixed.get() {
            return fixed;
        }
        // Locked until they are fixed, so that no index is added in between and lost.
        let mut declared = self.declared.lock();
        (self.fixed).get_or_init(|| std::mem::take(&mut *declared))
    }

    /// Adds `index`, unless it is declared already.
    pub(crate) fn add<V>(&self, index: &Index<K, V>) -> Result<(), LateIndex>
    where
        K: Send + Sync + 'static,
        V: Clone + Eq + Hash + Send + Sync + 'static,
    {
        // Locked, so that the indexes are not fixed meanwhile.
        let mut declared = self.declared.lock();
        let is_known = |all: &[Box<dyn ErasedIndexTable<K>>]| {
            all.iter().any(|it| index.table(&**it).is_some())
        };
        if let Some(fixed) = self.fixed.get() {
            return if is_known(fixed) {
                Ok(())
            } else {
                Err(LateIndex)
            };
        }
        if !is_known(&declared) {
            declared.push(Box::new(IndexTable::new(index.clone())));
        }
        Ok(())
    }
}

// === impl IndexTable ===

impl<K, V: Eq + Hash> IndexTable<K, V> {
    pub(crate) fn new(index: Index<K, V>) -> Self {
        Self {
            index,
            keys_by_value: DashMap::new(),
            values: Mutex::default(),
        }
    }

    pub(super) fn keys<Q>(&self, value: &Q) -> HashSet<ObjectKey>
    where
        V: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.keys_by_value
            .get(value)
            .map(|keys| keys.clone())
            .unwrap_or_default()
    }
}

impl<K, V> ErasedIndexTable<K> for IndexTable<K, V>
where
    K: Send + Sync + 'static,
    V: Clone + Eq + Hash + Send + Sync + 'static,
{
    fn update(&self, key: &ObjectKey, new: Option<&K>) {
        if let Err(message) = panics::catch(|| self.replace(key, new)) {
            let values = std::any::type_name::<V>();
            let message = format!("index values of type {values}: {message}");
            // The index is incomplete: the informer ends, and reports this as its error.
            resume_unwind(Box::new(message));
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<K, V> IndexTable<K, V>
where
    V: Clone + Eq + Hash,
{
    /// Replaces the values of `key` by those of `new`.
    fn replace(&self, key: &ObjectKey, new: Option<&K>) {
        let new: HashSet<V> = new
            .map(|object| self.index.values(key, object))
            .into_iter()
            .flatten()
            .collect();
        let old = {
            let mut values = self.values.lock();
            if new.is_empty() {
                values.remove(key)
            } else {
                values.insert(key.clone(), new.iter().cloned().collect())
            }
        };
        let old: HashSet<V> = old.into_iter().flatten().collect();
        for value in &old {
            if new.contains(value) {
                continue;
            }
            if let Some(mut keys) = self.keys_by_value.get_mut(value) {
                keys.remove(key);
                drop(keys);
                self.keys_by_value
                    .remove_if(value, |_, keys| keys.is_empty());
            }
        }
        for value in new {
            if old.contains(&value) {
                continue;
            }
            match self.keys_by_value.entry(value) {
                Entry::Occupied(mut keys) => _ = keys.get_mut().insert(key.clone()),
                Entry::Vacant(vacant) => _ = vacant.insert(HashSet::from([key.clone()])),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::{ErasedIndexTable as _, Index, IndexTable};
    use crate::ObjectKey;

    /// Neither a value without objects nor a deleted object uses memory.
    #[test]
    fn an_index_has_no_entries_of_deleted_objects() {
        let labels = |config: &ConfigMap| config.metadata.labels.clone().unwrap_or_default();
        let index = Index::new(move |config: &ConfigMap| labels(config).into_values());
        let table = IndexTable::new(index);
        for round in 0..3 {
            for number in 0..10 {
                let key = ObjectKey::new(format!("config-{number}"));
                let mut config = ConfigMap::default();
                let labels = [
                    ("a", "shared".to_owned()),
                    ("b", format!("{round}-{number}")),
                ];
                let labels = labels.map(|(name, value)| (name.to_owned(), value));
                config.metadata.labels = Some(labels.into());
                table.update(&key, Some(&config));
            }
            assert_eq!(
                table.keys_by_value.len(),
                11,
                "values of earlier states are filed"
            );
            assert_eq!(table.values.lock().len(), 10);
        }
        for number in 0..10 {
            table.update(&ObjectKey::new(format!("config-{number}")), None);
        }
        assert!(
            table.keys_by_value.is_empty(),
            "{} values",
            table.keys_by_value.len()
        );
        assert!(table.values.lock().is_empty());
    }
}
