//! Debounce with a longest wait. *(pure)*

use std::time::Duration;

/// Delays a call until no event came for a time, at most until the longest wait after the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Debounce {
    quiet: Duration,
    longest: Duration,
}

// === impl Debounce ===

impl Debounce {
    /// `None` if there is nothing to wait for.
    pub(super) fn new(quiet: Duration, longest: Duration) -> Option<Self> {
        let longest = longest.max(quiet);
        (!quiet.is_zero()).then_some(Self { quiet, longest })
    }

    /// How long the call still waits, if the first and the last event came at these times.
    pub(super) fn wait(self, first: Duration, last: Duration, now: Duration) -> Option<Duration> {
        let quiet = last.saturating_add(self.quiet);
        let due = quiet.min(first.saturating_add(self.longest));
        (due > now).then(|| due.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_for_a_quiet_time_and_not_longer_than_the_longest_wait() {
        for (first, last, now, wait) in [
            (0, 0, 0, Some(500)),
            (0, 0, 499, Some(1)),
            (0, 0, 500, None),
            // Events every 400 ms: the longest wait ends it.
            (0, 400, 400, Some(500)),
            (0, 1600, 1600, Some(400)),
            (0, 2000, 2000, None),
        ] {
            let ms = Duration::from_millis;
            let debounce = Debounce::new(ms(500), ms(2000)).expect("a time");
            let found = debounce.wait(ms(first), ms(last), ms(now));
            assert_eq!(found, wait.map(ms), "{first} {last} {now}");
        }
    }

    #[test]
    fn the_longest_wait_is_not_shorter_than_the_quiet_time() {
        let second = Duration::from_secs(1);
        let debounce = Debounce::new(second, Duration::ZERO).expect("a time");
        assert_eq!(
            debounce.wait(Duration::ZERO, Duration::ZERO, Duration::ZERO),
            Some(second)
        );
        assert!(Debounce::new(Duration::ZERO, second).is_none());
    }
}
