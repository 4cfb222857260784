//! `Controller`: the trait of everything that an operator runs.

use std::{error::Error, future::Future};

use prometheus::core::Collector;
use tokio_util::sync::CancellationToken;

use crate::{Fence, InformerController, InformerHealth, RunError};

/// Anything that runs until it is stopped.
///
/// An operator runs [`InformerController`]s; with this trait, anything else too.
///
/// # Contract
///
/// *Guaranteed.* It is run once, and its future is polled to its end.
///
/// *Required.* Once `stop` is cancelled it ends soon, with whatever it started ended too.
///
/// # Example
///
/// ```
/// use std::convert::Infallible;
///
/// use tokio_util::sync::CancellationToken;
/// use windlass_controller::Controller;
///
/// struct Heartbeat;
///
/// impl Controller for Heartbeat {
///     type Error = Infallible;
///
///     fn name(&self) -> &str {
///         "heartbeat"
///     }
///
///     async fn run(&self, stop: CancellationToken) -> Result<(), Infallible> {
///         stop.cancelled().await;
///         Ok(())
///     }
/// }
/// ```
pub trait Controller: Send + Sync + 'static {
    /// Why it can end before it is stopped.
    type Error: Error + Send + Sync + 'static;

    /// What it is called, in logs and errors.
    fn name(&self) -> &str;

    /// Runs until `stop` is cancelled.
    ///
    /// # Errors
    ///
    /// A permanent failure. It ends the whole operator.
    fn run(&self, stop: CancellationToken) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Takes the fence that permits its calls. Called once, before [`run`](Self::run), by an
    /// operator with leader election. By default it is ignored.
    ///
    /// A controller that wraps another one must pass it on. One of its own kind should take a
    /// [permit](Fence::permit) for each unit of work, and write through a
    /// [fenced client](Fence::client).
    fn set_fence(&self, fence: &Fence) {
        _ = fence;
    }

    /// The health of its informers, for the readiness of the process; by default
    /// there are none.
    fn health(&self) -> Vec<InformerHealth> {
        Vec::new()
    }

    /// The collectors to register in a Prometheus registry; by default none.
    fn prometheus_collectors(&self) -> Vec<Box<dyn Collector>> {
        Vec::new()
    }
}

// === impl Controller ===

impl Controller for InformerController {
    type Error = RunError;

    fn name(&self) -> &str {
        self.name()
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), RunError> {
        self.run(stop).await
    }

    fn set_fence(&self, fence: &Fence) {
        self.set_fence(fence);
    }

    fn health(&self) -> Vec<InformerHealth> {
        self.health()
    }

    fn prometheus_collectors(&self) -> Vec<Box<dyn Collector>> {
        self.prometheus_collectors()
    }
}
