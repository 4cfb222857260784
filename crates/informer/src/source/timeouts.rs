//! The timeouts of lists and watches, and a wait until a due time.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Timeouts of requests and responses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// The longest time without progress of a response: until its headers, without a byte of a
    /// list, or without an object of a streamed list.
    pub(super) progress: Duration,

    /// The longest time in which one page of a list, or a streamed list, may arrive. Time in which
    /// the informer does not read is not counted.
    pub(super) list: Duration,

    /// The longest time in which a watch may deliver no event or bookmark.
    pub(super) silence: Duration,

    /// The longest wait that a server can demand.
    pub(super) max_retry_after: Duration,

    /// The wait between two lists of a kind that cannot be watched.
    pub(super) poll: Duration,
}

/// The remaining time for one response.
#[derive(Debug)]
pub(super) struct TimeBudget {
    progress: Duration,
    left: Duration,
}

/// Waits until `due`; for `None` forever.
pub(crate) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

// === impl TimeBudget ===

impl TimeBudget {
    pub(super) const fn new(timeouts: Timeouts) -> Self {
        Self {
            progress: timeouts.progress,
            left: timeouts.list,
        }
    }

    /// How long to wait for the next chunk.
    pub(super) fn next(&self) -> Duration {
        self.progress.min(self.left)
    }

    /// The remaining time for the whole response.
    pub(super) const fn left(&self) -> Duration {
        self.left
    }

    /// Subtracts waiting time. Returns whether any time remains.
    pub(super) fn waited(&mut self, time: Duration) -> bool {
        self.left = self.left.saturating_sub(time);
        !self.left.is_zero()
    }
}
