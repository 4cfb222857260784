//! All lanes, by id and by key.

use std::{
    hash::BuildHasher,
    hint::black_box,
    ops::{Index, IndexMut},
    sync::Arc,
};

use hashbrown::DefaultHashBuilder;

use super::{
    groups::Groups,
    index::LaneIndex,
    lane::{Lane, LaneKey, ScheduleItem},
    ready::{GroupId, LaneId},
    slab::Slab,
};
use crate::route::KindId;

/// The lanes of all objects.
#[derive(Debug)]
pub(super) struct Lanes<E> {
    slab: Slab<Lane<E>>,
    /// The lanes by their key. Only the lane and its group store the key.
    index: LaneIndex,
    hasher: DefaultHashBuilder,
    groups: Groups,
}

/// The group and the name of a lane, and probably the lane.
#[derive(Debug)]
pub(super) struct LocatedLane {
    name: Arc<str>,
    group: GroupId,
    hash: u32,
    /// A lane with this hash: usually the wanted one, which is verified before use.
    pub(super) likely: Option<LaneId>,
}

// === impl Lanes ===

impl<E: ScheduleItem> Lanes<E> {
    /// Finds the group of a lane, which exists until the next [`trim`](Self::trim).
    pub(super) fn locate(&mut self, key: LaneKey) -> LocatedLane {
        let (namespace, name) = key.object.into_parts();
        let group = self.groups.of(key.kind, namespace);
        LocatedLane {
            hash: self.hash(group, &name),
            name,
            group,
            likely: None,
        }
    }

    /// Notes a lane with the hash of `located`, which may be another lane.
    pub(super) fn note_likely(&self, located: &mut LocatedLane) {
        located.likely = self.index.find(located.hash, |_| true);
    }

    /// Returns the lane of `located`, which is created if necessary.
    pub(super) fn enter(&mut self, located: LocatedLane) -> LaneId {
        let LocatedLane {
            name,
            group,
            hash,
            likely,
        } = located;
        let is_same = |id: LaneId| {
            let lane = self.slab.get(id);
            lane.is_some_and(|lane| lane.group == group && lane.name == name)
        };
        // An event of the same batch may have created or removed the lane.
        let known = (likely.filter(|id| is_same(*id))).or_else(|| self.index.find(hash, is_same));
        known.unwrap_or_else(|| {
            self.groups.enter(group);
            let id = self.slab.insert(Lane::new(name, hash, group));
            self.index.insert(hash, id);
            id
        })
    }

    /// Removes an empty lane.
    pub(super) fn remove(&mut self, id: LaneId) {
        let lane = &self.slab[id];
        self.index.remove(lane.hash, id);
        self.groups.leave(lane.group);
        self.slab.remove(id);
    }

    /// Removes groups that have no lanes.
    pub(super) fn trim(&mut self) {
        self.groups.trim();
    }

    pub(super) fn key(&self, id: LaneId) -> LaneKey {
        let lane = &self.slab[id];
        lane.key(&self.groups[lane.group])
    }

    pub(super) fn kind(&self, id: LaneId) -> KindId {
        self.groups[self.slab[id].group].kind
    }

    /// All groups, with the kind of each.
    pub(super) fn groups(&self) -> impl Iterator<Item = (GroupId, KindId)> {
        self.groups.kinds()
    }

    /// The ids of the lanes that are `wanted`. Reads all lanes.
    pub(super) fn ids_where(&self, wanted: impl Fn(&Lane<E>, KindId) -> bool) -> Vec<LaneId> {
        (self.slab.iter())
            .filter(|(_, lane)| wanted(lane, self.groups[lane.group].kind))
            .map(|(id, _)| id)
            .collect()
    }

    /// Reads the entries of these lanes in the index, so that they are in the CPU cache.
    pub(super) fn prefetch_index(&self, ids: impl Iterator<Item = LaneId>) {
        let found = ids.map(|id| self.index.find(self.slab[id].hash, |it| it == id));
        black_box(found.max());
    }

    /// The number of lanes, in the slab and in the index.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.slab.len(), self.index.len())
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (LaneId, &Lane<E>)> {
        self.slab.iter()
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "half of the bits of a hash are also a hash"
    )]
    fn hash(&self, group: GroupId, name: &str) -> u32 {
        self.hasher.hash_one((group, name)) as u32
    }
}

impl<E> Default for Lanes<E> {
    fn default() -> Self {
        Self {
            slab: Slab::default(),
            index: LaneIndex::default(),
            hasher: DefaultHashBuilder::default(),
            groups: Groups::default(),
        }
    }
}

impl<E> Index<LaneId> for Lanes<E> {
    type Output = Lane<E>;

    fn index(&self, id: LaneId) -> &Lane<E> {
        &self.slab[id]
    }
}

impl<E> IndexMut<LaneId> for Lanes<E> {
    fn index_mut(&mut self, id: LaneId) -> &mut Lane<E> {
        &mut self.slab[id]
    }
}
