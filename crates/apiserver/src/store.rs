//! Every object, under one counter, and the history of its writes. *(pure)*
//!
//! One counter serves all resources, as etcd's does: a resourceVersion orders any two
//! writes to the server. Each resource keeps its own log of events, so that a watch of
//! one resource never reads through the writes to another.
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

/// Where an object is. The order is that of lists: of the texts `namespace/name`, as etcd
/// orders its keys. So `a-b` comes before `a`, as a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Empty for what lives in no namespace.
    pub(crate) namespace: Arc<str>,
    /// Unique within resource and namespace.
    pub(crate) name: Arc<str>,
}

/// One write.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// The value of the counter after this write.
    pub(crate) revision: u64,
    /// What the write did.
    pub(crate) change: Change,
    /// Which object.
    pub(crate) key: Key,
    /// The object as written; of a deleted one the last state, with the revision of the
    /// deletion.
    pub(crate) object: Arc<Stored>,
    /// The object before this write; nothing if it is new.
    pub(crate) previous: Option<Arc<Stored>>,
}

/// What a write did to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is new.
    Added,
    /// It was there before.
    Modified,
    /// It is gone.
    Deleted,
}

/// The history asked for is no longer there; it begins after `oldest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The oldest revision from which history can still be told.
    pub(crate) oldest: u64,
}

/// Every object, and the log of writes.
#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    compacted: u64,
    limits: HistoryLimits,
    /// The time since the start, as far as the store was told.
    now: Duration,
    /// What the logs hold beside the current objects, in bytes.
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
    /// The revision of the last event that the log has let go.
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

    /// Notes from now on what garbage collection has to look at.
    pub(crate) fn track_owners(&mut self) {
        self.owners.is_tracked = true;
    }

    /// The next thing that garbage collection has to look at.
    pub(crate) fn next_garbage(&mut self) -> Option<Garbage> {
        self.owners.next()
    }

    /// The objects that name the one with this uid as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Location> {
        self.owners.dependents(uid).cloned().collect()
    }

    /// Where the object with this uid is, if its deletion waits for its dependents.
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

    /// Writes `value`, whose form is that of the schema numbered `schema`.
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

    /// Takes the object at `key` away, and gives its last state.
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

    /// Forgets the history before `revision`, for everything that starts from now on.
    ///
    /// Watches that run already are not cut: they have been told what was before.
    pub(crate) fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
    }

    /// Whether everything that came after `revision` can still be told.
    ///
    /// # Errors
    ///
    /// [`Expired`] if some of it is forgotten.
    pub(crate) fn remembers(&self, table: &str, revision: u64) -> Result<(), Expired> {
        let floor = self.stock.get(table).map_or(0, |drawer| drawer.floor);
        let oldest = floor.max(self.compacted);
        if revision < oldest {
            Err(Expired { oldest })
        } else {
            Ok(())
        }
    }

    /// The objects of a resource as they were when the counter stood at `revision`, from the key
    /// `start` on, in order. Costs what has been written since, and not what there is.
    ///
    /// Compaction does not matter to it, only what the log still has: a request that names a
    /// revision asks [`remembers`](Self::remembers) first.
    ///
    /// # Errors
    ///
    /// [`Expired`] if the log has let some events since `revision` go.
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
        // The earlier states of the objects that have changed since; `None` for a new object.
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
    /// For a watch that runs: compaction does not matter to it, only what the log still
    /// has.
    ///
    /// # Errors
    ///
    /// [`Expired`] if the log has let some of them go.
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

/// Two sequences that are in order, as one.
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
