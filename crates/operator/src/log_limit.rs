//! Limits how often a message is logged that clients can cause.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The time between two messages.
const PERIOD: Duration = Duration::from_secs(60);

/// When a message was last logged.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(Mutex<Option<Instant>>);

// === impl LogLimit ===

impl LogLimit {
    /// Whether the message is to be logged now: at most once a minute.
    pub(crate) fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|it| it.elapsed() >= PERIOD);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}
