//! The map of cached objects by name, in shards with a lock each.

use std::{
    hash::BuildHasher,
    sync::atomic::{AtomicUsize, Ordering},
};

use hashbrown::{DefaultHashBuilder, HashTable, hash_table};
use parking_lot::RwLock;

use crate::{IncomingObject, LazyObject, ObjectIdentity, ObjectKey, Stored};

/// Every object, with its key once: a lookup needs no key but only a name.
pub(super) struct ShardedMap<K> {
    shards: Box<[Shard<K>]>,
    hasher: DefaultHashBuilder,
    len: AtomicUsize,

    /// How many objects the list that is being taken has shown.
    shown: AtomicUsize,
}

/// Some of the objects, under one lock.
pub(super) struct Shard<K>(RwLock<HashTable<Entry<K>>>);

/// One object in its place.
pub(super) struct Entry<K> {
    pub(super) key: ObjectKey,
    pub(super) kept: LazyObject<K>,

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
pub(super) enum PutOutcome<K> {
    /// Nothing.
    New(ObjectKey),
    /// Itself, or a newer state of it, which was left there.
    Known,
    /// An older state, or a predecessor.
    Replaced {
        key: ObjectKey,
        old: LazyObject<K>,
        /// The epoch of the old state.
        epoch: u32,
    },
}

// === impl ShardedMap ===

impl<K> ShardedMap<K> {
    /// Enough that readers seldom meet the writer, and that a row which grows is a small part
    /// of the store.
    const SHARDS: usize = 64;

    pub(super) fn new() -> Self {
        let shard = || Shard(RwLock::new(HashTable::new()));
        Self {
            shards: std::iter::repeat_with(shard).take(Self::SHARDS).collect(),
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
    pub(super) fn get<T>(&self, name: NameRef<'_>, look: impl FnOnce(&Entry<K>) -> T) -> Option<T> {
        let (hash, shard) = self.place(name);
        shard.read().find(hash, |entry| name.is(entry)).map(look)
    }

    /// What `look` makes of the entry of `name`, which it may change, if there is one.
    pub(super) fn get_mut<T>(
        &self,
        name: NameRef<'_>,
        look: impl FnOnce(&mut Entry<K>) -> T,
    ) -> Option<T> {
        let (hash, shard) = self.place(name);
        let mut shard = shard.write();
        shard.find_mut(hash, |entry| name.is(entry)).map(look)
    }

    /// Puts `fresh` in its place, unless `is_known` says of what is there, and is of the same
    /// history, that `fresh` tells nothing new; `key` makes its key if it has none here.
    pub(super) fn put(
        &self,
        fresh: &IncomingObject<K>,
        mark: Mark,
        key: impl FnOnce(&LazyObject<K>) -> ObjectKey,
        is_known: impl FnOnce(&LazyObject<K>) -> bool,
    ) -> PutOutcome<K>
    where
        K: Stored,
    {
        let name = NameRef::of(&fresh.kept);
        let (hash, shard) = self.place(name);
        let mut shard = shard.write();
        let rehash = |entry: &Entry<K>| self.hasher.hash_one(NameRef::from(&entry.key));
        match shard.entry(hash, |entry| name.is(entry), rehash) {
            hash_table::Entry::Vacant(slot) => {
                let key = key(&fresh.kept);
                slot.insert(Entry {
                    key: key.clone(),
                    kept: fresh.kept.clone(),
                    mark,
                });
                self.len.fetch_add(1, Ordering::Relaxed);
                self.shown.fetch_add(1, Ordering::Relaxed);
                PutOutcome::New(key)
            }
            hash_table::Entry::Occupied(mut slot) => {
                let entry = slot.get_mut();
                self.show(entry, mark.list);
                if entry.mark.epoch == mark.epoch && is_known(&entry.kept) {
                    return PutOutcome::Known;
                }
                let epoch = std::mem::replace(&mut entry.mark, mark).epoch;
                let old = std::mem::replace(&mut entry.kept, fresh.kept.clone());
                let key = entry.key.clone();
                PutOutcome::Replaced { key, old, epoch }
            }
        }
    }

    /// Takes the entry of `key` away.
    pub(super) fn remove(&self, key: &ObjectKey) -> Option<Entry<K>> {
        let name = NameRef::from(key);
        let (hash, shard) = self.place(name);
        let mut shard = shard.write();
        let entry = shard.find_entry(hash, |entry| name.is(entry)).ok()?;
        self.len.fetch_sub(1, Ordering::Relaxed);
        Some(entry.remove().0)
    }

    /// What `look` makes of all entries, row by row; where it makes nothing, nothing.
    pub(super) fn filter_map<T>(&self, look: impl Fn(&Entry<K>) -> Option<T>) -> Vec<T> {
        let shards = self.shards().iter();
        shards.flat_map(|shard| shard.filter_map(&look)).collect()
    }

    pub(super) fn shards(&self) -> &[Shard<K>] {
        &self.shards
    }

    fn place(&self, name: NameRef<'_>) -> (u64, &RwLock<HashTable<Entry<K>>>) {
        let hash = self.hasher.hash_one(name);
        // The table looks at the lowest and the highest bits.
        let shard = usize::try_from(hash >> 32).unwrap_or_default() % Self::SHARDS;
        (hash, &self.shards[shard].0)
    }
}

// === impl Shard ===

impl<K> Shard<K> {
    /// What `look` makes of its entries; where it makes nothing, nothing.
    pub(super) fn filter_map<T>(&self, look: impl Fn(&Entry<K>) -> Option<T>) -> Vec<T> {
        self.0.read().iter().filter_map(look).collect()
    }
}

/// A namespace and a name, of whatever stands there.
#[derive(Clone, Copy, Hash)]
pub(super) struct NameRef<'a>(Option<&'a str>, &'a str);

// === impl NameRef ===

impl<'a> NameRef<'a> {
    pub(super) fn of(object: &'a impl ObjectIdentity) -> Self {
        Self(object.namespace(), object.name())
    }

    fn is<K>(self, entry: &Entry<K>) -> bool {
        entry.key.name() == self.1 && entry.key.namespace() == self.0
    }
}

impl<'a> From<&'a ObjectKey> for NameRef<'a> {
    fn from(key: &'a ObjectKey) -> Self {
        Self(key.namespace(), key.name())
    }
}
