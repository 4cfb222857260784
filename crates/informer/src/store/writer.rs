//! Applies changes to the store, and returns the resulting deltas. *(pure)*
//!
//! The running informer (`informer/run.rs`) calls it for each change of the source, and publishes
//! the deltas as events.
//!
//! Lists use mark and sweep: each object that a list shows is marked with the number of the list.
//! When the list is complete, objects with another mark are removed. So a list needs no second map.
//!
//! A state is only replaced by a newer one. After the history of the server has gone back, the next
//! state of each object counts as newer, whatever its version. Therefore each entry is also marked
//! with the epoch of its state.

use std::sync::atomic::Ordering;

use super::{
    Store,
    sharded_map::{Mark, NameRef, PutOutcome},
};
use crate::{
    Event, Identity, IncomingObject, LazyObject, ObjectIdentity, ObjectKey, Stored,
    key::Namespaces, metrics::ChangeType, watch::is_older,
};

/// Writes a store, and returns the deltas for subscribers.
pub(crate) struct Writer<K> {
    store: Store<K>,

    /// The number of the current or last list, and the epoch.
    mark: Mark,

    namespaces: Namespaces,
}

/// The result of one change: nothing, one delta, or a delete and an add.
pub(crate) type Deltas<K> = std::iter::Flatten<std::array::IntoIter<Option<Delta<K>>, 2>>;

/// A change of one object in the store.
pub(crate) struct Delta<K> {
    pub(crate) key: ObjectKey,
    pub(crate) change: DeltaType<K>,

    /// The object in its newest state.
    pub(crate) object: IncomingObject<K>,
}

/// The type of a [`Delta`].
pub(crate) enum DeltaType<K> {
    Added,
    Updated { old: LazyObject<K> },
    Deleted { missed: bool },
}

// === impl Writer ===

impl<K: Stored> Writer<K> {
    pub(crate) fn new(store: Store<K>) -> Self {
        Self {
            store,
            mark: Mark::default(),
            namespaces: Namespaces::default(),
        }
    }

    /// Begins a list, and forgets a list that was not complete.
    pub(crate) fn begin(&mut self) {
        self.mark.list = self.mark.list.wrapping_add(1);
        self.store.contents.objects.begin();
    }

    /// Begins a new epoch: every following state counts as newer than the stored one.
    pub(crate) fn begin_epoch(&mut self) {
        self.mark.epoch = self.mark.epoch.wrapping_add(1);
        let epoch = &self.store.contents.epoch;
        epoch.store(self.mark.epoch, Ordering::Release);
    }

    /// Applies a new state of an object.
    pub(crate) fn apply(&mut self, incoming: IncomingObject<K>) -> Deltas<K> {
        let put = self.store.contents.objects.put(
            &incoming,
            self.mark,
            |object| object.key().shared(&self.namespaces),
            |old| is_same_or_older(&incoming.lazy, old),
        );
        let (key, old) = match put {
            PutOutcome::Known => return deltas(None, None),
            PutOutcome::New(key) => (key, None),
            PutOutcome::Replaced { key, old } => (key, Some(old)),
        };
        if !self.store.contents.indexes.all().is_empty() {
            let object = incoming.get();
            for index in self.store.contents.indexes.all() {
                index.update(&key, object.as_deref());
            }
        }
        let delta = |key, change, object| {
            Some(Delta {
                key,
                change,
                object,
            })
        };
        match old {
            None => deltas(delta(key, DeltaType::Added, incoming), None),
            Some(old) if is_same_uid(&old, &incoming.lazy) => {
                incoming.replace_in_cache(&old);
                deltas(delta(key, DeltaType::Updated { old }, incoming), None)
            }
            Some(last) => {
                let missed = DeltaType::Deleted { missed: true };
                deltas(
                    delta(key.clone(), missed, IncomingObject::removed(last)),
                    delta(key, DeltaType::Added, incoming),
                )
            }
        }
    }

    /// Marks an object that a list shows in a state that does not decode or is stored already. A
    /// stored object with the same uid stays; one with another uid is removed.
    pub(crate) fn keep(&mut self, object: &impl ObjectIdentity) -> Deltas<K> {
        let mark = self.mark;
        let objects = &self.store.contents.objects;
        let known = objects.get_mut(NameRef::of(object), |entry| {
            let is_late = entry.mark.epoch == mark.epoch && is_same_or_older(object, &entry.lazy);
            let stays = is_late || is_same_uid(&entry.lazy, object);
            if stays {
                // The epoch of the stored state does not change.
                objects.mark_shown(entry, mark.list);
            }
            stays
        });
        match known {
            None | Some(true) => deltas(None, None),
            Some(false) => deltas(self.remove(&object.key(), None, true), None),
        }
    }

    /// Removes a deleted object.
    pub(crate) fn delete(
        &mut self,
        identity: &Identity,
        last: Option<IncomingObject<K>>,
    ) -> Deltas<K> {
        let objects = &self.store.contents.objects;
        let same = objects.get(NameRef::of(identity), |entry| {
            is_same_uid(&entry.lazy, identity)
        });
        if same == Some(false) {
            // A late delete of a previous object with this name. The store has its successor.
            return deltas(None, None);
        }
        deltas(self.remove(&identity.key, last, false), None)
    }

    /// Returns the keys of the objects that the complete list did not show.
    pub(crate) fn unmarked(&self) -> Vec<ObjectKey> {
        let objects = &self.store.contents.objects;
        objects.filter_map(|entry| (entry.mark.list != self.mark.list).then(|| entry.key.clone()))
    }

    /// Removes one of the [`unmarked`](Self::unmarked) objects.
    pub(crate) fn sweep(&mut self, key: &ObjectKey) -> Deltas<K> {
        deltas(self.remove(key, None, true), None)
    }

    fn remove(
        &self,
        key: &ObjectKey,
        last: Option<IncomingObject<K>>,
        missed: bool,
    ) -> Option<Delta<K>> {
        let entry = self.store.contents.objects.remove(key)?;
        for index in self.store.contents.indexes.all() {
            index.update(key, None);
        }
        let stored = IncomingObject::removed(entry.lazy);
        Some(Delta {
            key: entry.key,
            change: DeltaType::Deleted { missed },
            object: last.unwrap_or(stored),
        })
    }
}

// === impl DeltaType ===

impl<K> DeltaType<K> {
    /// The change that the metrics count.
    pub(crate) const fn counted_as(&self) -> ChangeType {
        match self {
            Self::Added => ChangeType::Added,
            Self::Updated { .. } => ChangeType::Updated,
            Self::Deleted { .. } => ChangeType::Deleted,
        }
    }
}

// === impl Delta ===

impl<K: Stored> Delta<K> {
    /// Converts the delta to an event with its key and stored form. `None` if the object has
    /// decoded before and does not decode now.
    pub(crate) fn into_event(self) -> Option<(ObjectKey, Event<K>, Option<LazyObject<K>>)> {
        let (object, lazy) = match self.object {
            IncomingObject {
                object: Some(object),
                lazy,
                ..
            } => (object, (!lazy.is_plain()).then_some(lazy)),
            IncomingObject { lazy, .. } => lazy.into_decoded()?,
        };
        let event = match self.change {
            DeltaType::Added => Event::Added(object),
            DeltaType::Updated { old } => Event::Updated { old, new: object },
            DeltaType::Deleted { missed } => Event::Deleted {
                last: object,
                missed,
            },
        };
        Some((self.key, event, lazy))
    }
}

fn deltas<K>(first: Option<Delta<K>>, second: Option<Delta<K>>) -> Deltas<K> {
    [first, second].into_iter().flatten()
}

/// Whether `new` is the same state as `old`, or an older one.
fn is_same_or_older(new: &impl ObjectIdentity, old: &impl ObjectIdentity) -> bool {
    let versions = new.resource_version().zip(old.resource_version());
    versions.is_some_and(|(new_version, old_version)| {
        (new_version == old_version && is_same_uid(new, old)) || is_older(new_version, old_version)
    })
}

/// Whether the two have the same uid, or one has no uid.
fn is_same_uid(a: &impl ObjectIdentity, b: &impl ObjectIdentity) -> bool {
    match (a.uid(), b.uid()) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
