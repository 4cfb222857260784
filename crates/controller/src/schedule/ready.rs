//! Priorities, and the queue of the ready lanes of one group and priority. *(pure)*

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

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

/// The ready lanes of one group and priority, by name, first in, first out.
///
/// A lane also leaves when its priority changes or when it has no work any more. Then its name
/// stays in the queue until [`pop`](Self::pop) skips it. Such names are removed when they are the
/// majority, so leaving takes constant time (amortized), and memory is bounded by the ready lanes.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    names: VecDeque<Arc<str>>,
    /// The number of ready lanes.
    len: usize,
}

// === impl Priority ===

impl Priority {
    pub(crate) const ALL: [Self; 4] = [Self::Live, Self::Retry, Self::FirstList, Self::Resync];

    /// The priority with which the search of each turn begins. Three quarters of the turns begin
    /// with the highest. Due retries, the first list and resyncs get at least an eighth, a
    /// sixteenth and a sixteenth: enough never to starve, and little enough not to matter.
    pub(super) const FIRST: [Self; 16] = {
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
    /// Names below this number are not removed early.
    const SMALL: usize = 64;

    /// The number of ready lanes.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Adds a lane that became ready.
    pub(super) fn push(&mut self, name: Arc<str>) {
        self.names.push_back(name);
        self.len += 1;
    }

    /// Takes the lane that has waited longest. `is_ready` says which lanes are in this queue.
    pub(super) fn pop(&mut self, is_ready: impl Fn(&str) -> bool) -> Option<Arc<str>> {
        let name = loop {
            let name = self.names.pop_front()?;
            if is_ready(&name) {
                break name;
            }
        };
        self.leave(|other| *other != *name && is_ready(other));
        Some(name)
    }

    /// Counts a lane that left. `is_ready` says which lanes are left.
    pub(super) fn leave(&mut self, is_ready: impl Fn(&str) -> bool) {
        self.len -= 1;
        if self.len == 0 {
            *self = Self::default();
        } else if self.names.len() > 2 * self.len + Self::SMALL {
            // A lane that left and came back has two names, of which the first is valid.
            let mut seen = HashSet::new();
            (self.names).retain(|name| is_ready(name) && seen.insert(Arc::clone(name)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lanes_that_left_are_bounded_by_the_ready_lanes() {
        let mut queue = ReadyQueue::default();
        queue.push(Arc::from("stays"));
        for round in 0..10_000 {
            queue.push(Arc::from("leaves"));
            queue.leave(|name| name == "stays");
            let most = 2 * queue.len() + ReadyQueue::SMALL + 1;
            assert!(queue.names.len() <= most, "round {round}");
        }
        assert_eq!(queue.pop(|name| name == "stays").as_deref(), Some("stays"));
        assert_eq!((queue.len(), queue.names.capacity()), (0, 0));
    }

    #[test]
    fn a_lane_that_left_and_came_back_is_taken_once() {
        let mut queue = ReadyQueue::default();
        for _ in 0..2 * ReadyQueue::SMALL {
            queue.push(Arc::from("a"));
            queue.push(Arc::from("b"));
            queue.leave(|name| name == "b");
            queue.leave(|_| false);
        }
        queue.push(Arc::from("b"));
        queue.push(Arc::from("a"));
        assert_eq!(queue.pop(|_| true).as_deref(), Some("b"));
        assert_eq!(queue.pop(|name| name == "a").as_deref(), Some("a"));
        assert_eq!(queue.pop(|_| false), None);
    }
}
