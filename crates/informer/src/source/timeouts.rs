//! The timeouts of lists and watches. *(pure)*

use std::time::Duration;

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// The longest time without progress of an answer: until its head, without a byte of a
    /// list, or without an object of a streamed list. A server that works on one keeps
    /// sending.
    pub(super) answer: Duration,

    /// The longest time that one page of a list, or a streamed list, may take to arrive. The
    /// time in which the informer does not read is not counted.
    pub(super) list: Duration,

    /// The longest time without an event or bookmark of a watch.
    pub(super) silence: Duration,

    /// The longest wait that a server can ask for.
    pub(super) max_retry_after: Duration,
}

/// What is left of the time that one answer may take.
#[derive(Debug)]
pub(super) struct TimeBudget {
    answer: Duration,
    left: Duration,
}

// === impl TimeBudget ===

impl TimeBudget {
    pub(super) const fn new(timeouts: Timeouts) -> Self {
        Self {
            answer: timeouts.answer,
            left: timeouts.list,
        }
    }

    /// How long to wait for the next piece.
    pub(super) fn next(&self) -> Duration {
        self.answer.min(self.left)
    }

    /// What is left of the time for all of it.
    pub(super) const fn left(&self) -> Duration {
        self.left
    }

    /// Takes off the time that was spent waiting. Returns whether any is left.
    pub(super) fn waited(&mut self, time: Duration) -> bool {
        self.left = self.left.saturating_sub(time);
        !self.left.is_zero()
    }
}
