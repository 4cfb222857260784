//! Whose turn it is.
//!
//! Lanes that are ready wait in classes of priority; within a class the groups (a kind and a
//! namespace) take turns; within a group the lane that has waited longest is first.
//!
//! ```text
//! Live ──▶ ( shop ▶ web ▶ infra )     a ring of groups
//!              │
//!              └▶ lane ▶ lane ▶ lane  first in, first out
//! ```
//!
//! Priorities age: of every sixteen turns, four begin their search in a lower class, so that
//! whatever is ready is served, however much of a higher class there is.

use std::collections::{HashMap, VecDeque};

/// The number of a lane, for as long as it is there.
pub(crate) type LaneId = u32;

/// The number of a group of lanes that share their turns: a kind and a namespace.
pub(crate) type GroupId = u32;

/// How urgent something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Somebody changed something.
    Live,
    /// Something is to be tried again, and its time has come.
    Retry,
    /// It was there before we came.
    FirstList,
    /// Nothing changed; it is told again.
    Resync,
}

/// The lanes that are ready to be worked on, in the order in which they will be.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    rings: [Ring; Class::ALL.len()],

    /// Where each lane stands, by its number: a lane that becomes more urgent leaves the
    /// middle of its queue as cheaply as the front.
    places: Vec<Option<Place>>,

    turn: usize,
    len: usize,
}

/// The groups of one class, in turn.
#[derive(Debug, Default)]
struct Ring {
    /// Exactly the groups that have a queue here. A queue whose lanes have all left stays
    /// until its turn comes.
    turns: VecDeque<GroupId>,
    queues: HashMap<GroupId, Queue>,
}

/// The lanes of one group: the links between them are in their places.
#[derive(Debug, Default)]
struct Queue {
    front: Option<LaneId>,
    back: Option<LaneId>,
}

/// A lane's place in its queue.
#[derive(Clone, Copy, Debug)]
struct Place {
    class: Class,
    group: GroupId,
    before: Option<LaneId>,
    behind: Option<LaneId>,
}

// === impl Class ===

impl Class {
    const ALL: [Self; 4] = [Self::Live, Self::Retry, Self::FirstList, Self::Resync];

    /// Where the search begins, turn by turn. Three quarters of the turns are by priority;
    /// due retries, the first list and resyncs have at least an eighth, a sixteenth and a
    /// sixteenth, which is enough never to starve and too little to be noticed.
    const FIRST: [Self; 16] = {
        let mut first = [Self::Live; 16];
        first[3] = Self::Retry;
        first[7] = Self::FirstList;
        first[11] = Self::Retry;
        first[15] = Self::Resync;
        first
    };
}

// === impl Ready ===

impl Ready {
    /// Puts `lane`, which is not here yet, behind all others of its class and group.
    pub(crate) fn push(&mut self, lane: LaneId, class: Class, group: GroupId) {
        let ring = &mut self.rings[class as usize];
        let queue = ring.queues.entry(group).or_insert_with(|| {
            ring.turns.push_back(group);
            Queue::default()
        });
        let before = queue.back.replace(lane);
        if before.is_none() {
            queue.front = Some(lane);
        }
        if let Some(before) = before.and_then(|it| self.places[it as usize].as_mut()) {
            before.behind = Some(lane);
        }
        let at = lane as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, None);
        }
        debug_assert!(self.places[at].is_none(), "a lane is ready once");
        self.places[at] = Some(Place {
            class,
            group,
            before,
            behind: None,
        });
        self.len += 1;
    }

    /// Takes `lane` out of the middle, if it is here.
    pub(crate) fn remove(&mut self, lane: LaneId) {
        let Some(place) = self.places.get_mut(lane as usize).and_then(Option::take) else {
            return;
        };
        let ring = &mut self.rings[place.class as usize];
        let queue = ring.queues.entry(place.group).or_default();
        match place.before {
            None => queue.front = place.behind,
            Some(before) => {
                if let Some(before) = &mut self.places[before as usize] {
                    before.behind = place.behind;
                }
            }
        }
        match place.behind {
            None => queue.back = place.before,
            Some(behind) => {
                if let Some(behind) = &mut self.places[behind as usize] {
                    behind.before = place.before;
                }
            }
        }
        self.len -= 1;
    }

    /// Takes the lane whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<LaneId> {
        if self.len == 0 {
            return None;
        }
        let first = Class::FIRST[self.turn % Class::FIRST.len()];
        self.turn = self.turn.wrapping_add(1);
        let lane = std::iter::once(first)
            .chain(Class::ALL)
            .find_map(|class| self.rings[class as usize].next())?;
        self.remove(lane);
        Some(lane)
    }

    /// How many lanes are ready.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
}

// === impl Ring ===

impl Ring {
    /// The oldest lane of the group whose turn it is, which then goes behind the others.
    fn next(&mut self) -> Option<LaneId> {
        while let Some(group) = self.turns.pop_front() {
            if let Some(lane) = self.queues.get(&group).and_then(|queue| queue.front) {
                self.turns.push_back(group);
                return Some(lane);
            }
            self.queues.remove(&group);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_a_group_the_first_in_is_the_first_out() {
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
    fn what_changed_comes_before_retries_the_first_list_and_resyncs() {
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
    fn a_storm_of_changes_does_not_starve_the_lower_classes() {
        let storm: Vec<_> = (1..=20).map(|lane| format!("live a{lane}")).collect();
        check(
            &format!("resync b1, first b2, retry b3, {}", storm.join(", ")),
            "a1 a2 a3 b3 a4 a5 a6 b2 a7 a8 a9 a10 a11 a12 a13 b1 a14 a15 a16 a17 a18 a19 a20",
        );
    }

    #[test]
    fn a_group_that_emptied_has_no_second_turn() {
        let mut ready = Ready::default();
        for round in 0..100 {
            ready.push(round, Class::Live, 7);
            ready.remove(round);
        }
        assert_eq!(ready.pop(), None);
        assert_eq!(ready.rings[0].turns.len(), 1);
    }

    /// Runs `script`, where `a12` is lane 12 of group a, and then pops until none is left.
    #[track_caller]
    fn check(script: &str, popped: &str) {
        let mut ready = Ready::default();
        let mut names = HashMap::new();
        for step in script.split(", ") {
            let (verb, name) = step.split_once(' ').expect("a verb and a lane");
            let group = GroupId::from(name.as_bytes()[0]);
            // Numbers are used in more than one group; lanes are not.
            let lane = name[1..].parse::<LaneId>().expect("a number") + 100 * (group - 97);
            names.insert(lane, name);
            match verb {
                "live" => ready.push(lane, Class::Live, group),
                "retry" => ready.push(lane, Class::Retry, group),
                "first" => ready.push(lane, Class::FirstList, group),
                "resync" => ready.push(lane, Class::Resync, group),
                _ => ready.remove(lane),
            }
        }
        let order: Vec<_> = std::iter::from_fn(|| ready.pop())
            .map(|lane| names[&lane])
            .collect();
        assert_eq!(order.join(" "), popped, "{script}");
        assert_eq!(ready.len(), 0);
    }
}
