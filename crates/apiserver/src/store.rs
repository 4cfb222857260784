//! Every object, under one counter, and the history of how it came to be so. *(pure)*
//!
//! One counter serves all resources, as etcd's does: a resourceVersion orders any two
//! writes to the server. Each resource keeps its own log of events, so that a watch of
//! one resource never reads through the writes to another.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

mod object;

#[cfg(test)]
mod tests;

pub(crate) use object::{Stored, members};

/// The name under which objects are stored: `widgets.ex.io`, or `pods` in the core group.
pub(crate) type Table = Arc<str>;

/// The objects of one resource, in the order of lists.
pub(crate) type Objects = BTreeMap<Key, Arc<Stored>>;

/// Where an object is. The order is that of lists: by namespace, then by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    capacity: usize,
    stock: BTreeMap<Table, Drawer>,
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
}

// === impl Store ===

impl Store {
    /// Creates an empty store that remembers up to `capacity` writes of each resource.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            revision: 0,
            compacted: 0,
            capacity,
            stock: BTreeMap::new(),
        }
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
        let change = if previous.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        drawer.record(
            self.capacity,
            Event {
                revision: self.revision,
                change,
                key: key.clone(),
                object: object.clone(),
                previous,
            },
        );
        object
    }

    /// Takes the object at `key` away, and gives its last state.
    pub(crate) fn remove(&mut self, table: &str, key: &Key) -> Option<Arc<Stored>> {
        let drawer = self.stock.get_mut(table)?;
        let previous = drawer.objects.remove(key)?;
        self.revision += 1;
        let object = Arc::new(previous.at(self.revision));
        drawer.record(
            self.capacity,
            Event {
                revision: self.revision,
                change: Change::Deleted,
                key: key.clone(),
                object: object.clone(),
                previous: Some(previous),
            },
        );
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

    /// The objects of a resource as they were when the counter stood at `revision`.
    ///
    /// # Errors
    ///
    /// [`Expired`] if that state is forgotten.
    pub(crate) fn objects_at(
        &self,
        table: &str,
        revision: u64,
    ) -> Result<Cow<'_, Objects>, Expired> {
        self.remembers(table, revision)?;
        let Some(drawer) = self.stock.get(table) else {
            return Ok(Cow::Owned(Objects::new()));
        };
        if drawer.last <= revision {
            return Ok(Cow::Borrowed(&drawer.objects));
        }
        let mut objects = drawer.objects.clone();
        for event in drawer
            .log
            .iter()
            .rev()
            .take_while(|event| event.revision > revision)
        {
            match &event.previous {
                Some(previous) => objects.insert(event.key.clone(), previous.clone()),
                None => objects.remove(&event.key),
            };
        }
        Ok(Cow::Owned(objects))
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

// === impl Drawer ===

impl Drawer {
    fn record(&mut self, capacity: usize, event: Event) {
        self.last = event.revision;
        self.log.push_back(event);
        while self.log.len() > capacity {
            if let Some(gone) = self.log.pop_front() {
                self.floor = gone.revision;
            }
        }
    }
}
