//! The queue of ready lanes, by priority and fair between groups.
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
//! Guaranteed: adding, taking and removing a lane take constant time (amortized), also in the middle
//! of a queue, and opening or closing a group reads no lane. A `VecDeque` for each group and priority
//! would remove from the middle in linear time.

use std::iter::successors;

use super::slab::SlabKey;

/// The key of a lane, as long as the lane exists.
pub(crate) type LaneId = SlabKey;

/// The key of a group: a kind and a namespace.
pub(crate) type GroupId = SlabKey;

/// The priority of an event or retry, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[doc(hidden)]
#[non_exhaustive]
pub enum Priority {
    /// A change of an object.
    Live,
    /// A retry or requeue that is due.
    Retry,
    /// An object of the first list.
    FirstList,
    /// A periodic resync.
    Resync,
}

/// The queue of ready lanes.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    rings: [Ring; Priority::ALL.len()],

    /// The lanes of each group, by the key of the group.
    groups: Vec<GroupQueues>,

    /// The neighbours of each lane, by its key. So a lane whose priority rises is removed from the
    /// middle of its queue in constant time.
    links: Vec<Link>,

    turn: usize,
    len: usize,
}

/// The groups of one priority with ready lanes.
#[derive(Clone, Copy, Debug, Default)]
struct Ring {
    front: Option<GroupId>,
    back: Option<GroupId>,
}

/// The ready lanes of one group.
#[derive(Clone, Copy, Debug, Default)]
struct GroupQueues {
    queues: [LaneQueue; Priority::ALL.len()],
    len: u32,
    /// Closed groups are in no ring. Their lanes wait in order.
    closed: bool,
}

/// The ready lanes of one group and priority, and the links of the group in its ring.
#[derive(Clone, Copy, Debug, Default)]
struct LaneQueue {
    front: Option<LaneId>,
    back: Option<LaneId>,
    link: Link,
}

/// The neighbours in a doubly linked list.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    previous: Option<SlabKey>,
    next: Option<SlabKey>,
}

// === impl Priority ===

impl Priority {
    pub(crate) const ALL: [Self; 4] = [Self::Live, Self::Retry, Self::FirstList, Self::Resync];

    /// The priority with which the search of each turn begins. Three quarters of the turns begin
    /// with the highest. Due retries, the first list and resyncs get at least an eighth, a
    /// sixteenth and a sixteenth: enough never to starve, and little enough not to matter.
    const FIRST: [Self; 16] = {
        let mut first = [Self::Live; 16];
        first[3] = Self::Retry;
        first[7] = Self::FirstList;
        first[11] = Self::Retry;
        first[15] = Self::Resync;
        first
    };
}

// === impl ReadyQueue ===

impl ReadyQueue {
    /// Adds `lane` after all others of its priority and group. A group without lanes becomes `open`
    /// or closed.
    pub(crate) fn push(&mut self, lane: LaneId, priority: Priority, group: GroupId, open: bool) {
        if self.links.len() <= lane.index() {
            self.links.resize(lane.index() + 1, Link::default());
        }
        if self.groups.len() <= group.index() {
            (self.groups).resize(group.index() + 1, GroupQueues::default());
        }
        let lanes = &mut self.groups[group.index()];
        if lanes.len == 0 {
            lanes.closed = !open;
        }
        lanes.len += 1;
        let closed = lanes.closed;
        let queue = &mut lanes.queues[priority as usize];
        let previous = queue.back.replace(lane);
        let link = Link {
            previous,
            next: None,
        };
        self.links[lane.index()] = link;
        if let Some(previous) = previous {
            self.links[previous.index()].next = Some(lane);
        } else {
            queue.front = Some(lane);
            if !closed {
                self.join_ring(group, priority);
            }
        }
        if !closed {
            self.len += 1;
        }
    }

    /// Removes `lane` from its queue.
    pub(crate) fn remove(&mut self, lane: LaneId, priority: Priority, group: GroupId) {
        let Link { previous, next } = std::mem::take(&mut self.links[lane.index()]);
        let lanes = &mut self.groups[group.index()];
        lanes.len -= 1;
        let closed = lanes.closed;
        let queue = &mut lanes.queues[priority as usize];
        match previous {
            Some(previous) => self.links[previous.index()].next = next,
            None => queue.front = next,
        }
        match next {
            Some(next) => self.links[next.index()].previous = previous,
            None => queue.back = previous,
        }
        if closed {
            return;
        }
        if queue.front.is_none() {
            self.leave_ring(group, priority);
        }
        self.len -= 1;
    }

    /// Opens or closes `group`. Reads no lane.
    pub(crate) fn set_open(&mut self, group: GroupId, open: bool) {
        let Some(lanes) = self.groups.get_mut(group.index()) else {
            return;
        };
        if lanes.closed != open {
            return;
        }
        lanes.closed = !open;
        let (queues, len) = (lanes.queues, lanes.len as usize);
        for (priority, queue) in Priority::ALL.into_iter().zip(queues) {
            match (queue.front, open) {
                (Some(_), true) => self.join_ring(group, priority),
                (Some(_), false) => self.leave_ring(group, priority),
                (None, _) => {}
            }
        }
        if open {
            self.len += len;
        } else {
            self.len -= len;
        }
    }

    /// Takes the next lane.
    pub(crate) fn pop(&mut self) -> Option<LaneId> {
        if self.len == 0 {
            return None;
        }
        let first = Priority::FIRST[self.turn % Priority::FIRST.len()];
        self.turn = self.turn.wrapping_add(1);
        std::iter::once(first)
            .chain(Priority::ALL)
            .find_map(|priority| self.next(priority))
    }

    /// The lanes of about the next `turns` turns, in no particular order: exact if all groups have
    /// equally many lanes, no higher priority arrives, and no lower one has its turn.
    pub(crate) fn upcoming(&self, turns: usize) -> impl Iterator<Item = LaneId> {
        let mut rings = Priority::ALL.into_iter().zip(&self.rings);
        let ring = rings.find_map(|(priority, ring)| Some((priority, ring.front?)));
        ring.into_iter().flat_map(move |(priority, front)| {
            let queue = move |group: GroupId| &self.groups[group.index()].queues[priority as usize];
            let groups = successors(Some(front), move |group| queue(*group).link.next);
            let each = turns.div_ceil(groups.clone().take(turns).count());
            groups.take(turns).flat_map(move |group| {
                let next = |lane: &LaneId| self.links[lane.index()].next;
                successors(queue(group).front, next).take(each)
            })
        })
    }

    /// The number of ready lanes in open groups.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Takes the oldest lane of the next group, and moves the group to the end of its ring.
    fn next(&mut self, priority: Priority) -> Option<LaneId> {
        let group = self.rings[priority as usize].front?;
        let lane = self.queue(group, priority).front?;
        self.remove(lane, priority, group);
        if self.queue(group, priority).front.is_some() {
            self.leave_ring(group, priority);
            self.join_ring(group, priority);
        }
        Some(lane)
    }

    /// Adds `group` to the end of the ring of this priority.
    fn join_ring(&mut self, group: GroupId, priority: Priority) {
        let previous = self.rings[priority as usize].back.replace(group);
        match previous {
            Some(previous) => self.queue(previous, priority).link.next = Some(group),
            None => self.rings[priority as usize].front = Some(group),
        }
        let next = None;
        self.queue(group, priority).link = Link { previous, next };
    }

    /// Removes `group` from the ring of this priority.
    fn leave_ring(&mut self, group: GroupId, priority: Priority) {
        let Link { previous, next } = std::mem::take(&mut self.queue(group, priority).link);
        match previous {
            Some(previous) => self.queue(previous, priority).link.next = next,
            None => self.rings[priority as usize].front = next,
        }
        match next {
            Some(next) => self.queue(next, priority).link.previous = previous,
            None => self.rings[priority as usize].back = previous,
        }
    }

    fn queue(&mut self, group: GroupId, priority: Priority) -> &mut LaneQueue {
        &mut self.groups[group.index()].queues[priority as usize]
    }
}

#[cfg(test)]
mod tests;
