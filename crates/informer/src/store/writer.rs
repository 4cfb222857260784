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
            |old| is_known(&incoming.lazy, old),
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
            let is_late = entry.mark.epoch == mark.epoch && is_known(object, &entry.lazy);
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
            } => (object, lazy.if_kept_as_json()),
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
fn is_known(new: &impl ObjectIdentity, old: &impl ObjectIdentity) -> bool {
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
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::{Delta, Writer};
    use crate::{Event, Identity, ObjectIdentity, ObjectKey, Uid, store::Store};

    #[test]
    fn each_change_is_one_delta() {
        check(
            "apply a 1 u, apply a 1 u, apply a 2 u, delete a 3 u, delete a 3 u",
            "+1 ~1>2 -3",
        );
    }

    #[test]
    fn an_older_state_is_dropped() {
        check("apply a 5 u, apply a 4 u", "+5");
    }

    #[test]
    fn a_new_uid_is_a_delete_and_an_add() {
        check("apply a 1 u, apply a 2 v", "+1 -1? +2");
    }

    #[test]
    fn a_late_change_of_a_predecessor_is_dropped() {
        check(
            "apply a 1 u, apply a 3 v, delete a 2 u, apply a 1 u",
            "+1 -1? +3",
        );
    }

    #[test]
    fn a_list_shows_deletes() {
        check(
            "apply a 1 u, apply b 2 v, begin, apply b 2 v, end",
            "+1 +2 -1?",
        );
    }

    #[test]
    fn an_incomplete_list_shows_no_deletes() {
        check(
            "apply a 1 u, apply b 2 v, begin, apply a 1 u, begin, apply b 2 v, apply a 1 u, end",
            "+1 +2",
        );
    }

    #[test]
    fn an_undecodable_object_is_not_deleted() {
        check("apply a 1 u, begin, keep a 2 u, end", "+1");
    }

    #[test]
    fn the_predecessor_of_an_undecodable_object_is_deleted() {
        check("apply a 1 u, keep a 2 v", "+1 -1?");
    }

    #[test]
    fn an_undecodable_predecessor_is_dropped() {
        check("apply a 5 v, keep a 2 u", "+5");
    }

    /// Rows: BO-01
    #[test]
    fn after_a_restore_the_store_becomes_equal_to_the_list() {
        check(
            "apply a 50 u, apply b 60 v, apply c 70 w, back, begin, apply a 5 x, apply b 6 v, end",
            "+50 +60 +70 -50? +5 ~60>6 -70?",
        );
        // The list breaks off, and is taken again.
        check(
            "apply a 50 u, apply b 60 v, back, begin, apply a 5 u, begin, apply a 5 u, apply b 6 v, end",
            "+50 +60 ~50>5 ~60>6",
        );
        // A version that both histories have is not the same state.
        check("apply a 5 u, back, begin, apply a 5 u, end", "+5 ~5>5");
    }

    #[test]
    fn an_undecodable_object_after_a_restore_is_replaced_by_its_next_state() {
        check(
            "apply a 50 u, back, begin, keep a 5 u, end, apply a 6 u, apply a 5 u",
            "+50 ~50>6",
        );
    }

    #[test]
    fn non_numeric_versions_are_ordered_by_arrival() {
        check("apply a y u, apply a x u, apply a x u", "+y ~y>x");
    }

    #[test]
    fn a_list_counts_the_objects_that_it_shows() {
        let mut writer = Writer::new(Store::new(Vec::new(), std::sync::Arc::default()));
        for (name, shown) in [("a", 1), ("b", 2), ("a", 2)] {
            writer.apply(object(name, "1", "u").into()).for_each(drop);
            assert_eq!(writer.store.shown(), shown);
        }
        writer.begin();
        assert_eq!(writer.store.shown(), 0);
        writer.apply(object("a", "2", "u").into()).for_each(drop);
        writer.keep(&identity("b", "1", "u")).for_each(drop);
        writer.keep(&identity("b", "1", "u")).for_each(drop);
        assert_eq!(writer.store.shown(), 2);
    }

    #[test]
    fn a_state_is_identified_by_uid_and_version() {
        let mut writer = Writer::new(Store::new(Vec::new(), std::sync::Arc::default()));
        assert_eq!(writer.apply(object("a", "5", "u").into()).count(), 1);
        let store = writer.store.clone();
        let known = |object| store.known(&object).is_some();
        assert!(known(identity("a", "5", "u")));
        assert!(!known(identity("a", "6", "u")));
        assert!(!known(identity("a", "5", "v")));
        assert!(!known(identity("b", "5", "u")));
        writer.begin_epoch();
        assert!(!known(identity("a", "5", "u")), "another history");
    }

    /// Runs `script`. `events` are its events: `+` added, `~` updated, `-` deleted (`?` for a
    /// missed delete), with resource versions.
    #[track_caller]
    fn check(script: &str, events: &str) {
        let mut writer = Writer::new(Store::new(Vec::new(), std::sync::Arc::default()));
        let mut all = Vec::new();
        for step in script.split(", ") {
            match step.split(' ').collect::<Vec<_>>()[..] {
                ["apply", name, version, uid] => {
                    all.extend(writer.apply(object(name, version, uid).into()));
                }
                ["keep", name, version, uid] => {
                    all.extend(writer.keep(&identity(name, version, uid)));
                }
                ["delete", name, version, uid] => {
                    let last = object(name, version, uid).into();
                    all.extend(writer.delete(&identity(name, version, uid), Some(last)));
                }
                ["begin"] => writer.begin(),
                ["back"] => writer.begin_epoch(),
                ["end"] => {
                    for key in writer.unmarked() {
                        all.extend(writer.sweep(&key));
                    }
                }
                _ => panic!("no such step: {step}"),
            }
        }
        let all: Vec<String> = all.into_iter().map(say).collect();
        assert_eq!(all.join(" "), events, "{script}");
    }

    fn say(delta: Delta<ConfigMap>) -> String {
        let version = |object: &dyn ObjectIdentity| {
            let version = object.resource_version().map(str::to_owned);
            version.expect("each object has one")
        };
        let (_, event, _) = delta.into_event().expect("it is decoded");
        match event {
            Event::Added(object) => format!("+{}", version(&*object)),
            Event::Updated { old, new } => format!("~{}>{}", version(&old), version(&*new)),
            Event::Deleted { last, missed } => {
                format!("-{}{}", version(&*last), if missed { "?" } else { "" })
            }
            Event::Resynced(_) | Event::Synced => unreachable!("a writer never says so"),
        }
    }

    fn object(name: &str, version: &str, uid: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        object.metadata.resource_version = Some(version.to_owned());
        object.metadata.uid = Some(uid.to_owned());
        object
    }

    fn identity(name: &str, version: &str, uid: &str) -> Identity {
        Identity {
            key: ObjectKey::new(name),
            uid: Some(Uid::from(uid)),
            resource_version: Some(version.to_owned()),
        }
    }
}
