//! Retry policies: whether a failed call is repeated, and after how long.

use std::{num::NonZeroU32, time::Duration};

use super::RateLimited;
use crate::ErrorReport;

/// Decides whether a failed call is repeated, and after which delay.
///
/// Every `Fn(&ErrorReport<'_>) -> Option<Duration>` is a retry policy; `ErrorReport::random` is its
/// random number. [`ExponentialBackoff`] has the presets of other frameworks.
///
/// [`ExponentialBackoff`]: crate::ExponentialBackoff
///
/// # Contract
///
/// *Guaranteed.* It is called once for each failure of a watcher or reconciler that is not
/// [permanent](crate::Failure::permanent), without a lock. Not for the failure of an early call,
/// which keeps the time of the retry, and not for a finalizer that could not be written: a call
/// whose error is a [`FinalizerError`](crate::FinalizerError) is repeated with
/// [`ExponentialBackoff::DEFAULT`](crate::ExponentialBackoff::DEFAULT) for each object until it
/// succeeds, is no attempt of the handler, and never becomes a dead letter. (An
/// [`ApplyCleanup`](crate::ApplyCleanup) decides about these errors itself, in its
/// [`error_outcome`](crate::ApplyCleanup::error_outcome).) If it panics,
/// [`ExponentialBackoff::DEFAULT`](crate::ExponentialBackoff::DEFAULT) decides about that failure.
///
/// *Required.* It returns immediately.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_controller::{ErrorReport, InformerController};
///
/// let three_retries = |failed: &ErrorReport<'_>| {
///     let permanent = failed.error.downcast_ref::<std::num::ParseIntError>().is_some();
///     let system = failed.key.namespace() == Some("kube-system");
///     let delay = Duration::from_secs(if system { 1 } else { 10 });
///     // Plus up to a second, so that failures at the same time are not repeated at the same time.
///     let delay = delay + Duration::from_secs(1).mul_f64(failed.random);
///     (failed.attempt < 3 && !permanent).then_some(delay)
/// };
/// let controller = InformerController::builder().retry_policy(three_retries).build()?;
/// # drop(controller);
/// # Ok::<(), windlass_controller::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a retry policy",
    note = "use `ExponentialBackoff`, `NeverRetry`, or a closure `|failed: &ErrorReport<'_>| -> Option<Duration>`"
)]
pub trait RetryPolicy: Send + Sync + 'static {
    /// Returns the delay until the retry, or `None` for no retry.
    ///
    /// `failed` has the object, its key, the handler, the error and the attempt; its `retry_in` is
    /// `None`. `random`, which is also `failed.random`, is a number in `[0, 1)` from the controller, so that a run with the same
    /// seed has the same delays.
    fn delay(&self, failed: &ErrorReport<'_>, random: f64) -> Option<Duration>;

    /// The maximum number of retries, if it does not depend on the error. By default `None`: unknown.
    /// [`Request::last_attempt`](crate::Request::last_attempt) uses it.
    fn max_attempts(&self) -> Option<u32> {
        None
    }

    /// Limits the rate of all retries of the controller: `burst` at once, and after that
    /// `per_second` each second. [`RateLimited`] has the details.
    ///
    /// # Example
    ///
    /// client-go's default for work queues:
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use windlass_controller::{ExponentialBackoff, InformerController, RetryPolicy as _};
    ///
    /// const PER_SECOND: NonZeroU32 = NonZeroU32::new(10).unwrap();
    /// const BURST: NonZeroU32 = NonZeroU32::new(100).unwrap();
    ///
    /// let controller = InformerController::builder()
    ///     .retry_policy(ExponentialBackoff::CLIENT_GO.rate_limited(PER_SECOND, BURST))
    ///     .build()?;
    /// # drop(controller);
    /// # Ok::<(), windlass_controller::BuildError>(())
    /// ```
    fn rate_limited(self, per_second: NonZeroU32, burst: NonZeroU32) -> RateLimited<Self>
    where
        Self: Sized,
    {
        RateLimited::new(self, per_second, burst)
    }
}

/// Never retries.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverRetry;

// === impl RetryPolicy ===

impl<F> RetryPolicy for F
where
    F: Fn(&ErrorReport<'_>) -> Option<Duration> + Send + Sync + 'static,
{
    fn delay(&self, failed: &ErrorReport<'_>, _: f64) -> Option<Duration> {
        self(failed)
    }
}

impl RetryPolicy for Box<dyn RetryPolicy> {
    fn delay(&self, failed: &ErrorReport<'_>, random: f64) -> Option<Duration> {
        (**self).delay(failed, random)
    }

    fn max_attempts(&self) -> Option<u32> {
        (**self).max_attempts()
    }
}

// === impl NeverRetry ===

impl RetryPolicy for NeverRetry {
    fn delay(&self, _: &ErrorReport<'_>, _: f64) -> Option<Duration> {
        None
    }

    fn max_attempts(&self) -> Option<u32> {
        Some(0)
    }
}
