//! A timer queue: values by due time, removable, without a clock.
//!
//! An 8-ary heap, and a table with the position of each timer in it. Setting and cancelling a timer
//! takes a few moves for most timers, and O(log n) at most. The next timer is at the root.
//! Cancelled timers are removed at once.
//!
//! Why not tokio-util's `DelayQueue`: it reads the clock, which the pure core does not, and has a
//! resolution of milliseconds. Why not a `BTreeMap` by due time and number: with it, setting and
//! cancelling a retry (benchmark scenario P6-10k) took 1.0 µs instead of 0.2 µs. The heap stores each
//! entry in 16 bytes next to its siblings, without a separate allocation.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

use super::{ready::LaneId, slab::SlabKey};

/// A point in time, since the engine was created.
///
/// The schedule never reads a clock: the time is an argument. Eight bytes instead of the sixteen of
/// an `Instant`, because each pending call has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

/// The key of a timer, to cancel it. Reused after the timer is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimerKey(SlabKey);

/// A timer queue: lanes by due time.
#[derive(Debug, Default)]
pub(crate) struct TimerQueue {
    /// No entry is due before its parent, which is at an eighth of its index.
    heap: Vec<TimerEntry>,

    /// The positions, by timer key.
    slots: Vec<TimerSlot>,

    /// The first free key.
    free: Option<SlabKey>,

    /// The number of timers that were set, modulo 2^32.
    numbers: u32,
}

/// Sixteen bytes, so that the children of a node are in two or three cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TimerEntry {
    due: Moment,
    /// Orders timers with the same due time by insertion.
    number: u32,
    timer: SlabKey,
}

#[derive(Clone, Copy, Debug)]
enum TimerSlot {
    /// The index in the heap, and the lane.
    Set { at: u32, lane: LaneId },
    /// Free, with the next free key.
    Free(Option<SlabKey>),
}

// === impl Moment ===

impl Moment {
    /// The moment as an integer, for an atomic.
    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`to_bits`](Self::to_bits).
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// A moment that never comes.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// The moment `elapsed` after the start; at most [`NEVER`](Self::NEVER).
    pub(crate) fn after(elapsed: Duration) -> Self {
        Self(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time since the start.
    pub(crate) const fn elapsed(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Saturates, because a user's delay may be `Duration::MAX`.
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(Self::after(rhs).0))
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, rhs: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(rhs.0))
    }
}

// === impl TimerQueue ===

impl TimerQueue {
    /// With a million timers, cancelling one and setting another took a third less time than with
    /// four children, and taking the first one no longer; with sixteen it took longer.
    const CHILDREN: usize = 8;

    /// An empty queue keeps memory for this number of timers.
    const SMALL: usize = 1024;

    /// Sets a timer for `lane`.
    pub(crate) fn set(&mut self, due: Moment, lane: LaneId) -> TimerKey {
        let at = self.heap.len();
        let slot = TimerSlot::Set {
            at: u32::try_from(at).expect("fewer timers than 2^32"),
            lane,
        };
        let timer = if let Some(free) = self.free {
            let was = std::mem::replace(&mut self.slots[free.index()], slot);
            if let TimerSlot::Free(next) = was {
                self.free = next;
            }
            free
        } else {
            self.slots.push(slot);
            SlabKey::at(self.slots.len() - 1)
        };
        let entry = TimerEntry {
            due,
            number: self.numbers,
            timer,
        };
        self.numbers = self.numbers.wrapping_add(1);
        self.heap.push(entry);
        self.rise(at, entry);
        TimerKey(timer)
    }

    /// Cancels a timer that is not due.
    pub(crate) fn cancel(&mut self, timer: TimerKey) {
        if let TimerSlot::Set { at, .. } = self.slots[timer.0.index()] {
            self.remove(at as usize);
        }
    }

    /// The next due time.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.heap.first().map(|first| first.due)
    }

    /// Takes the first timer that is due at `now`.
    pub(crate) fn take_due(&mut self, now: Moment) -> Option<(TimerKey, LaneId)> {
        let first = self.heap.first()?;
        if first.due > now {
            return None;
        }
        let timer = first.timer;
        let TimerSlot::Set { lane, .. } = self.slots[timer.index()] else {
            unreachable!("a timer in the heap is set");
        };
        self.remove(0);
        Some((TimerKey(timer), lane))
    }

    /// Removes the entry at `at`, and moves the last entry to its position.
    fn remove(&mut self, at: usize) {
        let gone = self.heap.swap_remove(at);
        self.slots[gone.timer.index()] = TimerSlot::Free(self.free.replace(gone.timer));
        if let Some(&moved) = self.heap.get(at) {
            self.put(at, moved);
            if self.rise(at, moved) == at {
                self.sink(at, moved);
            }
        } else if self.heap.is_empty() && self.slots.len() > Self::SMALL {
            // Frees the memory after a peak.
            *self = Self::default();
        }
    }

    /// Moves `entry` from `from` towards the root until its parent is not due later. Returns its
    /// position.
    fn rise(&mut self, from: usize, entry: TimerEntry) -> usize {
        let mut at = from;
        while at > 0 {
            let parent = (at - 1) / Self::CHILDREN;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(at, self.heap[parent]);
            at = parent;
        }
        if at != from {
            self.put(at, entry);
        }
        at
    }

    /// Moves `entry` from `from` towards the leaves until no child is due earlier.
    fn sink(&mut self, from: usize, entry: TimerEntry) {
        let mut at = from;
        loop {
            let first = at * Self::CHILDREN + 1;
            let end = (first + Self::CHILDREN).min(self.heap.len());
            let Some(soonest) = (first..end).min_by_key(|&child| self.heap[child]) else {
                break;
            };
            if entry <= self.heap[soonest] {
                break;
            }
            self.put(at, self.heap[soonest]);
            at = soonest;
        }
        if at != from {
            self.put(at, entry);
        }
    }

    fn put(&mut self, to: usize, entry: TimerEntry) {
        self.heap[to] = entry;
        if let TimerSlot::Set { at, .. } = &mut self.slots[entry.timer.index()] {
            *at = u32::try_from(to).expect("fewer timers than 2^32");
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn timers_expire_in_the_order_of_their_due_times() {
        check(
            "set 5, set 3, set 4, take 9, take 9, take 9, take 9",
            "3 4 5 -",
        );
    }

    #[test]
    fn no_timer_expires_early() {
        check("set 5, take 4, take 5, take 5", "- 5 -");
    }

    #[test]
    fn timers_with_the_same_due_time_expire_in_insertion_order() {
        let mut timers = TimerQueue::default();
        for lane in 0..3 {
            timers.set(at(7), SlabKey::at(lane));
        }
        let taken: Vec<_> = std::iter::from_fn(|| timers.take_due(at(7)))
            .map(|(_, lane)| lane.index())
            .collect();
        assert_eq!(taken, [0, 1, 2]);
    }

    #[test]
    fn cancelled_timers_never_expire() {
        check("set 5, set 3, cancel 3, take 9, take 9", "5 -");
    }

    #[test]
    fn the_remaining_timers_expire_in_order_after_any_cancellations() {
        let mut random = StdRng::seed_from_u64(7);
        let mut timers = TimerQueue::default();
        let mut set = Vec::new();
        for lane in 0..10_000 {
            let due = at(random.random_range(0..5_000));
            set.push((due, lane, timers.set(due, SlabKey::at(lane))));
            if random.random_bool(0.4) {
                let (.., gone) = set.swap_remove(random.random_range(0..set.len()));
                timers.cancel(gone);
            }
        }
        set.sort_unstable_by_key(|(due, lane, _)| (*due, *lane));
        assert_eq!(timers.heap.len(), set.len(), "cancelled timers are removed");
        for (due, lane, timer) in set {
            assert_eq!(timers.next_due(), Some(due));
            let taken = timers.take_due(due);
            assert_eq!(taken, Some((timer, SlabKey::at(lane))));
        }
        assert_eq!((timers.heap.capacity(), timers.slots.capacity()), (0, 0));
    }

    #[test]
    fn cancelling_the_last_timer_keeps_the_others() {
        let mut timers = TimerQueue::default();
        let due = |lane: usize| at(u64::try_from(lane).expect("a small number"));
        for lane in 0..TimerQueue::SMALL {
            timers.set(due(lane), SlabKey::at(lane));
        }
        let last = TimerQueue::SMALL;
        let last = timers.set(due(last), SlabKey::at(last));
        timers.cancel(last);
        for lane in 0..TimerQueue::SMALL {
            assert_eq!(timers.next_due(), Some(due(lane)));
            assert!(timers.take_due(due(lane)).is_some());
        }
    }

    #[test]
    fn a_small_queue_keeps_its_memory() {
        let small = TimerQueue::SMALL;
        for (count, kept) in [(small, true), (small + 1, false)] {
            let mut timers = TimerQueue::default();
            for lane in 0..count {
                timers.set(at(5), SlabKey::at(lane));
            }
            while timers.take_due(at(5)).is_some() {}
            assert_eq!(timers.slots.capacity() > 0, kept, "{count}");
        }
    }

    #[test]
    fn a_delay_without_end_saturates() {
        assert_eq!(at(5) + Duration::MAX, Moment::NEVER);
        assert_eq!(at(5) - at(7), Duration::ZERO);
    }

    fn at(seconds: u64) -> Moment {
        Moment::after(Duration::from_secs(seconds))
    }

    /// Runs `script` against a new queue; `expected` is the due time of each `take`.
    #[track_caller]
    fn check(script: &str, expected: &str) {
        let mut timers = TimerQueue::default();
        let mut set = Vec::new();
        let mut taken = Vec::new();
        for step in script.split(", ") {
            let (verb, seconds) = step.split_once(' ').expect("a verb and a time");
            let time = at(seconds.parse().expect("a number of seconds"));
            match verb {
                "set" => set.push((time, timers.set(time, SlabKey::at(0)))),
                "cancel" => {
                    let which = set.iter().position(|it| it.0 == time).expect("was set");
                    timers.cancel(set.remove(which).1);
                }
                _ => {
                    let next = timers.next_due();
                    taken.push(match timers.take_due(time).and(next) {
                        Some(due) => due.elapsed().as_secs().to_string(),
                        None => "-".to_owned(),
                    });
                }
            }
        }
        assert_eq!(taken.join(" "), expected, "{script}");
    }
}
