//! Retry policies: whether a failed call is repeated, and after how long.

use std::time::Duration;

use crate::HandlerError;

/// Says whether a call that failed is made again, and after how long.
///
/// Every `Fn(&HandlerError, u32) -> Option<Duration>` is one. [`ExponentialBackoff`] has the
/// presets of the systems that people come from.
///
/// [`ExponentialBackoff`]: crate::ExponentialBackoff
///
/// # Contract
///
/// *Promised.* It is asked once for each failure, outside of any lock. A policy that panics is
/// replaced by the default for that failure.
///
/// *Asked.* That it answers at once.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_controller::{HandlerError, InformerController};
///
/// let thrice = |error: &HandlerError, attempt: u32| {
///     let hopeless = error.downcast_ref::<std::num::ParseIntError>().is_some();
///     (attempt < 3 && !hopeless).then_some(Duration::from_secs(1))
/// };
/// let controller = InformerController::builder().retry_policy(thrice).build()?;
/// # drop(controller);
/// # Ok::<(), windlass_controller::BuildError>(())
/// ```
pub trait RetryPolicy: Send + Sync + 'static {
    /// After how long to try again; none to give up.
    ///
    /// `attempt` is how many calls of this request had failed before this one: 0 for the
    /// first failure. `random` is a number in `[0, 1)` from the controller's own source, so
    /// that a run with the same seed has the same delays.
    fn delay(&self, error: &HandlerError, attempt: u32, random: f64) -> Option<Duration>;

    /// How many retries it allows at most, where it knows without seeing the error. The
    /// handler of the last one is informed of that.
    fn max_attempts(&self) -> Option<u32> {
        None
    }
}

/// Gives up at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverRetry;

// === impl RetryPolicy ===

impl<F> RetryPolicy for F
where
    F: Fn(&HandlerError, u32) -> Option<Duration> + Send + Sync + 'static,
{
    fn delay(&self, error: &HandlerError, attempt: u32, _: f64) -> Option<Duration> {
        self(error, attempt)
    }
}

// === impl NeverRetry ===

impl RetryPolicy for NeverRetry {
    fn delay(&self, _: &HandlerError, _: u32, _: f64) -> Option<Duration> {
        None
    }

    fn max_attempts(&self) -> Option<u32> {
        Some(0)
    }
}
