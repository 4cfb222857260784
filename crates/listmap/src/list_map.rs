//! [`ListMap`], and its setting for keys without items.

use std::{borrow::Borrow, fmt, hash::Hash, num::NonZeroUsize};

use crate::{
    list::{Items, List, Search},
    slot::{Removed, Retired, Slot},
    table::Table,
};

/// Ordered lists by key, safe to share between threads.
///
/// Share it by reference or in an [`Arc`](std::sync::Arc); all methods take `&self`. It is not
/// `Clone`, because a copy could be mistaken for a handle to the same map.
///
/// # Contract
///
/// *Guaranteed.*
///
/// - Calls for the same key run one after the other. Items that one call adds are adjacent.
/// - Calls for different keys do not wait for each other. Keys share a lock only while a key is
///   looked up, added or removed, never while a list is changed or copied.
/// - No lock is held while a closure runs. A closure can take long, panic, and call the map, also
///   for the same key.
/// - An iteration sees exactly the items that were in the list when it began, in order, each once.
/// - A key is removed with its last item, unless [`EmptyKeys::Keep`] is set.
///
/// *Required.* `Hash` and `Eq` of the keys, and `Clone` of keys and items, do not use the map. Items
/// are cloned when they are returned, and when a list is changed while a reader still holds its
/// [`Items`]. Put items that are expensive to clone into an `Arc`.
///
/// *Not guaranteed.* Keys have no order. Methods about several keys ([`keys`](Self::keys),
/// [`len`](Self::len), [`lists`](Self::lists)) are not atomic: they can see each key at a different
/// time.
///
/// # Example
///
/// ```
/// use windlass_listmap::ListMap;
///
/// let map = ListMap::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| map.extend("odd", [1, 3]));
///     scope.spawn(|| map.extend("even", [2, 4]));
/// });
/// assert_eq!(*map.items("odd"), [1, 3]);
/// assert_eq!(map.get("even", 1), Some(4));
/// ```
pub struct ListMap<K, V> {
    table: Table<K, V>,
    empty_keys: EmptyKeys,
}

/// Whether a key without items is removed or kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EmptyKeys {
    /// The key is removed with its last item, and adding zero items creates no key.
    #[default]
    Drop,

    /// The key is kept until [`ListMap::remove_key`], as in the grafana-app-sdk. The map then grows
    /// with every key that it ever had.
    Keep,
}

// === impl ListMap ===

impl<K: Eq + Hash + Clone, V: Clone> ListMap<K, V> {
    /// Creates a map without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether a key without items is kept. By default it is removed.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_listmap::{EmptyKeys, ListMap};
    ///
    /// let map = ListMap::new().empty_keys(EmptyKeys::Keep);
    /// map.push("a", 1);
    /// map.remove_at("a", 0);
    /// assert_eq!(map.keys(), ["a"]);
    /// ```
    #[must_use]
    pub fn empty_keys(self, empty_keys: EmptyKeys) -> Self {
        Self { empty_keys, ..self }
    }

    /// Adds `item` at the end of the list of `key`. Creates the list if necessary.
    pub fn push(&self, key: K, item: V) {
        self.append(key, vec![item]);
    }

    /// Adds `items`, in their order and adjacent, at the end of the list of `key`. Creates the list
    /// if necessary.
    ///
    /// `items` is consumed completely before the first item is added.
    pub fn extend(&self, key: K, items: impl IntoIterator<Item = V>) {
        self.append(key, items.into_iter().collect());
    }

    /// Returns a clone of the item at `index` in the list of `key`.
    pub fn get<Q>(&self, key: &Q, index: usize) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.items(key).get(index).cloned()
    }

    /// Returns a snapshot of the items of `key`. It is empty if the key does not exist.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_listmap::ListMap;
    ///
    /// let map = ListMap::new();
    /// map.extend("a", [1, 2, 3]);
    /// for item in &map.items("a") {
    ///     map.remove_first("a", |other| other == item);
    /// }
    /// assert!(map.is_empty());
    /// ```
    pub fn items<Q>(&self, key: &Q) -> Items<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.look(key, Slot::items).unwrap_or_default()
    }

    /// Returns the number of items of `key`, or 0 if the key does not exist.
    pub fn len_of<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.items(key).len()
    }

    /// Whether `key` exists.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.look(key, Slot::items).is_some()
    }

    /// Returns a snapshot of the keys, in no particular order.
    #[must_use]
    pub fn keys(&self) -> Vec<K> {
        self.table.slots().into_iter().map(|(key, _)| key).collect()
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether the map has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all keys with their items, in no particular order of keys.
    #[must_use]
    pub fn lists(&self) -> Vec<(K, Items<V>)> {
        let slots = self.table.slots().into_iter();
        slots
            .filter_map(|(key, slot)| match slot.items() {
                Ok(items) => Some((key, items)),
                // The key was removed meanwhile, and may have been added again.
                Err(Retired) => self.look(&key, Slot::items).map(|items| (key, items)),
            })
            .collect()
    }

    /// Calls `visit` with the index and the item, for each item of `key`, in order.
    pub fn for_each<Q>(&self, key: &Q, mut visit: impl FnMut(usize, &V))
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        for (index, item) in self.items(key).iter().enumerate() {
            visit(index, item);
        }
    }

    /// Calls `visit` with the key, the index and the item, for each item of each key: in order
    /// within a key, in no particular order of keys.
    pub fn for_each_of_all(&self, mut visit: impl FnMut(&K, usize, &V)) {
        for (key, items) in self.lists() {
            for (index, item) in items.iter().enumerate() {
                visit(&key, index, item);
            }
        }
    }

    /// Removes the first item of `key` for which `matches` returns true, and returns the item. The
    /// other items keep their order.
    ///
    /// `matches` is called at most once for each item, in order, until it returns true.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_listmap::ListMap;
    ///
    /// let map = ListMap::new();
    /// map.extend("a", [1, 2, 3, 4]);
    /// assert_eq!(map.remove_first("a", |n| n % 2 == 0), Some(2));
    /// assert_eq!(map.remove_first("a", |n| *n > 9), None);
    /// assert_eq!(*map.items("a"), [1, 3, 4]);
    /// ```
    pub fn remove_first<Q>(&self, key: &Q, mut matches: impl FnMut(&V) -> bool) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.remove_matching(key, &mut matches, 1).pop()
    }

    /// Removes the item at `index` in the list of `key`, and returns it. The other items keep their
    /// order.
    pub fn remove_at<Q>(&self, key: &Q, index: usize) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.shrink(key, |slot| slot.remove(index, self.keeps_empty_keys()))
            .flatten()
    }

    /// Removes the first `limit` items of `key` for which `matches` returns true, or all of them
    /// without a limit, in one step. Returns the number of removed items.
    ///
    /// `matches` is called at most once for each item, in order, until `limit` is reached.
    ///
    /// # Example
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use windlass_listmap::ListMap;
    ///
    /// let map = ListMap::new();
    /// map.extend("a", 0..6);
    /// assert_eq!(map.remove_items("a", |n| n % 2 == 0, NonZeroUsize::new(2)), 2);
    /// assert_eq!(*map.items("a"), [1, 3, 4, 5]);
    /// assert_eq!(map.remove_items("a", |n| *n > 1, None), 3);
    /// assert_eq!(*map.items("a"), [1]);
    /// ```
    pub fn remove_items<Q>(
        &self,
        key: &Q,
        mut matches: impl FnMut(&V) -> bool,
        limit: Option<NonZeroUsize>,
    ) -> usize
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.remove_matching(
            key,
            &mut matches,
            limit.map_or(usize::MAX, NonZeroUsize::get),
        )
        .len()
    }

    /// Removes `key`, and returns its items, or `None` if the key does not exist.
    pub fn remove_key<Q>(&self, key: &Q) -> Option<Items<V>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.shrink(key, |slot| {
            let removed = slot.retire()?;
            Ok(Removed {
                removed,
                retired: true,
            })
        })
    }

    fn append(&self, mut key: K, mut items: Vec<V>) {
        if items.is_empty() && !self.keeps_empty_keys() {
            return;
        }
        loop {
            if let Some(slot) = self.table.get(&key) {
                match slot.append(&mut items) {
                    Ok(()) => return,
                    Err(Retired) => self.table.forget(&key, &slot),
                }
            } else {
                // The new list already contains its first items, so no reader sees the key
                // without them.
                let new = || Slot::new(items.drain(..).collect::<List<V>>());
                match self.table.insert(key, new) {
                    Ok(()) => return,
                    Err(back) => key = back,
                }
            }
        }
    }

    fn remove_matching<Q>(
        &self,
        key: &Q,
        matches: &mut dyn FnMut(&V) -> bool,
        limit: usize,
    ) -> Vec<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.shrink(key, |slot| {
            let mut search = Search::new(limit);
            loop {
                search.ask(&slot.list()?, &mut *matches);
                let Removed { removed, retired } =
                    slot.remove_found(&search, self.keeps_empty_keys())?;
                if let Some(removed) = removed {
                    return Ok(Removed { removed, retired });
                }
            }
        })
        .unwrap_or_default()
    }

    /// Calls `look` with the slot of `key`, if the key exists.
    fn look<Q, T>(&self, key: &Q, look: impl Fn(&Slot<V>) -> Result<T, Retired>) -> Option<T>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        loop {
            let slot = self.table.get(key)?;
            match look(&slot) {
                Ok(seen) => return Some(seen),
                Err(Retired) => self.table.forget(key, &slot),
            }
        }
    }

    /// Calls a removal with the slot of `key`, if the key exists.
    fn shrink<Q, T>(
        &self,
        key: &Q,
        mut remove: impl FnMut(&Slot<V>) -> Result<Removed<T>, Retired>,
    ) -> Option<T>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        loop {
            let slot = self.table.get(key)?;
            match remove(&slot) {
                Ok(Removed { removed, retired }) => {
                    if retired {
                        self.table.forget(key, &slot);
                    }
                    return Some(removed);
                }
                Err(Retired) => self.table.forget(key, &slot),
            }
        }
    }

    fn keeps_empty_keys(&self) -> bool {
        self.empty_keys == EmptyKeys::Keep
    }
}

impl<K: Eq + Hash, V> Default for ListMap<K, V> {
    fn default() -> Self {
        Self {
            table: Table::default(),
            empty_keys: EmptyKeys::default(),
        }
    }
}

impl<K, V> fmt::Debug for ListMap<K, V>
where
    K: Eq + Hash + Clone + fmt::Debug,
    V: Clone + fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.lists()).finish()
    }
}
