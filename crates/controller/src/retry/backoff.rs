//! Exponential backoff with jitter and a cap.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use windlass_informer::random_seed;

use super::RetryPolicy;
use crate::ErrorReport;

/// A retry policy with exponentially growing delays.
///
/// The delay after the failure of attempt n is `initial * factor^n`, plus or minus the jitter, and
/// never more than `cap`. It cannot overflow.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_controller::ExponentialBackoff;
///
/// let backoff = ExponentialBackoff::new(Duration::from_secs(5), 5);
/// let delays: Vec<_> = (0..7)
///     .map(|attempt| backoff.delay_after(attempt, 0.5).map(|delay| delay.as_secs()))
///     .collect();
/// assert_eq!(delays, [Some(5), Some(10), Some(20), Some(40), Some(80), None, None]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "a policy does nothing until a controller has it"]
pub struct ExponentialBackoff {
    initial: Duration,
    factor: f64,
    max_attempts: Option<u32>,
    cap: Duration,
    jitter: Jitter,
}

/// The range of the delay relative to the computed one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Jitter {
    None,
    /// Plus or minus this fraction of the delay.
    Around(f64),
    /// Uniform in the upper half.
    UpperHalf,
}

// === impl ExponentialBackoff ===

impl ExponentialBackoff {
    /// The default: retries after 1, 2, 4, … seconds, plus or minus a tenth, at most 5 minutes, without
    /// end. A failed call is repeated until it succeeds, so that an outage of any length leaves
    /// no object unprocessed.
    pub const DEFAULT: Self = Self::forever(Duration::from_secs(1))
        .cap(Duration::from_secs(300))
        .jitter(0.1);

    /// The default of grafana-app-sdk: five retries, after 5, 10, 20, 40 and 80 seconds. After longer
    /// failures an object is not processed before its next event or resync.
    ///
    /// Source: grafana-app-sdk, `operator.DefaultRetryPolicy`, without its sixth retry, which its
    /// documentation does not mention.
    pub const GRAFANA: Self = Self::new(Duration::from_secs(5), 5);

    /// The policy of consul-k8s: five retries, the first after 5 ms, each delay twice the previous
    /// one.
    ///
    /// Source: consul-k8s, `helper/controller`. Its limit on the rate of all retries is
    /// [`rate_limited`](RetryPolicy::rate_limited).
    /// [`ResourceController`](crate::ResourceController) has both.
    pub const CONSUL: Self = Self::new(Duration::from_millis(5), 5);

    /// The policy of `k8s_controller`: retries without end, after 2, 4, 8, … seconds, at most 256.
    /// Each delay is random between half of that time and all of it.
    ///
    /// Source: `k8s_controller`, the default `error_action`.
    pub const K8S_CONTROLLER: Self = Self {
        jitter: Jitter::UpperHalf,
        ..Self::forever(Duration::from_secs(2)).cap(Duration::from_secs(256))
    };

    /// The policy of roperator: retries without end, the first after 100 ms, each delay 1.5 times the
    /// previous one, plus or minus a half, at most ten minutes.
    ///
    /// Source: roperator, `runner`, its backoff.
    pub const ROPERATOR: Self = Self {
        factor: 1.5,
        jitter: Jitter::Around(0.5),
        ..Self::forever(Duration::from_millis(100)).cap(Duration::from_secs(600))
    };

    /// The policy of client-go and controller-runtime: retries without end, the first after 5 ms,
    /// each delay twice the previous one, at most 1,000 seconds.
    ///
    /// Source: client-go, `DefaultTypedControllerRateLimiter`, its part for one item.
    pub const CLIENT_GO: Self =
        Self::forever(Duration::from_millis(5)).cap(Duration::from_secs(1000));

    /// Waits `initial` after the first failure, doubles the delay after each further one, and
    /// allows exactly `max_attempts` retries.
    pub const fn new(initial: Duration, max_attempts: u32) -> Self {
        Self {
            max_attempts: Some(max_attempts),
            ..Self::forever(initial)
        }
    }

    /// Like [`new`](Self::new), without end.
    pub const fn forever(initial: Duration) -> Self {
        Self {
            initial,
            factor: 2.0,
            max_attempts: None,
            cap: Duration::MAX,
            jitter: Jitter::None,
        }
    }

    /// Limits the delay to `cap`, including the jitter.
    pub const fn cap(self, cap: Duration) -> Self {
        Self { cap, ..self }
    }

    /// Adds a jitter of plus or minus `part` of each delay, so that calls that failed at the same
    /// time are not repeated at the same time. `part` is clamped to 0..1.
    pub const fn jitter(self, part: f64) -> Self {
        Self {
            jitter: Jitter::Around(part.clamp(0.0, 1.0)),
            ..self
        }
    }
}

impl ExponentialBackoff {
    /// Returns the delay after the failure of `attempt`, which is 0 for the first call. `None` after
    /// the last attempt. `random` is in `[0, 1)` and determines the jitter.
    #[must_use]
    pub fn delay_after(&self, attempt: u32, random: f64) -> Option<Duration> {
        if self.max_attempts.is_some_and(|max| attempt >= max) {
            return None;
        }
        // 2^1024 does not fit into an `f64`, and exceeds every cap.
        let power = i32::try_from(attempt.min(1023)).unwrap_or(i32::MAX);
        let cap = self.cap.as_secs_f64();
        let delay = (self.initial.as_secs_f64() * self.factor.powi(power)).min(cap);
        let delay = match self.jitter {
            Jitter::None => delay,
            Jitter::Around(part) => delay * (1.0 + part * (2.0 * random - 1.0)),
            Jitter::UpperHalf => delay * (0.5 + random / 2.0),
        };
        Some(Duration::try_from_secs_f64(delay.min(cap)).unwrap_or(self.cap))
    }
}

impl ExponentialBackoff {
    /// Returns the delay after the failure of `attempt` with a jitter from the randomness of the
    /// process. `None` after the last attempt.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_controller::ExponentialBackoff;
    ///
    /// let delay = ExponentialBackoff::K8S_CONTROLLER.random_delay_after(0);
    /// assert!(delay.is_some_and(|it| it >= Duration::from_secs(1) && it < Duration::from_secs(2)));
    /// ```
    #[must_use]
    pub fn random_delay_after(&self, attempt: u32) -> Option<Duration> {
        let random = StdRng::seed_from_u64(random_seed()).random();
        self.delay_after(attempt, random)
    }
}

impl Default for ExponentialBackoff {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl RetryPolicy for ExponentialBackoff {
    fn delay(&self, failed: &ErrorReport<'_>, random: f64) -> Option<Duration> {
        self.delay_after(failed.attempt, random)
    }

    fn max_attempts(&self) -> Option<u32> {
        self.max_attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: GA-03, GA-106, GA-107
    #[test]
    fn the_grafana_preset_doubles_from_five_seconds_five_times() {
        check(ExponentialBackoff::GRAFANA, 0.0, "5 10 20 40 80 - -");
        assert_eq!(ExponentialBackoff::GRAFANA.max_attempts(), Some(5));
    }

    #[test]
    fn the_default_doubles_from_one_second_to_five_minutes_and_never_ends() {
        let default = ExponentialBackoff::default();
        check(default, 0.5, "1 2 4 8 16 32 64 128 256 300 300");
        check(default, 0.0, "0.9 1.8 3.6 7.2");
        assert_eq!(default.max_attempts(), None);
        for attempt in [100, u32::MAX] {
            let delay = default.delay_after(attempt, 0.99);
            assert_eq!(delay, Some(Duration::from_secs(300)));
        }
    }

    #[test]
    fn no_attempts_are_no_retries() {
        check(ExponentialBackoff::new(Duration::from_secs(1), 0), 0.0, "-");
    }

    #[test]
    fn the_cap_is_never_exceeded() {
        let backoff = ExponentialBackoff::forever(Duration::from_secs(1))
            .cap(Duration::from_secs(3))
            .jitter(1.0);
        check(backoff, 0.99, "1.98 3 3 3");
    }

    #[test]
    fn delays_never_overflow() {
        for backoff in [
            ExponentialBackoff::forever(Duration::from_secs(5)),
            ExponentialBackoff::forever(Duration::MAX).jitter(1.0),
            ExponentialBackoff::CLIENT_GO,
        ] {
            for attempt in [0, 63, 64, 1_023, 1_024, u32::MAX] {
                let delay = backoff.delay_after(attempt, 0.999);
                assert!(delay.expect("it never ends") <= backoff.cap);
            }
        }
    }

    /// Rows: KC-21, KC-22
    #[test]
    fn the_preset_of_k8s_controller_is_in_the_upper_half_of_a_power_of_two() {
        check(
            ExponentialBackoff::K8S_CONTROLLER,
            0.0,
            "1 2 4 8 16 32 64 128 128 128",
        );
        check(
            ExponentialBackoff::K8S_CONTROLLER,
            0.5,
            "1.5 3 6 12 24 48 96 192 192 192",
        );
    }

    #[test]
    fn the_preset_of_roperator_grows_by_half() {
        check(ExponentialBackoff::ROPERATOR, 0.5, "0.1 0.15 0.225");
        check(ExponentialBackoff::ROPERATOR, 0.0, "0.05 0.075");
    }

    #[test]
    fn the_preset_of_client_go_begins_with_milliseconds() {
        check(ExponentialBackoff::CLIENT_GO, 0.9, "0.005 0.01 0.02 0.04");
    }

    #[test]
    fn the_preset_of_consul_ends_after_five() {
        check(
            ExponentialBackoff::CONSUL,
            0.0,
            "0.005 0.01 0.02 0.04 0.08 -",
        );
    }

    /// `delays` are the seconds after each failure, from the first on.
    #[track_caller]
    fn check(backoff: ExponentialBackoff, random: f64, delays: &str) {
        let shown: Vec<_> = (0..)
            .zip(delays.split(' '))
            .map(|(attempt, _)| match backoff.delay_after(attempt, random) {
                Some(delay) => delay.as_secs_f64().to_string(),
                None => "-".to_owned(),
            })
            .collect();
        assert_eq!(shown.join(" "), delays, "{backoff:?}");
    }
}
