//! The time at which a list last made progress.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

/// Written for each object of a list, so it is one atomic write.
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

    /// A list made progress now.
    pub(super) fn note(&self) {
        let elapsed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last.store(elapsed.max(1), Ordering::Relaxed);
    }

    /// When a list last made progress.
    pub(super) fn last(&self) -> Option<Instant> {
        match self.last.load(Ordering::Relaxed) {
            0 => None,
            elapsed => self.began.checked_add(Duration::from_nanos(elapsed)),
        }
    }
}
