//! Retry policies: whether a failed call is repeated, and after how long.

use std::time::Duration;

use crate::ErrorReport;

/// Says whether a call that failed is made again, and after how long.
///
/// Every `Fn(&ErrorReport<'_>) -> Option<Duration>` is one. [`ExponentialBackoff`] has the
/// presets of other frameworks.
///
/// [`ExponentialBackoff`]: crate::ExponentialBackoff
///
/// # Contract
///
/// *Guaranteed.* It is asked once for each failure, outside of any lock. A policy that panics is
/// replaced by the default for that failure.
///
/// *Required.* That it answers at once.
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
    /// After how long to try again; none to give up.
    ///
    /// `failed` names the object, the handler, the error and the attempt; its `retry_in` is
    /// always none here. `random` is a number in `[0, 1)` from the controller's own source, so
    /// that a run with the same seed has the same delays.
    fn delay(&self, failed: &ErrorReport<'_>, random: f64) -> Option<Duration>;

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
    F: Fn(&ErrorReport<'_>) -> Option<Duration> + Send + Sync + 'static,
{
    fn delay(&self, failed: &ErrorReport<'_>, _: f64) -> Option<Duration> {
        self(failed)
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
