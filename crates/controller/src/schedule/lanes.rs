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
//! Guaranteed: changing and taking a lane take constant time (amortized), also if the lane leaves the
//! middle of its queue; except that a group whose last ready lane leaves without a turn leaves the
//! middle of its ring, which takes O(groups). Opening or closing a kind reads no lane. Memory is
//! bounded by the highest number of lanes since there was none.

use std::{hash::BuildHasher as _, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use slab::Slab;
use windlass_informer::ObjectKey;

use super::{
    lane::{GroupId, Lane, LaneId, LaneKey, Phase},
    ready::{Priority, ReadyQueue, Ticket},
    rings::{Places, Rings},
};
use crate::route::KindId;

/// The lanes of all objects.
#[derive(Debug)]
pub(super) struct Lanes<E, P> {
    slab: Slab<Lane<E, P>>,
    /// The lanes by group and name, which only the lanes store.
    by_name: HashTable<NamedLane>,
    hasher: DefaultHashBuilder,

    groups: Slab<Group>,
    by_key: HashMap<GroupKey, GroupId>,

    rings: Rings,
    /// The number of tickets that were given to lanes, modulo 2^32.
    tickets: u32,
}

/// A lane, with the hash of its group and name: the table grows without reading the lanes.
#[derive(Debug)]
struct NamedLane {
    hash: u32,
    lane: LaneId,
}

/// A kind and a namespace, whose lanes share turns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct GroupKey {
    kind: KindId,
    namespace: Option<Arc<str>>,
}

/// The lanes of one kind and namespace. It exists while it has lanes.
#[derive(Debug)]
struct Group {
    key: GroupKey,
    /// The number of its lanes.
    lanes: usize,
    /// The ready lanes of each priority.
    ready: [ReadyQueue; Priority::ALL.len()],
    places: Places,
}

// === impl Lanes ===

impl<E, P> Lanes<E, P> {
    /// The lane of `key`, which is created if necessary. [`change`](Self::change) it.
    pub(super) fn enter(&mut self, key: LaneKey) -> LaneId {
        let (namespace, name) = key.object.into_parts();
        let key = GroupKey {
            kind: key.kind,
            namespace,
        };
        let group = self.by_key.get(&key).copied();
        let known = group.and_then(|group| self.find(group, &name));
        known.unwrap_or_else(|| {
            let group = group.unwrap_or_else(|| self.add_group(key));
            self.add(group, name)
        })
    }

    /// The key of a lane.
    pub(super) fn key(&self, id: LaneId) -> LaneKey {
        let lane = &self.slab[id.index()];
        let namespace = self.groups[lane.group.index()].key.namespace.clone();
        LaneKey {
            kind: lane.kind,
            object: ObjectKey::in_namespace(Arc::clone(&lane.name), namespace),
        }
    }

    /// A lane that a worker has taken.
    pub(super) fn get_mut(&mut self, id: LaneId) -> &mut Lane<E, P> {
        &mut self.slab[id.index()]
    }

    /// Changes a lane. Then updates its phase and its position, and removes it if it is unused.
    pub(super) fn change<T>(&mut self, id: LaneId, change: impl FnOnce(&mut Lane<E, P>) -> T) -> T {
        let lane = &mut self.slab[id.index()];
        let before = lane.phase;
        let changed = change(lane);
        lane.update_phase();
        let (after, group) = (lane.phase, lane.group);
        if after != before {
            if let Phase::Ready(priority) = after {
                self.push(id, priority);
            }
            if let Phase::Ready(priority) = before {
                let Self {
                    slab: lanes,
                    groups,
                    ..
                } = self;
                let group = &mut groups[group.index()];
                let queue = &mut group.ready[priority as usize];
                queue.leave(|ticket| is_valid(lanes, ticket, priority));
                if queue.len() == 0 {
                    self.rings.leave(priority, &mut group.places);
                }
            }
        }
        if self.slab[id.index()].is_unused() {
            self.remove(id);
        }
        changed
    }

    /// Takes the next ready lane for a worker.
    pub(super) fn take(&mut self) -> Option<LaneId> {
        let (priority, id) = self.rings.next()?;
        let Self {
            slab: lanes,
            groups,
            ..
        } = self;
        let group = &mut groups[id.index()];
        let queue = &mut group.ready[priority as usize];
        let lane = queue.pop(|ticket| is_valid(lanes, ticket, priority));
        if queue.len() > 0 {
            (self.rings).join(priority, id, group.key.kind, &mut group.places);
        } else {
            self.rings.leave(priority, &mut group.places);
        }
        let lane = lane.expect("a group in a ring has ready lanes");
        lanes[lane.index()].phase = Phase::Processing;
        Some(lane)
    }

    /// Opens or closes `kind`, or all kinds without a closed gate of their own. Reads all groups, and
    /// no lane.
    pub(super) fn set_gate(&mut self, kind: Option<KindId>, open: bool) {
        self.rings.set_gate(kind, open);
        for (id, group) in &self.groups {
            (self.rings).reopen(GroupId::at(id), group.key.kind, &group.places);
        }
    }

    /// Whether a lane can be taken.
    pub(super) fn has_ready(&self) -> bool {
        self.rings.has_ready()
    }

    /// The number of lanes that can be taken. Reads all groups.
    pub(super) fn ready(&self) -> usize {
        let groups = self.groups.iter().map(|(_, group)| group);
        let open = groups.filter(|group| self.rings.is_open(group.key.kind));
        open.flat_map(|group| &group.ready)
            .map(ReadyQueue::len)
            .sum()
    }

    /// The lanes that are `wanted`. Reads all lanes.
    pub(super) fn ids_where(&self, wanted: impl Fn(&Lane<E, P>) -> bool) -> Vec<LaneId> {
        let lanes = self.slab.iter().map(|(_, lane)| lane);
        lanes
            .filter(|lane| wanted(lane))
            .map(|lane| lane.id)
            .collect()
    }

    /// The phase of each lane.
    #[cfg(test)]
    pub(super) fn phases(&self) -> Vec<(LaneKey, Phase)> {
        let lanes = self.slab.iter().map(|(_, lane)| lane);
        lanes.map(|lane| (self.key(lane.id), lane.phase)).collect()
    }

    /// Adds a lane that became ready to its queue.
    fn push(&mut self, id: LaneId, priority: Priority) {
        self.tickets = self.tickets.wrapping_add(1);
        let lane = &mut self.slab[id.index()];
        lane.ticket = self.tickets;
        let group = &mut self.groups[lane.group.index()];
        let queue = &mut group.ready[priority as usize];
        queue.push(Ticket {
            lane: id,
            number: self.tickets,
        });
        if queue.len() == 1 {
            let (kind, places) = (group.key.kind, &mut group.places);
            self.rings.join(priority, lane.group, kind, places);
        }
    }

    fn find(&self, group: GroupId, name: &Arc<str>) -> Option<LaneId> {
        let hash = self.hash(group, name);
        let found = self.by_name.find(spread(hash), |it| {
            let is_same = |lane: &Lane<E, P>| lane.group == group && lane.name == *name;
            it.hash == hash && is_same(&self.slab[it.lane.index()])
        });
        found.map(|it| it.lane)
    }

    fn add(&mut self, group: GroupId, name: Arc<str>) -> LaneId {
        let hash = self.hash(group, &name);
        let its = &mut self.groups[group.index()];
        its.lanes += 1;
        if self.slab.len() == self.slab.capacity() {
            // A `Vec` would double, and half of a large one may stay unused.
            self.slab.reserve_exact(self.slab.len() / 4 + 64);
        }
        let entry = self.slab.vacant_entry();
        let lane = LaneId::at(entry.key());
        entry.insert(Lane::new(lane, its.key.kind, group, name));
        let entry = NamedLane { hash, lane };
        (self.by_name).insert_unique(spread(hash), entry, |it| spread(it.hash));
        lane
    }

    /// Removes a lane, and its group if that has no other one. Releases the memory after the last
    /// lane.
    fn remove(&mut self, id: LaneId) {
        let lane = self.slab.remove(id.index());
        let hash = spread(self.hash(lane.group, &lane.name));
        if let Ok(entry) = self.by_name.find_entry(hash, |it| it.lane == id) {
            entry.remove();
        }
        let group = &mut self.groups[lane.group.index()];
        group.lanes -= 1;
        if group.lanes == 0 {
            self.by_key.remove(&group.key);
            self.groups.remove(lane.group.index());
        }
        if self.slab.is_empty() && self.slab.capacity() > Self::SMALL {
            self.slab = Slab::new();
            self.by_name = HashTable::new();
            self.groups = Slab::new();
            self.by_key = HashMap::default();
        }
    }

    fn add_group(&mut self, key: GroupKey) -> GroupId {
        let id = GroupId::at(self.groups.insert(Group {
            key: key.clone(),
            lanes: 0,
            ready: Default::default(),
            places: Places::default(),
        }));
        self.by_key.insert(key, id);
        id
    }

    /// The memory for this number of lanes is kept when there is none.
    const SMALL: usize = 4096;

    #[expect(
        clippy::cast_possible_truncation,
        reason = "half of the bits of a hash are also a hash"
    )]
    fn hash(&self, group: GroupId, name: &str) -> u32 {
        self.hasher.hash_one((group, name)) as u32
    }
}

impl<E, P> Default for Lanes<E, P> {
    fn default() -> Self {
        Self {
            slab: Slab::new(),
            by_name: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            groups: Slab::new(),
            by_key: HashMap::default(),
            rings: Rings::default(),
            tickets: 0,
        }
    }
}

/// Whether the lane of `ticket` still has it, and waits with this priority.
fn is_valid<E, P>(lanes: &Slab<Lane<E, P>>, ticket: Ticket, priority: Priority) -> bool {
    let lane = lanes.get(ticket.lane.index());
    lane.is_some_and(|lane| lane.phase == Phase::Ready(priority) && lane.ticket == ticket.number)
}

/// Expands a hash to 64 bits with the hash in the lowest and the highest bits, which the table uses.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x1_0000_0001)
}

#[cfg(test)]
mod tests;
