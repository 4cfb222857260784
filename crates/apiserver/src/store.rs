//! The store: the objects of all resources, the revision, and the history of writes. *(pure)*
//!
//! All resources share one revision, as in etcd, so resourceVersions order all writes to the
//! server. Each resource has its own event log, so a watch of one resource does not read the writes
//! to other resources.
//!
//! The history is bounded by the number of writes per resource, and by the age and the size of the
//! writes to all resources. The oldest writes of the server are dropped first.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, RangeBounds as _};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

mod history;
mod object;
mod owners;

#[cfg(test)]
mod tests;

pub(crate) use history::HistoryLimits;
use history::LogEntry;
pub(crate) use object::{Stored, estimated_size, members};
use owners::Owners;
pub(crate) use owners::{FOREGROUND, Garbage, Location, ORPHAN, has_finalizer, references};

/// The name of a resource in the store: `widgets.ex.io`, or `pods` in the core group.
pub(crate) type Table = Arc<str>;

/// The objects of one resource, in list order.
pub(crate) type Objects = BTreeMap<Key, Arc<Stored>>;

/// The key of an object. Keys are ordered by the string `namespace/name`, like the keys of etcd, so
/// the namespace `a-b` comes before the namespace `a`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The namespace; empty for cluster-scoped objects.
    pub(crate) namespace: Arc<str>,
    /// The name, which is unique within the resource and the namespace.
    pub(crate) name: Arc<str>,
}

/// A write to the store, which watches receive.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// The revision of this write.
    pub(crate) revision: u64,
    /// The type of the write.
    pub(crate) change: Change,
    /// The key of the object.
    pub(crate) key: Key,
    /// The object after the write. For a deletion, the last state with the revision of the deletion.
    pub(crate) object: Arc<Stored>,
    /// The object before the write; `None` for a new object.
    pub(crate) previous: Option<Arc<Stored>>,
}

/// The type of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was removed.
    Deleted,
}

/// The error for a revision whose history was dropped or compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The oldest revision after which no event was dropped or compacted.
    pub(crate) oldest: u64,
}

/// The objects of all resources, and their event logs.
#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    compacted: u64,
    limits: HistoryLimits,
    /// The time since the start of the server, which [`Store::advance`] sets.
    now: Duration,
    /// The estimated size of the object states in the logs that are not current, in bytes.
    history: usize,
    /// The number of events in all logs.
    events: usize,
    /// An entry for each event in the logs, oldest first. It can contain entries for dropped events.
    order: VecDeque<LogEntry>,
    resources: BTreeMap<Table, ResourceStore>,
    /// The dependents of each owner, for garbage collection.
    owners: Owners,
}

/// The objects and the event log of one resource.
#[derive(Debug, Default)]
struct ResourceStore {
    objects: Objects,
    log: VecDeque<Event>,
    /// The revision of the last event that was dropped from the log.
    floor: u64,
    /// The revision of the last event.
    last: u64,
}

// === impl Key ===

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Returns the bytes of `namespace/name`.
    fn text(&self) -> impl Iterator<Item = u8> {
        let namespace = self.namespace.bytes();
        namespace.chain([b'/']).chain(self.name.bytes())
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.namespace == other.namespace {
            return self.name.cmp(&other.name);
        }
        let (ours, theirs) = (self.text(), other.text());
        // Different keys can have the same text, because a URL can have a slash in a namespace.
        ours.cmp(theirs)
            .then_with(|| self.namespace.cmp(&other.namespace))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

// === impl Store ===

impl Store {
    /// Creates an empty store with these limits of its history.
    pub(crate) fn new(limits: HistoryLimits) -> Self {
        Self {
            revision: 0,
            compacted: 0,
            limits,
            now: Duration::ZERO,
            history: 0,
            events: 0,
            order: VecDeque::new(),
            resources: BTreeMap::new(),
            owners: Owners::default(),
        }
    }

    /// Starts to queue the changes that the garbage collector checks.
    pub(crate) fn track_owners(&mut self) {
        self.owners.is_tracked = true;
    }

    /// Dequeues the next change for the garbage collector.
    pub(crate) fn next_garbage(&mut self) -> Option<Garbage> {
        self.owners.next()
    }

    /// Returns the locations of the objects with an owner reference to this uid.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Location> {
        self.owners.dependents(uid).cloned().collect()
    }

    /// Returns the location of the object with this uid if its deletion waits for its dependents.
    pub(crate) fn waiting_owner(&self, uid: &str) -> Option<Location> {
        self.owners.waiting(uid).cloned()
    }

    /// Returns the revision of the last write to the store.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the revision of the last write to a resource, or 0 if it has no writes.
    pub(crate) fn last_write(&self, table: &str) -> u64 {
        self.resources
            .get(table)
            .map_or(0, |resource| resource.last)
    }

    /// Returns the object at `key`.
    pub(crate) fn get(&self, table: &str, key: &Key) -> Option<&Arc<Stored>> {
        self.resources.get(table)?.objects.get(key)
    }

    /// Returns the current objects of a resource.
    pub(crate) fn objects(&self, table: &str) -> impl Iterator<Item = (&Key, &Arc<Stored>)> {
        self.resources
            .get(table)
            .into_iter()
            .flat_map(|resource| &resource.objects)
    }

    /// Returns all objects with their resources.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Table, &Arc<Stored>)> {
        let stores = self.resources.iter();
        stores.flat_map(|(table, resource)| resource.objects.values().map(move |it| (table, it)))
    }

    /// Returns the keys of all objects in `namespace`, with their resources.
    pub(crate) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&Table, &Key)> {
        let first = Key::new(namespace, "");
        self.resources.iter().flat_map(move |(table, resource)| {
            resource
                .objects
                .range(first.clone()..)
                .take_while({
                    let namespace = first.namespace.clone();
                    move |(key, _)| key.namespace == namespace
                })
                .map(move |(key, _)| (table, key))
        })
    }

    /// Stores `value`, which conforms to the schema with the number `schema`.
    pub(crate) fn put(
        &mut self,
        table: &Table,
        key: &Key,
        value: Value,
        schema: u64,
    ) -> Arc<Stored> {
        self.revision += 1;
        let object = Arc::new(Stored::new(value, self.revision, schema));
        let resource = self.resources.entry(table.clone()).or_default();
        let previous = resource.objects.insert(key.clone(), object.clone());
        let location = (table.clone(), key.clone());
        self.owners.put(&location, previous.as_deref(), &object);
        let change = if previous.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        let event = Event {
            revision: self.revision,
            change,
            key: key.clone(),
            object: object.clone(),
            previous,
        };
        self.record(table, event);
        object
    }

    /// Removes the object at `key`, and returns its last state.
    pub(crate) fn remove(&mut self, table: &Table, key: &Key) -> Option<Arc<Stored>> {
        let resource = self.resources.get_mut(table)?;
        let previous = resource.objects.remove(key)?;
        self.revision += 1;
        let object = Arc::new(previous.at(self.revision));
        let location = (table.clone(), key.clone());
        self.owners.remove(&location, &previous);
        let event = Event {
            revision: self.revision,
            change: Change::Deleted,
            key: key.clone(),
            object: object.clone(),
            previous: Some(previous),
        };
        self.record(table, event);
        Some(object)
    }

    /// Compacts the history before `revision`: lists and watches that start later cannot read it.
    ///
    /// Running watches continue.
    pub(crate) fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
    }

    /// Checks that a list or watch can start at `revision`.
    ///
    /// # Errors
    ///
    /// [`Expired`] if events after `revision` were dropped or compacted.
    pub(crate) fn remembers(&self, table: &str, revision: u64) -> Result<(), Expired> {
        let floor = self
            .resources
            .get(table)
            .map_or(0, |resource| resource.floor);
        let oldest = floor.max(self.compacted);
        if revision < oldest {
            Err(Expired { oldest })
        } else {
            Ok(())
        }
    }

    /// Returns the objects of a resource at `revision`, from the key `start` on, in list order. The
    /// cost depends on the number of writes since `revision`, not on the number of objects before
    /// `start`.
    ///
    /// It ignores compaction. For a revision from a request, call [`remembers`](Self::remembers)
    /// first.
    ///
    /// # Errors
    ///
    /// [`Expired`] if events after `revision` were dropped from the log.
    pub(crate) fn objects_at(
        &self,
        table: &str,
        revision: u64,
        start: Bound<Key>,
    ) -> Result<impl Iterator<Item = (&Key, &Arc<Stored>)>, Expired> {
        let resource = self.resources.get(table);
        let oldest = resource.map_or(0, |resource| resource.floor);
        if revision < oldest {
            return Err(Expired { oldest });
        }
        let range = (start, Bound::Unbounded);
        // The states at `revision` of the objects that have changed since; `None` for new objects.
        let mut changed: BTreeMap<&Key, Option<&Arc<Stored>>> = BTreeMap::new();
        let log = resource
            .into_iter()
            .flat_map(|resource| resource.log.iter().rev());
        for event in log.take_while(|event| event.revision > revision) {
            if range.contains(&event.key) {
                changed.insert(&event.key, event.previous.as_ref());
            }
        }
        let restored: Vec<_> = changed
            .iter()
            .filter_map(|(key, object)| object.map(|object| (*key, object)))
            .collect();
        let same = resource
            .into_iter()
            .flat_map(move |resource| resource.objects.range(range.clone()))
            .filter(move |(key, _)| !changed.contains_key(key));
        Ok(merge_ordered(same, restored.into_iter()))
    }

    /// Returns up to `limit` events of a resource after `revision`, oldest first.
    ///
    /// Running watches call it. It ignores compaction.
    ///
    /// # Errors
    ///
    /// [`Expired`] if events after `revision` were dropped from the log.
    pub(crate) fn events_after(
        &self,
        table: &str,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Event>, Expired> {
        let Some(resource) = self.resources.get(table) else {
            return Ok(Vec::new());
        };
        if revision < resource.floor {
            return Err(Expired {
                oldest: resource.floor,
            });
        }
        let first = resource
            .log
            .partition_point(|event| event.revision <= revision);
        Ok(resource
            .log
            .iter()
            .skip(first)
            .take(limit)
            .cloned()
            .collect())
    }
}

/// Merges two sequences that are ordered by key.
fn merge_ordered<'a>(
    first: impl Iterator<Item = (&'a Key, &'a Arc<Stored>)>,
    second: impl Iterator<Item = (&'a Key, &'a Arc<Stored>)>,
) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some((first_key, _)), Some((second_key, _))) if second_key < first_key => second.next(),
        (Some(_), _) => first.next(),
        (None, _) => second.next(),
    })
}
