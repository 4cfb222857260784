//! Sharded map of cached objects, keyed by namespace and name.
//!
//! Why not `DashMap`: its lookups need a reference to a whole key. The namespace and the name of an
//! object are two separate strings in its JSON, so each lookup would have to build a key. Also, its
//! iterators hold the lock of a shard while the caller processes an entry; here the lock of a shard
//! is held only while its entries are copied.

use std::{
    hash::BuildHasher,
    sync::atomic::{AtomicUsize, Ordering},
};

use foldhash::fast::FixedState;
use hashbrown::{HashTable, hash_table};
use parking_lot::RwLock;

use crate::{IncomingObject, LazyObject, ObjectIdentity, ObjectKey, Stored, random_seed};

/// All objects. A lookup borrows a namespace and a name, and builds no key.
pub(super) struct ShardedMap<K> {
    shards: Box<[Shard<K>]>,
    /// Has a random seed, which a simulation repeats: it decides the order of the objects.
    hasher: FixedState,
    len: AtomicUsize,

    /// How many objects the current list has shown.
    shown: AtomicUsize,
}

/// A part of the objects, under one lock.
struct Shard<K>(RwLock<HashTable<Entry<K>>>);

/// One object with its key.
pub(super) struct Entry<K> {
    pub(super) key: ObjectKey,
    pub(super) lazy: LazyObject<K>,

    pub(super) mark: Mark,
}

/// The list that showed an object last, and the epoch of its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The number of the list. Only compared for equality, so it may wrap.
    pub(super) list: u32,

    /// The epoch in which this state was stored. Only compared for equality, so it may wrap.
    pub(super) epoch: u32,
}

/// The result of [`ShardedMap::put`].
pub(super) enum PutOutcome<K> {
    /// There was no object with this key.
    New(ObjectKey),
    /// The map has the same or a newer state, which stays.
    Known,
    /// An older state, or an older object with the same name, was replaced.
    Replaced { key: ObjectKey, old: LazyObject<K> },
}

// === impl ShardedMap ===

impl<K> ShardedMap<K> {
    /// Enough that readers rarely wait for the writer, and that the reallocation of one shard is a
    /// small part of the store.
    const SHARDS: usize = 64;

    pub(super) fn new() -> Self {
        let shard = || Shard(RwLock::new(HashTable::new()));
        Self {
            shards: std::iter::repeat_with(shard).take(Self::SHARDS).collect(),
            hasher: FixedState::with_seed(random_seed()),
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

    /// Begins another list.
    pub(super) fn begin(&self) {
        self.shown.store(0, Ordering::Relaxed);
    }

    /// Marks `entry` as shown by list `list`.
    pub(super) fn mark_shown(&self, entry: &mut Entry<K>, list: u32) {
        if entry.mark.list != list {
            entry.mark.list = list;
            self.shown.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Calls `read` with the entry of `name`, if there is one.
    pub(super) fn get<T>(&self, name: NameRef<'_>, read: impl FnOnce(&Entry<K>) -> T) -> Option<T> {
        let (hash, shard) = self.locate(name);
        shard.read().find(hash, |entry| name.is(entry)).map(read)
    }

    /// Calls `change` with the entry of `name`, if there is one.
    pub(super) fn get_mut<T>(
        &self,
        name: NameRef<'_>,
        change: impl FnOnce(&mut Entry<K>) -> T,
    ) -> Option<T> {
        let (hash, shard) = self.locate(name);
        let mut shard = shard.write();
        shard.find_mut(hash, |entry| name.is(entry)).map(change)
    }

    /// Stores `incoming`, unless `is_known` returns true for an entry of the same epoch. `key` creates
    /// the key of a new entry.
    pub(super) fn put(
        &self,
        incoming: &IncomingObject<K>,
        mark: Mark,
        key: impl FnOnce(&LazyObject<K>) -> ObjectKey,
        is_known: impl FnOnce(&LazyObject<K>) -> bool,
    ) -> PutOutcome<K>
    where
        K: Stored,
    {
        let name = NameRef::of(&incoming.lazy);
        let (hash, shard) = self.locate(name);
        let mut shard = shard.write();
        let rehash = |entry: &Entry<K>| self.hasher.hash_one(NameRef::from(&entry.key));
        match shard.entry(hash, |entry| name.is(entry), rehash) {
            hash_table::Entry::Vacant(slot) => {
                let key = key(&incoming.lazy);
                slot.insert(Entry {
                    key: key.clone(),
                    lazy: incoming.lazy.clone(),
                    mark,
                });
                self.len.fetch_add(1, Ordering::Relaxed);
                self.shown.fetch_add(1, Ordering::Relaxed);
                PutOutcome::New(key)
            }
            hash_table::Entry::Occupied(mut slot) => {
                let entry = slot.get_mut();
                self.mark_shown(entry, mark.list);
                if entry.mark.epoch == mark.epoch && is_known(&entry.lazy) {
                    return PutOutcome::Known;
                }
                entry.mark = mark;
                let old = std::mem::replace(&mut entry.lazy, incoming.lazy.clone());
                let key = entry.key.clone();
                PutOutcome::Replaced { key, old }
            }
        }
    }

    /// Removes the entry of `key`.
    pub(super) fn remove(&self, key: &ObjectKey) -> Option<Entry<K>> {
        let name = NameRef::from(key);
        let (hash, shard) = self.locate(name);
        let mut shard = shard.write();
        let entry = shard.find_entry(hash, |entry| name.is(entry)).ok()?;
        self.len.fetch_sub(1, Ordering::Relaxed);
        Some(entry.remove().0)
    }

    /// Returns the results of `read` for all entries. Locks one shard at a time.
    pub(super) fn filter_map<T>(&self, read: impl Fn(&Entry<K>) -> Option<T>) -> Vec<T> {
        let shards = self.shards.iter();
        shards.flat_map(|shard| shard.filter_map(&read)).collect()
    }

    /// The hash of `name`, and its shard.
    fn locate(&self, name: NameRef<'_>) -> (u64, &RwLock<HashTable<Entry<K>>>) {
        let hash = self.hasher.hash_one(name);
        // The hash table uses the lowest and the highest bits.
        let shard = usize::try_from(hash >> 32).unwrap_or_default() % Self::SHARDS;
        (hash, &self.shards[shard].0)
    }
}

// === impl Shard ===

impl<K> Shard<K> {
    /// Returns the results of `read` for the entries of this shard.
    fn filter_map<T>(&self, read: impl Fn(&Entry<K>) -> Option<T>) -> Vec<T> {
        self.0.read().iter().filter_map(read).collect()
    }
}

/// A borrowed namespace and name.
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
