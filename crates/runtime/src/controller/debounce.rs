//! The debounce of the calls for one object. *(pure)*

use std::time::Duration;

use tokio::time::Instant;

/// How many periods a call is delayed at most: an object that changes constantly is reconciled too.
const MOST_PERIODS: u32 = 10;

/// The precision of the timers of the runtime.
const PRECISION: Duration = Duration::from_millis(1);

/// A call that waits for a quiet period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Debounced {
    /// When it begins, if nothing else changes.
    until: Instant,
    /// When it begins at the latest.
    latest: Instant,
}

// === impl Debounced ===

impl Debounced {
    /// Decides about a call at `now`, of which `waiting` was left. Returns what to wait for, or `None`
    /// if the call begins.
    pub(super) fn next(period: Duration, waiting: Option<Self>, now: Instant) -> Option<Self> {
        if period.is_zero() || waiting.is_some_and(|it| now + PRECISION >= it.until) {
            return None;
        }
        let latest = waiting.map_or_else(
            || {
                period
                    .checked_mul(MOST_PERIODS)
                    .and_then(|longest| now.checked_add(longest))
            },
            |it| Some(it.latest),
        )?;
        let until = now.checked_add(period)?.min(latest);
        Some(Self { until, latest })
    }

    /// The wait from `now` on.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Debounced;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn without_a_period_a_call_begins_at_once() {
        assert_eq!(Debounced::next(Duration::ZERO, None, Instant::now()), None);
    }

    #[test]
    fn a_call_begins_after_a_quiet_period() {
        let now = Instant::now();
        let waiting = Debounced::next(SECOND, None, now);
        assert_eq!(waiting.expect("it waits").left(now), SECOND);
        assert_eq!(Debounced::next(SECOND, waiting, now + SECOND), None);
    }

    #[test]
    fn constant_changes_delay_a_call_by_ten_periods_at_most() {
        let begin = Instant::now();
        let (mut now, mut waiting) = (begin, None);
        loop {
            waiting = Debounced::next(SECOND, waiting, now);
            if waiting.is_none() {
                break;
            }
            now += SECOND / 2;
        }
        let delay = now - begin;
        assert!((SECOND * 9..=SECOND * 10).contains(&delay), "{delay:?}");
    }

    #[test]
    fn a_period_without_an_end_does_not_overflow() {
        assert_eq!(Debounced::next(Duration::MAX, None, Instant::now()), None);
    }
}
