//! The order in which groups take turns. *(pure)*

use std::collections::VecDeque;

use super::{lane::GroupId, ready::Priority};
use crate::route::KindId;

/// For each priority a ring of the open groups with ready lanes.
#[derive(Debug, Default)]
pub(super) struct Rings {
    /// In the order of their places. The group at the front is next.
    by_priority: [VecDeque<(u64, GroupId)>; Priority::ALL.len()],

    /// The number of places that were given to groups.
    places: u64,

    /// The number of turns.
    turns: usize,

    /// The closed kinds: few, and usually none. `None` closes all.
    closed: Vec<Option<KindId>>,
}

/// The place of a group in the ring of each priority, while it has ready lanes. A closed group keeps
/// its places, but is in no ring.
pub(super) type Places = [Option<u64>; Priority::ALL.len()];

// === impl Rings ===

impl Rings {
    /// Whether an open group has a ready lane.
    pub(super) fn has_ready(&self) -> bool {
        self.by_priority.iter().any(|ring| !ring.is_empty())
    }

    /// Whether the lanes of `kind` are taken.
    pub(super) fn is_open(&self, kind: KindId) -> bool {
        !self.closed.contains(&None) && !self.closed.contains(&Some(kind))
    }

    /// Opens or closes `kind`, or all kinds without a closed gate of their own. Call
    /// [`reopen`](Self::reopen) for each group afterwards.
    pub(super) fn set_gate(&mut self, kind: Option<KindId>, open: bool) {
        self.closed.retain(|closed| *closed != kind);
        if !open {
            self.closed.push(kind);
        }
    }

    /// Adds a group of `kind` to its rings if its kind is open, and removes it from them if not.
    pub(super) fn reopen(&mut self, group: GroupId, kind: KindId, places: &Places) {
        let is_open = self.is_open(kind);
        for (ring, place) in self.by_priority.iter_mut().zip(places) {
            let Some(place) = place else { continue };
            match ring.binary_search_by_key(place, |(place, _)| *place) {
                Err(at) if is_open => ring.insert(at, (*place, group)),
                Ok(at) if !is_open => _ = ring.remove(at),
                _ => {}
            }
        }
    }

    /// Gives a group, which has got ready lanes, a place at the end of the ring.
    pub(super) fn join(
        &mut self,
        priority: Priority,
        group: GroupId,
        kind: KindId,
        places: &mut Places,
    ) {
        places[priority as usize] = Some(self.places);
        if self.is_open(kind) {
            self.by_priority[priority as usize].push_back((self.places, group));
        }
        self.places += 1;
    }

    /// Takes the place of a group, which has no ready lanes any more, away.
    pub(super) fn leave(&mut self, priority: Priority, places: &mut Places) {
        let ring = &mut self.by_priority[priority as usize];
        if let Some(left) = places[priority as usize].take()
            && let Ok(at) = ring.binary_search_by_key(&left, |(place, _)| *place)
        {
            ring.remove(at);
        }
    }

    /// Takes the group whose turn it is out of the ring of the priority whose turn it is.
    pub(super) fn next(&mut self) -> Option<(Priority, GroupId)> {
        if !self.has_ready() {
            return None;
        }
        let first = Priority::FIRST[self.turns % Priority::FIRST.len()];
        self.turns = self.turns.wrapping_add(1);
        let mut priorities = std::iter::once(first).chain(Priority::ALL);
        priorities.find_map(|priority| {
            let (_, group) = self.by_priority[priority as usize].pop_front()?;
            Some((priority, group))
        })
    }
}
