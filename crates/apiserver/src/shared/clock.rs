//! The clock of the server, which advances with tokio's time.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A wall clock that advances with tokio's time, which tests can pause.
#[derive(Debug)]
pub(crate) struct Clock {
    wall: Timestamp,
    start: Instant,
}

// === impl Clock ===

impl Clock {
    pub(crate) fn start(wall: Timestamp) -> Self {
        Self {
            wall,
            start: Instant::now(),
        }
    }

    /// Returns the time since the server started.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = self.elapsed();
        self.wall.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}

/// A time as objects carry it: in UTC, to the second.
pub(crate) fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
