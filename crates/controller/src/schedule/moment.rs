//! Points in time without a clock. *(pure)*

use std::{
    ops::{Add, Sub},
    time::Duration,
};

/// A point in time, since the first use of the clock.
///
/// The schedule never reads a clock: the time is an argument. Eight bytes instead of the sixteen of
/// an `Instant`, because each queued event and each pending call has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

// === impl Moment ===

impl Moment {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_without_end_saturates() {
        let at = |seconds| Moment::after(Duration::from_secs(seconds));
        assert_eq!(at(5) + Duration::MAX, Moment::NEVER);
        assert_eq!(at(5) - at(7), Duration::ZERO);
    }
}
