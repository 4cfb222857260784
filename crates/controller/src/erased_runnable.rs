//! A type-erased [`Runnable`].

use std::{error::Error, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use prometheus::core::Collector;
use tokio_util::sync::CancellationToken;

use crate::{
    AddError, Fence, FinalizerRegistry, InformerDiagnostics, InformerHealth, Runnable, RunningCall,
};

/// A [`Runnable`] with its type erased.
pub trait ErasedRunnable: Send + Sync {
    /// The name for logs and errors.
    fn name(&self) -> &str;

    /// Runs until `stop` is cancelled.
    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>>;

    /// Sets the fence for its calls.
    fn set_fence(&self, fence: &Fence);

    /// Registers the finalizers of its handlers.
    ///
    /// # Errors
    ///
    /// If another controller has registered one of them in the same scope.
    fn register_finalizers(&self, registry: &FinalizerRegistry) -> Result<(), AddError>;

    /// The health of its informers.
    fn health(&self) -> Vec<InformerHealth>;

    /// What its informers have done so far.
    fn diagnostics(&self) -> Vec<InformerDiagnostics>;

    /// The calls of its handlers that are in progress.
    fn running_calls(&self) -> Vec<RunningCall>;

    /// The collectors for a Prometheus registry.
    fn collectors(&self) -> Vec<Box<dyn Collector>>;
}

// === impl ErasedRunnable ===

impl<C: Runnable> ErasedRunnable for C {
    fn name(&self) -> &str {
        Runnable::name(self)
    }

    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>> {
        async move { Runnable::run(&*self, stop).await.map_err(Into::into) }.boxed()
    }

    fn set_fence(&self, fence: &Fence) {
        Runnable::set_fence(self, fence);
    }

    fn register_finalizers(&self, registry: &FinalizerRegistry) -> Result<(), AddError> {
        Runnable::register_finalizers(self, registry)
    }

    fn health(&self) -> Vec<InformerHealth> {
        Runnable::health(self)
    }

    fn diagnostics(&self) -> Vec<InformerDiagnostics> {
        Runnable::diagnostics(self)
    }

    fn running_calls(&self) -> Vec<RunningCall> {
        Runnable::running_calls(self)
    }

    fn collectors(&self) -> Vec<Box<dyn Collector>> {
        self.prometheus_collectors()
    }
}
