//! The store: all objects, one version counter, and the history of writes. *(pure)*
//!
//! One counter serves all resources, as etcd's does: a resourceVersion orders any two
//! writes to the server. Each resource keeps its own log of events, so that a watch of
//! one resource does not read the writes to other resources.
//!
//! The history is bounded by the number of writes of a resource, and by age and bytes over
//! all resources: the oldest writes of the server are dropped first.

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
use history::Recorded;
pub(crate) use object::{Stored, members};
use owners::Owners;
pub(crate) use owners::{FOREGROUND, Garbage, Location, ORPHAN, has_finalizer, references};

/// The name under which objects are stored: `widgets.ex.io`, or `pods` in the core group.
pub(crate) type Table = Arc<str>;

/// The objects of one resource, in the order of lists.
pub(crate) type Objects = BTreeMap<Key, Arc<Stored>>;

/// The key of an object. The order is that of lists: of the strings `namespace/name`, as etcd
/// orders its keys. So `a-b` comes before `a`, as a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Empty for cluster-scoped objects.
    pub(crate) namespace: Arc<str>,
    /// Unique within resource and namespace.
    pub(crate) name: Arc<str>,
}

/// One write.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// The value of the counter after this write.
    pub(crate) revision: u64,
    /// The kind of change.
    pub(crate) change: Change,
    /// The key of the object.
    pub(crate) key: Key,
    /// The object as written; of a deleted one the last state, with the revision of the
    /// deletion.
    pub(crate) object: Arc<Stored>,
    /// The object before this write. `None` if it is new.
    pub(crate) previous: Option<Arc<Stored>>,
}

/// The kind of change of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was removed.
    Deleted,
}

/// The requested history has been dropped. The kept history begins after `oldest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The oldest revision after which all events are kept.
    pub(crate) oldest: u64,
}

/// All objects, and the logs of writes.
#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    compacted: u64,
    limits: HistoryLimits,
    /// The time since the start, as last set.
    now: Duration,
    /// The size of the states in the logs that are not current, in bytes.
    history: usize,
    /// How many events the logs hold.
    events: usize,
    /// Every event of every log, oldest first, and some that a log has dropped already.
    order: VecDeque<Recorded>,
    stock: BTreeMap<Table, Drawer>,
    /// The dependents of each owner, for garbage collection.
    owners: Owners,
}

/// The objects and the log of one resource.
#[derive(Debug, Default)]
struct Drawer {
    objects: Objects,
    log: VecDeque<Event>,
    /// The revision of the last event that the log has dropped.
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

    /// `namespace/name`, byte by byte.
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
        // No two keys are equal here, even if a URL has a slash in a namespace.
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
    /// Creates an empty store that keeps a history within `limits`.
    pub(crate) fn new(limits: HistoryLimits) -> Self {
        Self {
            revision: 0,
            compacted: 0,
            limits,
            now: Duration::ZERO,
            history: 0,
            events: 0,
            order: VecDeque::new(),
            stock: BTreeMap::new(),
            owners: Owners::default(),
        }
    }

    /// Starts to record the objects that garbage collection has to check.
    pub(crate) fn track_owners(&mut self) {
        self.owners.is_tracked = true;
    }

    /// The next change that garbage collection has to check.
    pub(crate) fn next_garbage(&mut self) -> Option<Garbage> {
        self.owners.next()
    }

    /// The objects that name the one with this uid as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Location> {
        self.owners.dependents(uid).cloned().collect()
    }

    /// The location of the object with this uid, if its deletion waits for its dependents.
    pub(crate) fn waiting_owner(&self, uid: &str) -> Option<Location> {
        self.owners.waiting(uid).cloned()
    }

    /// The counter: the revision of the last write.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision of the last write to a resource; 0 if there was none.
    pub(crate) fn last_write(&self, table: &str) -> u64 {
        self.stock.get(table).map_or(0, |drawer| drawer.last)
    }

    /// The object at `key`.
    pub(crate) fn get(&self, table: &str, key: &Key) -> Option<&Arc<Stored>> {
        self.stock.get(table)?.objects.get(key)
    }

    /// The objects of a resource, as they are now.
    pub(crate) fn objects(&self, table: &str) -> impl Iterator<Item = (&Key, &Arc<Stored>)> {
        self.stock
            .get(table)
            .into_iter()
            .flat_map(|drawer| &drawer.objects)
    }

    /// Every object, with its resource.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Table, &Arc<Stored>)> {
        let drawers = self.stock.iter();
        drawers.flat_map(|(table, drawer)| drawer.objects.values().map(move |it| (table, it)))
    }

    /// Every object in `namespace`, with its resource.
    pub(crate) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&Table, &Key)> {
        let first = Key::new(namespace, "");
        self.stock.iter().flat_map(move |(table, drawer)| {
            drawer
                .objects
                .range(first.clone()..)
                .take_while({
                    let namespace = first.namespace.clone();
                    move |(key, _)| key.namespace == namespace
                })
                .map(move |(key, _)| (table, key))
        })
    }

    /// Writes `value`, which conforms to the schema with the number `schema`.
    pub(crate) fn put(
        &mut self,
        table: &Table,
        key: &Key,
        value: Value,
        schema: u64,
    ) -> Arc<Stored> {
        self.revision += 1;
        let object = Arc::new(Stored::new(value, self.revision, schema));
        let drawer = self.stock.entry(table.clone()).or_default();
        let previous = drawer.objects.insert(key.clone(), object.clone());
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
        let drawer = self.stock.get_mut(table)?;
        let previous = drawer.objects.remove(key)?;
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

    /// Compacts the history before `revision`, for all lists and watches that start afterwards.
    ///
    /// Running watches are not closed.
    pub(crate) fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
    }

    /// Checks that all events after `revision` are kept.
    ///
    /// # Errors
    ///
    /// [`Expired`] if some of them were dropped or compacted.
    pub(crate) fn remembers(&self, table: &str, revision: u64) -> Result<(), Expired> {
        let floor = self.stock.get(table).map_or(0, |drawer| drawer.floor);
        let oldest = floor.max(self.compacted);
        if revision < oldest {
            Err(Expired { oldest })
        } else {
            Ok(())
        }
    }

    /// The objects of a resource at `revision`, from the key `start` on, in order. The cost is
    /// proportional to the writes since then, not to the number of objects.
    ///
    /// Compaction has no effect on it, only dropped events have: a request that names a revision
    /// calls [`remembers`](Self::remembers) first.
    ///
    /// # Errors
    ///
    /// [`Expired`] if the log has dropped some events since `revision`.
    pub(crate) fn objects_at(
        &self,
        table: &str,
        revision: u64,
        start: Bound<Key>,
    ) -> Result<impl Iterator<Item = (&Key, &Arc<Stored>)>, Expired> {
        let drawer = self.stock.get(table);
        let oldest = drawer.map_or(0, |drawer| drawer.floor);
        if revision < oldest {
            return Err(Expired { oldest });
        }
        let range = (start, Bound::Unbounded);
        // The earlier states of the objects that have changed since. `None` for a new object.
        let mut changed: BTreeMap<&Key, Option<&Arc<Stored>>> = BTreeMap::new();
        let log = drawer
            .into_iter()
            .flat_map(|drawer| drawer.log.iter().rev());
        for event in log.take_while(|event| event.revision > revision) {
            if range.contains(&event.key) {
                changed.insert(&event.key, event.previous.as_ref());
            }
        }
        let restored: Vec<_> = changed
            .iter()
            .filter_map(|(key, object)| object.map(|object| (*key, object)))
            .collect();
        let same = drawer
            .into_iter()
            .flat_map(move |drawer| drawer.objects.range(range.clone()))
            .filter(move |(key, _)| !changed.contains_key(key));
        Ok(in_order(same, restored.into_iter()))
    }

    /// Up to `limit` events of a resource after `revision`, oldest first.
    ///
    /// For running watches: compaction has no effect, only dropped events have.
    ///
    /// # Errors
    ///
    /// [`Expired`] if the log has dropped some of them.
    pub(crate) fn events_after(
        &self,
        table: &str,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Event>, Expired> {
        let Some(drawer) = self.stock.get(table) else {
            return Ok(Vec::new());
        };
        if revision < drawer.floor {
            return Err(Expired {
                oldest: drawer.floor,
            });
        }
        let first = drawer
            .log
            .partition_point(|event| event.revision <= revision);
        Ok(drawer.log.iter().skip(first).take(limit).cloned().collect())
    }
}

/// Merges two ordered sequences.
fn in_order<'a>(
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
