//! `Runnable`: the trait of everything that an operator can run.

use std::{error::Error, future::Future, sync::Arc};

use prometheus::core::Collector;
use tokio_util::sync::CancellationToken;

use crate::{
    AddError, Fence, FinalizerRegistry, InformerController, InformerDiagnostics, InformerHealth,
    RunError, RunningCall,
};

/// A task of an operator, which runs until it is stopped.
///
/// An operator runs [`InformerController`]s, and other implementations of this trait. In
/// grafana-app-sdk it is called `Controller`, in controller-runtime `Runnable`.
///
/// # Contract
///
/// *Guaranteed.* It is run once, and its future is polled to the end.
///
/// *Required.* It runs until `stop` is cancelled: an earlier end, also without an error, ends the
/// operator. After `stop` is cancelled it ends soon, together with all tasks that it started.
///
/// # Example
///
/// ```
/// use std::convert::Infallible;
///
/// use tokio_util::sync::CancellationToken;
/// use windlass_controller::Runnable;
///
/// struct Heartbeat;
///
/// impl Runnable for Heartbeat {
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
#[doc(alias = "Controller")]
pub trait Runnable: Send + Sync + 'static {
    /// Why it ends without a stop.
    type Error: Error + Send + Sync + 'static;

    /// The name for logs and errors.
    fn name(&self) -> &str;

    /// Runs until `stop` is cancelled.
    ///
    /// # Errors
    ///
    /// A permanent failure. It ends the operator.
    fn run(&self, stop: CancellationToken) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Sets the fence for its calls. Called once, before [`run`](Self::run), by an operator with
    /// leader election. By default the fence is ignored.
    ///
    /// A controller that wraps another one must pass it on. Other controllers should take a
    /// [permit](Fence::permit) for each unit of work, and write through a [fenced
    /// client](Fence::client).
    fn set_fence(&self, _fence: &Fence) {}

    /// The controller that it wraps, for the defaults of the methods below.
    #[doc(hidden)]
    fn informer_controller(&self) -> Option<InformerController> {
        None
    }

    /// Registers the finalizers of its handlers in `registry`, that of the operator, and later those
    /// of handlers that are added while it runs. Called once, before [`run`](Self::run). By default
    /// registers none.
    ///
    /// A controller that wraps another one must pass it on.
    ///
    /// # Errors
    ///
    /// [`AddError::FinalizerTaken`] if a handler of another controller has the same finalizer on
    /// objects that both receive.
    fn register_finalizers(&self, registry: &FinalizerRegistry) -> Result<(), AddError> {
        let controller = self.informer_controller();
        controller.map_or(Ok(()), |it| it.register_finalizers(registry))
    }

    /// The health of its informers, for the readiness of the operator. By default none.
    fn health(&self) -> Vec<InformerHealth> {
        let controller = self.informer_controller();
        controller.map_or_else(Vec::new, |it| it.health())
    }

    /// What its informers have done so far, for the page `/debug/windlass` of the admin server. By
    /// default none. A controller that wraps another one must pass it on.
    ///
    /// Called on another thread than the runtime's.
    fn diagnostics(&self) -> Vec<InformerDiagnostics> {
        let controller = self.informer_controller();
        controller.map_or_else(Vec::new, |it| it.diagnostics())
    }

    /// The calls of its handlers that are in progress, the longest first, for the log and the health
    /// pages of an operator whose runtime is blocked. By default none.
    ///
    /// Called on another thread than the runtime's. Must not block.
    fn running_calls(&self) -> Vec<RunningCall> {
        let controller = self.informer_controller();
        controller.map_or_else(Vec::new, |it| it.running_calls())
    }

    /// The collectors for a Prometheus registry. By default none.
    fn prometheus_collectors(&self) -> Vec<Box<dyn Collector>> {
        let controller = self.informer_controller();
        controller.map_or_else(Vec::new, |it| it.prometheus_collectors())
    }
}

// === impl Runnable ===

impl Runnable for InformerController {
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

    fn informer_controller(&self) -> Option<InformerController> {
        Some(self.clone())
    }
}

/// Keeps a handle to a controller that an operator runs, for example to add a watch to it.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
///
/// use windlass_controller::{InformerController, Runnable};
///
/// /// Takes a controller, as `Operator::add_controller` does.
/// fn add(controller: impl Runnable) -> String {
///     controller.name().to_owned()
/// }
///
/// let controller = Arc::new(InformerController::builder().name("websites").build()?);
/// assert_eq!(add(Arc::clone(&controller)), "websites");
/// assert!(controller.dead_letters().is_empty());
/// # Ok::<(), windlass_controller::BuildError>(())
/// ```
impl<R: Runnable> Runnable for Arc<R> {
    type Error = R::Error;

    fn name(&self) -> &str {
        (**self).name()
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), R::Error> {
        (**self).run(stop).await
    }

    fn set_fence(&self, fence: &Fence) {
        (**self).set_fence(fence);
    }

    fn informer_controller(&self) -> Option<InformerController> {
        (**self).informer_controller()
    }

    fn register_finalizers(&self, registry: &FinalizerRegistry) -> Result<(), AddError> {
        (**self).register_finalizers(registry)
    }

    fn health(&self) -> Vec<InformerHealth> {
        (**self).health()
    }

    fn diagnostics(&self) -> Vec<InformerDiagnostics> {
        (**self).diagnostics()
    }

    fn running_calls(&self) -> Vec<RunningCall> {
        (**self).running_calls()
    }

    fn prometheus_collectors(&self) -> Vec<Box<dyn Collector>> {
        (**self).prometheus_collectors()
    }
}
