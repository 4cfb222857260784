//! The server's clock: the wall clock at the start, moved by the runtime's time.

use jiff::Timestamp;
use tokio::time::Instant;

/// The wall clock at the start, moved by the runtime's time, which tests can pause.
#[derive(Debug)]
pub(super) struct Clock {
    wall: Timestamp,
    start: Instant,
}

// === impl Clock ===

impl Clock {
    pub(super) fn start() -> Self {
        Self {
            wall: Timestamp::now(),
            start: Instant::now(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        let elapsed = self.start.elapsed();
        self.wall.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}

/// A time as objects carry it: in UTC, to the second.
pub(super) fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
