//! The time at which a list last made progress.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

/// The time of the last progress. One atomic write for each object of a list.
pub(super) struct ListProgress {
    began: Instant,
    /// Nanoseconds since then; 0 for none.
    last: AtomicU64,
}

// === impl ListProgress ===

impl ListProgress {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    /// Notes that a list makes progress now.
    pub(super) fn note(&self) {
        let elapsed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last.store(elapsed.max(1), Ordering::Relaxed);
    }

    /// The time at which a list last made progress.
    pub(super) fn last(&self) -> Option<Instant> {
        match self.last.load(Ordering::Relaxed) {
            0 => None,
            elapsed => self.began.checked_add(Duration::from_nanos(elapsed)),
        }
    }
}
