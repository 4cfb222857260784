//! A type-erased controller.

use std::{error::Error, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use prometheus::core::Collector;
use tokio_util::sync::CancellationToken;
use windlass_controller::{Fence, InformerHealth, Runnable, RunningCall};

/// A [`Runnable`] with its type erased.
pub(crate) trait ErasedController: Send + Sync {
    fn name(&self) -> &str;

    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>>;

    fn set_fence(&self, fence: &Fence);

    fn health(&self) -> Vec<InformerHealth>;

    fn running_calls(&self) -> Vec<RunningCall>;

    fn collectors(&self) -> Vec<Box<dyn Collector>>;
}

// === impl ErasedController ===

impl<C: Runnable> ErasedController for C {
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

    fn health(&self) -> Vec<InformerHealth> {
        Runnable::health(self)
    }

    fn running_calls(&self) -> Vec<RunningCall> {
        Runnable::running_calls(self)
    }

    fn collectors(&self) -> Vec<Box<dyn Collector>> {
        self.prometheus_collectors()
    }
}
