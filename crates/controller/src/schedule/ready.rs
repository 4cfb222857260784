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
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_group_is_a_fifo_queue() {
        check("live a1, live a2, live a3", "a1 a2 a3");
    }

    #[test]
    fn groups_take_turns_whatever_their_length() {
        check(
            "live a1, live a2, live a3, live b1, live c1",
            "a1 b1 c1 a2 a3",
        );
    }

    #[test]
    fn changes_have_priority_over_retries_the_first_list_and_resyncs() {
        check("resync a1, first a2, retry a3, live a4", "a4 a3 a2 a1");
    }

    #[test]
    fn a_lane_leaves_the_middle_of_its_queue() {
        check("live a1, live a2, live a3, remove a2", "a1 a3");
        check("live a1, live a2, remove a1", "a2");
        check("live a1, live a2, remove a2, live a3", "a1 a3");
        check("live a1, remove a1, live a2", "a2");
    }

    #[test]
    fn many_changes_do_not_starve_lower_priorities() {
        let storm: Vec<_> = (1..=20).map(|lane| format!("live a{lane}")).collect();
        check(
            &format!("resync b1, first b2, retry b3, {}", storm.join(", ")),
            "a1 a2 a3 b3 a4 a5 a6 b2 a7 a8 a9 a10 a11 a12 a13 b1 a14 a15 a16 a17 a18 a19 a20",
        );
    }

    #[test]
    fn an_empty_group_has_no_turn() {
        let mut ready = ReadyQueue::default();
        let (group, lane) = (SlabKey::at(7), SlabKey::at(0));
        for _ in 0..100 {
            ready.push(lane, Priority::Live, group, true);
            ready.remove(lane, Priority::Live, group);
        }
        assert_eq!(ready.pop(), None);
        assert_eq!((ready.rings[0].front, ready.rings[0].back), (None, None));
        check("live a1, remove a1, live a2, live b3, live a4", "a2 b3 a4");
    }

    #[test]
    fn the_next_lanes_are_known_in_advance() {
        let mut ready = ReadyQueue::default();
        ready.push(SlabKey::at(99), Priority::Resync, SlabKey::at(9), true);
        for at in 0..12 {
            ready.push(SlabKey::at(at), Priority::Live, SlabKey::at(at % 3), true);
        }
        let mut coming: Vec<_> = ready.upcoming(6).collect();
        coming.sort_unstable();
        let mut next: Vec<_> = (0..6).filter_map(|_| ready.pop()).collect();
        next.sort_unstable();
        assert_eq!(coming, next);

        while ready.len() > 1 {
            ready.pop();
        }
        assert_eq!(ready.upcoming(6).count(), 1);
        ready.pop();
        assert_eq!(ready.upcoming(6).count(), 0);
    }

    #[test]
    fn a_closed_group_has_no_turn_and_keeps_its_order() {
        let mut ready = ReadyQueue::default();
        let (shop, web) = (SlabKey::at(0), SlabKey::at(1));
        let lane = SlabKey::at;
        ready.push(lane(0), Priority::Live, shop, false);
        // The state of the first lane of a group holds for the group.
        ready.push(lane(1), Priority::Resync, shop, true);
        ready.push(lane(2), Priority::Live, shop, false);
        ready.push(lane(3), Priority::Live, web, true);
        assert_eq!((ready.len(), ready.upcoming(6).count()), (1, 1));
        assert_eq!((ready.pop(), ready.pop()), (Some(lane(3)), None));

        ready.remove(lane(0), Priority::Live, shop);
        ready.set_open(shop, true);
        ready.set_open(shop, true);
        assert_eq!(ready.len(), 2);
        assert_eq!(ready.pop(), Some(lane(2)));
        ready.set_open(shop, false);
        assert_eq!((ready.len(), ready.pop()), (0, None));
        ready.set_open(shop, true);
        assert_eq!((ready.pop(), ready.pop()), (Some(lane(1)), None));

        // A group without a lane is as its next lane says.
        ready.set_open(shop, false);
        ready.push(lane(4), Priority::Live, shop, true);
        assert_eq!((ready.len(), ready.pop()), (1, Some(lane(4))));
    }

    /// Runs `script`, where `a12` is lane 12 of group a, and then pops until none is left.
    #[track_caller]
    fn check(script: &str, popped: &str) {
        let mut ready = ReadyQueue::default();
        let mut names = HashMap::new();
        for step in script.split(", ") {
            let (verb, name) = step.split_once(' ').expect("a verb and a lane");
            let group = usize::from(name.as_bytes()[0] - b'a');
            // Numbers are used in more than one group; lanes are not.
            let lane = name[1..].parse::<usize>().expect("a number") + 100 * group;
            let (group, lane) = (SlabKey::at(group), SlabKey::at(lane));
            let priority = match verb {
                "retry" => Priority::Retry,
                "first" => Priority::FirstList,
                "resync" => Priority::Resync,
                _ => Priority::Live,
            };
            names.insert(lane, name);
            if verb == "remove" {
                ready.remove(lane, priority, group);
            } else {
                ready.push(lane, priority, group, true);
            }
        }
        let order: Vec<_> = std::iter::from_fn(|| ready.pop())
            .map(|lane| names[&lane])
            .collect();
        assert_eq!(order.join(" "), popped, "{script}");
        assert_eq!(ready.len(), 0);
    }
}
