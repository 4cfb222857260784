//! A table whose keys all share one lock.

use std::{borrow::Borrow, collections::HashMap, hash::Hash, sync::Arc};

use shuttle::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::slot::Slot;

pub(crate) struct Table<K, V> {
    slots: RwLock<Slots<K, V>>,
}

type Slots<K, V> = HashMap<K, Arc<Slot<V>>>;

impl<K: Eq + Hash, V> Table<K, V> {
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<Arc<Slot<V>>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.read().get(key).cloned()
    }

    pub(crate) fn insert(&self, key: K, new: impl FnOnce() -> Slot<V>) -> Result<(), K> {
        let mut slots = self.write();
        if slots.contains_key(&key) {
            return Err(key);
        }
        slots.insert(key, Arc::new(new()));
        Ok(())
    }

    pub(crate) fn forget<Q>(&self, key: &Q, slot: &Arc<Slot<V>>)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let mut slots = self.write();
        if slots
            .get(key)
            .is_some_and(|current| Arc::ptr_eq(current, slot))
        {
            slots.remove(key);
        }
    }

    pub(crate) fn slots(&self) -> Vec<(K, Arc<Slot<V>>)>
    where
        K: Clone,
    {
        self.read()
            .iter()
            .map(|(key, slot)| (key.clone(), Arc::clone(slot)))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.read().len()
    }

    fn read(&self) -> RwLockReadGuard<'_, Slots<K, V>> {
        self.slots.read().expect("a panic ends the whole model")
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slots<K, V>> {
        self.slots.write().expect("a panic ends the whole model")
    }
}

impl<K: Eq + Hash, V> Default for Table<K, V> {
    fn default() -> Self {
        Self {
            slots: RwLock::new(HashMap::new()),
        }
    }
}
