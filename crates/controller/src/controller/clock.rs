//! The clock of the engine, which the model test replaces.

use std::sync::OnceLock;

use tokio::time::{Instant, sleep_until};

use crate::schedule::Moment;

/// The time since its first use.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    start: OnceLock<Instant>,
}

// === impl Clock ===

impl Clock {
    /// The current time.
    pub(crate) fn now(&self) -> Moment {
        let start = self.start();
        Moment::after(start.elapsed())
    }

    /// Waits until `due`.
    pub(crate) async fn until(&self, due: Moment) {
        match self.start().checked_add(due.elapsed()) {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    fn start(&self) -> Instant {
        *self.start.get_or_init(Instant::now)
    }
}
