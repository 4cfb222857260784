//! A rate limit with one time for each limited thing: the generic cell rate algorithm. *(pure)*

use std::time::Duration;

/// Allows a number of calls in a period, in a burst or spread over it: a token bucket.
///
/// The state is the theoretical arrival time of the next call, which each call that begins delays by
/// an interval. It is passed as how far it is ahead of now.
///
/// Source: ITU-T I.371, the generic cell rate algorithm as a virtual scheduling algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// The time that one call takes of the period.
    pub(crate) interval: Duration,
    /// How far the arrival time may be ahead.
    tolerance: Duration,
}

// === impl Rate ===

impl Rate {
    /// `None` if a period of zero limits nothing, or no call is allowed.
    pub(crate) fn new(calls: u32, period: Duration) -> Option<Self> {
        let interval = period.checked_div(calls)?;
        (!interval.is_zero()).then_some(Self {
            interval,
            tolerance: period.saturating_sub(interval),
        })
    }

    /// A rate of one call in each `interval`, of which `burst` may begin at once.
    pub(crate) const fn with_burst(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            tolerance: interval.saturating_mul(burst.saturating_sub(1)),
        }
    }

    /// How long a call has to wait. `ahead` is how far the arrival time is ahead of now.
    pub(crate) const fn wait(self, ahead: Duration) -> Duration {
        ahead.saturating_sub(self.tolerance)
    }

    /// Returns how far the arrival time is ahead after a call, if it may begin now, and otherwise how
    /// long it has to wait.
    pub(crate) fn admit(self, ahead: Duration) -> Result<Duration, Duration> {
        match self.wait(ahead) {
            Duration::ZERO => Ok(ahead.saturating_add(self.interval)),
            wait => Err(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_one_call_for_each_interval() {
        let second = Duration::from_secs(1);
        let rate = Rate::new(3, 3 * second).expect("a rate");
        let mut ahead = Duration::ZERO;
        for _ in 0..3 {
            ahead = rate.admit(ahead).expect("within the burst");
        }
        assert_eq!(rate.admit(ahead), Err(second));
        let after = |time| ahead.saturating_sub(time);
        assert_eq!(rate.admit(after(second / 2)), Err(second / 2));
        ahead = rate.admit(after(second)).expect("one interval later");
        assert_eq!(rate.admit(ahead), Err(second));
        // After a long pause, the whole burst is allowed again.
        ahead = ahead.saturating_sub(100 * second);
        for _ in 0..3 {
            ahead = rate.admit(ahead).expect("a new burst");
        }
        assert_eq!(rate.admit(ahead), Err(second));
    }

    #[test]
    fn a_rate_without_calls_or_period_limits_nothing() {
        assert!(Rate::new(0, Duration::from_secs(1)).is_none());
        assert!(Rate::new(1, Duration::ZERO).is_none());
    }
}
