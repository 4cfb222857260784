//! The content of a lease, and the durations of an election. *(pure)*

use std::time::Duration;

use jiff::Timestamp;

/// Durations of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    /// The time without a change after which another candidate can acquire the lease.
    pub(super) lease: Duration,
    /// The time without a successful renewal after which the leader stops.
    pub(super) renew: Duration,
    /// The time between two renewals, and the shortest time between two reads of a candidate.
    pub(super) retry: Duration,
}

/// The content of a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The uid of the lease. None in a record that will be written.
    pub(super) uid: Option<String>,
    /// Empty if the lease is free.
    pub(super) holder: String,
    pub(super) seconds: i32,
    pub(super) acquired: Option<Timestamp>,
    pub(super) renewed: Option<Timestamp>,
    pub(super) transitions: i32,
    /// The fields of the lease that cannot be read, as JSON. They are only compared: a change of
    /// them shows that the holder renews.
    pub(super) unreadable: String,
}

// === impl Record ===

impl Record {
    /// How long the record is valid after its last change: its own duration, or ours if it is
    /// invalid.
    pub(super) fn holds(&self, timing: Timing) -> Duration {
        match u64::try_from(self.seconds) {
            Ok(0) | Err(_) => timing.lease,
            Ok(seconds) => Duration::from_secs(seconds),
        }
    }
}

/// Truncates to microseconds, the precision of a lease.
pub(super) fn micros(wall: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(wall.as_microsecond()).unwrap_or(wall)
}

/// Rounds up to whole seconds, the precision of a lease.
pub(super) fn seconds(lease: Duration) -> i32 {
    let rest = u64::from(lease.subsec_nanos() > 0);
    let whole = lease.as_secs().saturating_add(rest);
    i32::try_from(whole).unwrap_or(i32::MAX)
}
