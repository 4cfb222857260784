//! The lanes of all objects, and the order in which workers take them. *(pure)*
//!
//! Ready lanes wait by priority. Within a priority the groups (a kind and a namespace) take turns.
//! Within a group the lane that has waited longest is first.
//!
//! ```text
//! Live ──▶ ( shop ▶ web ▶ infra )     a ring of groups
//!              │
//!              └▶ lane ▶ lane ▶ lane  first in, first out
//! ```
//!
//! Priorities age: four of sixteen turns begin with a lower priority, so that every ready lane is
//! taken, whatever the load of higher priorities.
//!
//! Guaranteed: changing and taking a lane take O(log groups), also if the lane leaves the middle of
//! its queue (amortized). Opening or closing a kind reads no lane. Memory is bounded by the lanes.

use std::{hash::Hash, sync::Arc};

use hashbrown::{
    DefaultHashBuilder, HashMap,
    hash_map::{Entry, OccupiedEntry},
};

use super::{
    lane::{Lane, LaneKey, Phase},
    ready::{Priority, ReadyQueue},
    rings::{GroupKey, Places, Rings},
};
use crate::route::KindId;

/// The lanes of all objects.
#[derive(Debug)]
pub(super) struct Lanes<E, P> {
    groups: HashMap<GroupKey, Group<E, P>>,
    rings: Rings,
}

/// The lanes of one kind and namespace. It exists while it has lanes.
#[derive(Debug)]
struct Group<E, P> {
    /// By name. Boxed, because a hash table has up to two entries for each lane.
    lanes: HashMap<Arc<str>, Box<Lane<E, P>>>,

    /// The ready lanes of each priority.
    ready: [ReadyQueue; Priority::ALL.len()],

    places: Places,
}

// === impl Lanes ===

impl<E, P> Lanes<E, P> {
    /// Changes a lane, which is created if necessary. Then updates its phase and its position, and
    /// removes it if it is unused.
    pub(super) fn change<T>(
        &mut self,
        key: &LaneKey,
        change: impl FnOnce(&mut Lane<E, P>) -> T,
    ) -> T {
        let (namespace, name) = key.object.clone().into_parts();
        let key = GroupKey {
            kind: key.kind,
            namespace,
        };
        let mut group = entry(&mut self.groups, key);
        let mut lane = entry(&mut group.get_mut().lanes, name);
        let before = lane.get().phase;
        let changed = change(lane.get_mut());
        lane.get_mut().update_phase();
        let after = lane.get().phase;
        let name = Arc::clone(lane.key());
        if lane.get().is_unused() {
            lane.remove();
            group.get_mut().trim();
        }
        if let Phase::Ready(priority) = after
            && after != before
            && group.get_mut().push(priority, name) == 1
        {
            let key = group.key().clone();
            self.rings.join(priority, key, &mut group.get_mut().places);
        }
        if let Phase::Ready(priority) = before
            && after != before
            && group.get_mut().leave(priority) == 0
        {
            self.rings.leave(priority, &mut group.get_mut().places);
        }
        if group.get().lanes.is_empty() {
            group.remove();
        }
        changed
    }

    /// Takes the next ready lane for a worker.
    pub(super) fn take(&mut self) -> Option<(LaneKey, &mut Lane<E, P>)> {
        let (priority, key) = self.rings.next()?;
        let group = self.groups.get_mut(&key);
        let group = group.expect("a group in a ring has lanes");
        let name = group.pop(priority);
        if group.ready[priority as usize].len() > 0 {
            self.rings.join(priority, key.clone(), &mut group.places);
        } else {
            self.rings.leave(priority, &mut group.places);
        }
        let name = name.expect("a group in a ring has ready lanes");
        let lane = group.lanes.get_mut(&name).expect("a ready lane exists");
        lane.phase = Phase::Processing;
        Some((key.lane(name), lane))
    }

    /// Opens or closes `kind`, or all kinds without a closed gate of their own. Reads all groups, and
    /// no lane.
    pub(super) fn set_gate(&mut self, kind: Option<KindId>, open: bool) {
        self.rings.set_gate(kind, open);
        for (key, group) in &self.groups {
            self.rings.reopen(key, &group.places);
        }
    }

    /// Whether a lane can be taken.
    pub(super) fn has_ready(&self) -> bool {
        self.rings.has_ready()
    }

    /// The number of lanes that can be taken. Reads all groups.
    pub(super) fn ready(&self) -> usize {
        let open = self
            .groups
            .iter()
            .filter(|(key, _)| self.rings.is_open(key.kind));
        let queues = open.flat_map(|(_, group)| &group.ready);
        queues.map(ReadyQueue::len).sum()
    }

    /// The keys of the lanes that are `wanted`. Reads all lanes.
    pub(super) fn keys_where(&self, wanted: impl Fn(KindId, &Lane<E, P>) -> bool) -> Vec<LaneKey> {
        let mut keys = Vec::new();
        for (key, group) in &self.groups {
            let wanted = (group.lanes.iter()).filter(|(_, lane)| wanted(key.kind, lane));
            keys.extend(wanted.map(|(name, _)| key.lane(Arc::clone(name))));
        }
        keys
    }

    /// The phase of each lane.
    #[cfg(test)]
    pub(super) fn phases(&self) -> Vec<(LaneKey, Phase)> {
        let groups = self.groups.iter().flat_map(|(key, group)| {
            let lanes = group.lanes.iter();
            lanes.map(|(name, lane)| (key.lane(Arc::clone(name)), lane.phase))
        });
        groups.collect()
    }
}

// === impl Group ===

impl<E, P> Group<E, P> {
    /// Tables of lanes below this size are not shrunk.
    const SMALL: usize = 64;

    /// Adds a lane that became ready. Returns the number of lanes in its queue.
    fn push(&mut self, priority: Priority, name: Arc<str>) -> usize {
        let ready = &mut self.ready[priority as usize];
        ready.push(name);
        ready.len()
    }

    /// Counts a lane that left its queue. Returns the number of lanes that are left in it.
    fn leave(&mut self, priority: Priority) -> usize {
        let Self { lanes, ready, .. } = self;
        let ready = &mut ready[priority as usize];
        ready.leave(|name| is_ready(lanes, name, priority));
        ready.len()
    }

    /// Takes the lane that has waited longest.
    fn pop(&mut self, priority: Priority) -> Option<Arc<str>> {
        let Self { lanes, ready, .. } = self;
        ready[priority as usize].pop(|name| is_ready(lanes, name, priority))
    }

    /// Releases memory after most lanes were removed.
    fn trim(&mut self) {
        let lanes = &mut self.lanes;
        if lanes.capacity() > Self::SMALL && lanes.len() < lanes.capacity() / 8 {
            lanes.shrink_to(2 * lanes.len());
        }
    }
}

impl<E, P> Default for Lanes<E, P> {
    fn default() -> Self {
        Self {
            groups: HashMap::default(),
            rings: Rings::default(),
        }
    }
}

impl<E, P> Default for Group<E, P> {
    fn default() -> Self {
        Self {
            lanes: HashMap::default(),
            ready: Default::default(),
            places: Places::default(),
        }
    }
}

/// Whether the lane called `name` is ready with this priority.
fn is_ready<E, P>(
    lanes: &HashMap<Arc<str>, Box<Lane<E, P>>>,
    name: &str,
    priority: Priority,
) -> bool {
    (lanes.get(name)).is_some_and(|lane| lane.phase == Phase::Ready(priority))
}

/// The entry of `key`, which is created if necessary.
fn entry<K: Eq + Hash, V: Default>(
    map: &mut HashMap<K, V>,
    key: K,
) -> OccupiedEntry<'_, K, V, DefaultHashBuilder> {
    match map.entry(key) {
        Entry::Occupied(known) => known,
        Entry::Vacant(new) => new.insert_entry(V::default()),
    }
}

#[cfg(test)]
mod tests;
