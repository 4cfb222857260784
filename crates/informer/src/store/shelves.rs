//! The map of cached objects by name, in shards with a lock each.

use std::{
    hash::BuildHasher,
    sync::atomic::{AtomicUsize, Ordering},
};

use hashbrown::{DefaultHashBuilder, HashTable, hash_table};
use parking_lot::RwLock;

use crate::{Fresh, Kept, Named, ObjectKey, Stored};

/// Every object, with its key once: a lookup needs no key but only a name.
pub(super) struct Shelves<K> {
    rows: Box<[Row<K>]>,
    hasher: DefaultHashBuilder,
    len: AtomicUsize,

    /// How many objects the list that is being taken has shown.
    shown: AtomicUsize,
}

/// Some of the objects, under one lock.
pub(super) struct Row<K>(RwLock<HashTable<Entry<K>>>);

/// One object in its place.
pub(super) struct Entry<K> {
    pub(super) key: ObjectKey,
    pub(super) kept: Kept<K>,

    pub(super) mark: Mark,
}

/// Which list showed an object, and in which history its state is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The list that showed it last. Compared for equality only, so that it may wrap.
    pub(super) list: u32,

    /// How often the history had gone back when this state was put here.
    pub(super) epoch: u32,
}

/// What an object found in its place.
pub(super) enum Put<K> {
    /// Nothing.
    New(ObjectKey),
    /// Itself, or a newer state of it, which was left there.
    Known,
    /// An older state, or a predecessor.
    Replaced {
        key: ObjectKey,
        old: Kept<K>,
        /// The epoch of the old state.
        epoch: u32,
    },
}

// === impl Shelves ===

impl<K> Shelves<K> {
    /// Enough that readers seldom meet the writer, and that a row which grows is a small part
    /// of the store.
    const ROWS: usize = 64;

    pub(super) fn new() -> Self {
        let row = || Row(RwLock::new(HashTable::new()));
        Self {
            rows: std::iter::repeat_with(row).take(Self::ROWS).collect(),
            hasher: DefaultHashBuilder::default(),
            len: AtomicUsize::new(0),
            shown: AtomicUsize::new(0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub(super) fn shown(&self) -> usize {
        self.shown.load(Ordering::Relaxed)
    }

    /// Another list begins, which has shown nothing yet.
    pub(super) fn begin(&self) {
        self.shown.store(0, Ordering::Relaxed);
    }

    /// A list shows `entry`.
    pub(super) fn show(&self, entry: &mut Entry<K>, list: u32) {
        if entry.mark.list != list {
            entry.mark.list = list;
            self.shown.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What `look` makes of the entry of `name`, if there is one.
    pub(super) fn get<T>(&self, name: Name<'_>, look: impl FnOnce(&Entry<K>) -> T) -> Option<T> {
        let (hash, row) = self.place(name);
        row.read().find(hash, |entry| name.is(entry)).map(look)
    }

    /// What `look` makes of the entry of `name`, which it may change, if there is one.
    pub(super) fn get_mut<T>(
        &self,
        name: Name<'_>,
        look: impl FnOnce(&mut Entry<K>) -> T,
    ) -> Option<T> {
        let (hash, row) = self.place(name);
        let mut row = row.write();
        row.find_mut(hash, |entry| name.is(entry)).map(look)
    }

    /// Puts `fresh` in its place, unless `is_known` says of what is there, and is of the same
    /// history, that `fresh` tells nothing new; `key` makes its key if it has none here.
    pub(super) fn put(
        &self,
        fresh: &Fresh<K>,
        mark: Mark,
        key: impl FnOnce(&Kept<K>) -> ObjectKey,
        is_known: impl FnOnce(&Kept<K>) -> bool,
    ) -> Put<K>
    where
        K: Stored,
    {
        let name = Name::of(&fresh.kept);
        let (hash, row) = self.place(name);
        let mut row = row.write();
        let rehash = |entry: &Entry<K>| self.hasher.hash_one(Name::from(&entry.key));
        match row.entry(hash, |entry| name.is(entry), rehash) {
            hash_table::Entry::Vacant(slot) => {
                let key = key(&fresh.kept);
                slot.insert(Entry {
                    key: key.clone(),
                    kept: fresh.kept.clone(),
                    mark,
                });
                self.len.fetch_add(1, Ordering::Relaxed);
                self.shown.fetch_add(1, Ordering::Relaxed);
                Put::New(key)
            }
            hash_table::Entry::Occupied(mut slot) => {
                let entry = slot.get_mut();
                self.show(entry, mark.list);
                if entry.mark.epoch == mark.epoch && is_known(&entry.kept) {
                    return Put::Known;
                }
                let epoch = std::mem::replace(&mut entry.mark, mark).epoch;
                let old = std::mem::replace(&mut entry.kept, fresh.kept.clone());
                let key = entry.key.clone();
                Put::Replaced { key, old, epoch }
            }
        }
    }

    /// Takes the entry of `key` away.
    pub(super) fn remove(&self, key: &ObjectKey) -> Option<Entry<K>> {
        let name = Name::from(key);
        let (hash, row) = self.place(name);
        let mut row = row.write();
        let entry = row.find_entry(hash, |entry| name.is(entry)).ok()?;
        self.len.fetch_sub(1, Ordering::Relaxed);
        Some(entry.remove().0)
    }

    /// What `look` makes of all entries, row by row; where it makes nothing, nothing.
    pub(super) fn filter_map<T>(&self, look: impl Fn(&Entry<K>) -> Option<T>) -> Vec<T> {
        let rows = self.rows().iter();
        rows.flat_map(|row| row.filter_map(&look)).collect()
    }

    pub(super) fn rows(&self) -> &[Row<K>] {
        &self.rows
    }

    fn place(&self, name: Name<'_>) -> (u64, &RwLock<HashTable<Entry<K>>>) {
        let hash = self.hasher.hash_one(name);
        // The table looks at the lowest and the highest bits.
        let row = usize::try_from(hash >> 32).unwrap_or_default() % Self::ROWS;
        (hash, &self.rows[row].0)
    }
}

// === impl Row ===

impl<K> Row<K> {
    /// What `look` makes of its entries; where it makes nothing, nothing.
    pub(super) fn filter_map<T>(&self, look: impl Fn(&Entry<K>) -> Option<T>) -> Vec<T> {
        self.0.read().iter().filter_map(look).collect()
    }
}

/// A namespace and a name, of whatever stands there.
#[derive(Clone, Copy, Hash)]
pub(super) struct Name<'a>(Option<&'a str>, &'a str);

// === impl Name ===

impl<'a> Name<'a> {
    pub(super) fn of(object: &'a impl Named) -> Self {
        Self(object.namespace(), object.name())
    }

    fn is<K>(self, entry: &Entry<K>) -> bool {
        entry.key.name() == self.1 && entry.key.namespace() == self.0
    }
}

impl<'a> From<&'a ObjectKey> for Name<'a> {
    fn from(key: &'a ObjectKey) -> Self {
        Self(key.namespace(), key.name())
    }
}
