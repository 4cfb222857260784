//! `RateLimited`: limits the rate of all retries of a controller.

use std::{num::NonZeroU32, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::RetryPolicy;
use crate::{ErrorReport, gcra::Rate};

/// A retry policy that limits the rate of all retries of its controller, over all objects.
///
/// Created by [`RetryPolicy::rate_limited`]. A token bucket: it holds at most `burst` tokens, and
/// gets `per_second` tokens each second. Each retry takes one token when its call fails. Without a
/// token, the retry waits until there is one, even if the inner policy returns a shorter delay.
///
/// *Not guaranteed.* A limit on the retries of finalizers that could not be written, which have a
/// backoff of their own for each object; on delays that a handler sets with
/// [`Failure::retry_after`](crate::Failure::retry_after), which replace the delay of the policy, and
/// on requeues, which are not retries.
///
/// Source: client-go, `BucketRateLimiter` and `MaxOfRateLimiter`.
#[derive(Debug)]
#[must_use = "a policy does nothing until a controller has it"]
pub struct RateLimited<P> {
    policy: P,
    bucket: Bucket,
}

/// A token bucket, as the time at which it is full again.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    /// `None` if it was never used.
    full_at: Mutex<Option<Instant>>,
}

// === impl RateLimited ===

impl<P> RateLimited<P> {
    pub(super) fn new(policy: P, per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        Self {
            policy,
            bucket: Bucket::new(per_second, burst),
        }
    }
}

impl<P: RetryPolicy> RetryPolicy for RateLimited<P> {
    fn delay(&self, failed: &ErrorReport<'_>, random: f64) -> Option<Duration> {
        // A call that is not repeated takes no token.
        let delay = self.policy.delay(failed, random)?;
        Some(delay.max(self.bucket.take(Instant::now())))
    }

    fn max_attempts(&self) -> Option<u32> {
        self.policy.max_attempts()
    }
}

// === impl Bucket ===

impl Bucket {
    fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let interval = Duration::from_secs(1) / per_second.get();
        Self {
            rate: Rate::with_burst(interval, burst.get()),
            full_at: Mutex::new(None),
        }
    }

    /// Takes a token. Returns the time until it is there.
    fn take(&self, now: Instant) -> Duration {
        let mut full_at = self.full_at.lock();
        let at = full_at.map_or(now, |at| at.max(now));
        // Beyond the range of the clock, all further tokens arrive at its end.
        *full_at = Some(at.checked_add(self.rate.interval).unwrap_or(at));
        self.rate.wait(at.duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_retries_wait_for_nothing_and_the_next_ones_for_one_token_each() {
        check(10, 3, "0 0 0 0 0", "0 0 0 100 200");
        check(1, 1, "0 0 0", "0 1000 2000");
    }

    #[test]
    fn the_bucket_fills_up_to_its_burst() {
        check(10, 2, "0 0 100 100", "0 0 0 100");
        check(10, 2, "0 0 60000 60000 60000", "0 0 0 0 100");
    }

    #[test]
    fn no_rate_overflows() {
        let bucket = Bucket::new(NonZeroU32::MIN, NonZeroU32::MAX);
        let now = Instant::now();
        for _ in 0..1_000 {
            assert_eq!(bucket.take(now), Duration::ZERO);
        }
        check(u32::MAX, 1, "0 0", "0 0");
    }

    /// `taken` are times in milliseconds, `delays` are the milliseconds until each token is there.
    #[track_caller]
    fn check(per_second: u32, burst: u32, taken: &str, delays: &str) {
        let number = |number| NonZeroU32::new(number).expect("not zero");
        let bucket = Bucket::new(number(per_second), number(burst));
        let begin = Instant::now();
        let shown: Vec<_> = (taken.split(' '))
            .map(|at| Duration::from_millis(at.parse().expect("a number")))
            .map(|at| bucket.take(begin + at).as_millis().to_string())
            .collect();
        assert_eq!(shown.join(" "), delays);
    }
}
