//! Priorities, and the queue of the ready lanes of one group and priority. *(pure)*

use std::collections::VecDeque;

use super::lane::LaneId;

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

/// The ready lanes of one group and priority, first in, first out.
///
/// A lane also leaves when its priority changes or when it has no work any more. Then its ticket
/// stays in the queue until [`pop`](Self::pop) skips it. Such tickets are removed when they are the
/// majority, so leaving takes constant time (amortized), and memory is bounded by the ready lanes.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    tickets: VecDeque<Ticket>,
    /// The number of ready lanes.
    len: usize,
}

/// The place of a lane in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) lane: LaneId,
    /// Differs from all other tickets in the queue, also from earlier ones of the lane.
    pub(super) number: u32,
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
    /// Tickets below this number are not removed early.
    const SMALL: usize = 64;

    /// The number of ready lanes.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Adds a lane that became ready.
    pub(super) fn push(&mut self, ticket: Ticket) {
        self.tickets.push_back(ticket);
        self.len += 1;
    }

    /// Takes the lane that has waited longest. `is_valid` says which tickets their lanes still have.
    pub(super) fn pop(&mut self, is_valid: impl Fn(Ticket) -> bool) -> Option<LaneId> {
        let ticket = loop {
            let ticket = self.tickets.pop_front()?;
            if is_valid(ticket) {
                break ticket;
            }
        };
        self.leave(is_valid);
        Some(ticket.lane)
    }

    /// Counts a lane that left. `is_valid` says which tickets their lanes still have.
    pub(super) fn leave(&mut self, is_valid: impl Fn(Ticket) -> bool) {
        self.len -= 1;
        if self.len == 0 {
            self.tickets.clear();
            self.tickets.shrink_to(Self::SMALL);
        } else if self.tickets.len() > 2 * self.len + Self::SMALL {
            self.tickets.retain(|ticket| is_valid(*ticket));
            self.tickets.shrink_to(2 * self.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(lane: u32, number: u32) -> Ticket {
        Ticket {
            lane: LaneId(lane),
            number,
        }
    }

    #[test]
    fn tickets_of_lanes_that_left_are_bounded_by_the_ready_lanes() {
        let mut queue = ReadyQueue::default();
        let stays = ticket(0, 0);
        queue.push(stays);
        for round in 1..10_000 {
            queue.push(ticket(1, round));
            queue.leave(|it| it == stays);
            let most = 2 * queue.len() + ReadyQueue::SMALL + 1;
            assert!(queue.tickets.len() <= most, "round {round}");
        }
        assert_eq!(queue.pop(|it| it == stays), Some(stays.lane));
        assert_eq!((queue.len(), queue.tickets.len()), (0, 0));
    }

    #[test]
    fn a_lane_that_left_and_came_back_has_its_last_place() {
        let mut queue = ReadyQueue::default();
        queue.push(ticket(0, 0));
        queue.push(ticket(1, 1));
        queue.leave(|it| it.number == 1);
        queue.push(ticket(0, 2));
        let is_valid = |it: Ticket| it.number > 0;
        assert_eq!(queue.pop(is_valid), Some(LaneId(1)));
        assert_eq!(queue.pop(is_valid), Some(LaneId(0)));
        assert_eq!(queue.pop(is_valid), None);
    }

    #[test]
    fn an_empty_queue_has_little_memory() {
        let mut queue = ReadyQueue::default();
        for number in 0..10_000 {
            queue.push(ticket(number, number));
        }
        while queue.pop(|_| true).is_some() {}
        assert!(queue.tickets.capacity() <= 2 * ReadyQueue::SMALL);
    }
}
