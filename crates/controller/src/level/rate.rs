//! A rate limit for each object: the generic cell rate algorithm, with one number each. *(pure)*

use std::time::Duration;

/// Allows a number of calls in a period, in a burst or spread over it.
///
/// Source: ITU-T I.371, the generic cell rate algorithm as a virtual scheduling algorithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// The time that one call takes of the period.
    interval: Duration,
    /// How far the arrival time may be ahead.
    tolerance: Duration,
}

// === impl Rate ===

impl Rate {
    /// `None` if a period of zero limits nothing, or no call is allowed.
    pub(super) fn new(calls: u32, period: Duration) -> Option<Self> {
        let interval = period.checked_div(calls)?;
        (!interval.is_zero()).then_some(Self {
            interval,
            tolerance: period.saturating_sub(interval),
        })
    }

    /// Returns the next theoretical arrival time if a call may begin at `now`, and otherwise how long
    /// it has to wait.
    pub(super) fn admit(self, arrival: Duration, now: Duration) -> Result<Duration, Duration> {
        let arrival = arrival.max(now);
        let ahead = arrival.saturating_sub(now);
        if ahead > self.tolerance {
            return Err(ahead.saturating_sub(self.tolerance));
        }
        Ok(arrival.saturating_add(self.interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_one_call_for_each_interval() {
        let second = Duration::from_secs(1);
        let rate = Rate::new(3, 3 * second).expect("a rate");
        let mut arrival = Duration::ZERO;
        for _ in 0..3 {
            arrival = rate
                .admit(arrival, Duration::ZERO)
                .expect("within the burst");
        }
        assert_eq!(rate.admit(arrival, Duration::ZERO), Err(second));
        assert_eq!(rate.admit(arrival, second / 2), Err(second / 2));
        arrival = rate.admit(arrival, second).expect("one interval later");
        assert_eq!(rate.admit(arrival, second), Err(second));
        // After a long pause, the whole burst is allowed again.
        for _ in 0..3 {
            arrival = rate.admit(arrival, 100 * second).expect("a new burst");
        }
        assert_eq!(rate.admit(arrival, 100 * second), Err(second));
    }

    #[test]
    fn a_rate_without_calls_or_period_limits_nothing() {
        assert!(Rate::new(0, Duration::from_secs(1)).is_none());
        assert!(Rate::new(1, Duration::ZERO).is_none());
    }
}
