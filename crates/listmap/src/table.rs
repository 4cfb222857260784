//! The table of slots by key.
//!
//! Keys share the locks of the map below, which are held only to find, add or remove a slot. Each
//! slot has its own lock for the work on its list.

use std::{borrow::Borrow, hash::Hash, sync::Arc};

use dashmap::{DashMap, mapref::entry::Entry};

use crate::slot::Slot;

/// The slots of all keys.
pub(crate) struct Table<K, V> {
    slots: DashMap<K, Arc<Slot<V>>>,
}

// === impl Table ===

impl<K: Eq + Hash, V> Table<K, V> {
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<Arc<Slot<V>>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.slots.get(key).map(|slot| Arc::clone(&slot))
    }

    /// Inserts the slot that `new` creates, or returns `key` if it has a slot already.
    pub(crate) fn insert(&self, key: K, new: impl FnOnce() -> Slot<V>) -> Result<(), K> {
        match self.slots.entry(key) {
            Entry::Occupied(entry) => Err(entry.into_key()),
            Entry::Vacant(entry) => {
                entry.insert(Arc::new(new()));
                Ok(())
            }
        }
    }

    /// Removes `slot` if it is still the slot of `key`.
    pub(crate) fn forget<Q>(&self, key: &Q, slot: &Arc<Slot<V>>)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.slots
            .remove_if(key, |_, current| Arc::ptr_eq(current, slot));
    }

    pub(crate) fn slots(&self) -> Vec<(K, Arc<Slot<V>>)>
    where
        K: Clone,
    {
        self.slots
            .iter()
            .map(|entry| (entry.key().clone(), Arc::clone(entry.value())))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}

impl<K: Eq + Hash, V> Default for Table<K, V> {
    fn default() -> Self {
        Self {
            slots: DashMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Table;
    use crate::slot::Slot;

    #[test]
    fn a_late_removal_does_not_remove_a_newer_slot() {
        let table = Table::default();
        let slot = || Slot::<i32>::new([1].into_iter().collect());
        assert_eq!(table.insert("a", slot), Ok(()));
        let old = table.get("a").expect("it was inserted");
        table.forget("a", &old);
        assert_eq!(table.insert("a", slot), Ok(()));

        table.forget("a", &old);
        assert_eq!(table.len(), 1);
        assert_eq!(table.insert("a", slot), Err("a"));
    }
}
