//! A type-erased controller.

use std::{error::Error, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use prometheus::core::Collector;
use tokio_util::sync::CancellationToken;
use windlass_controller::{Controller, Fence, InformerHealth};

/// A [`Controller`] with its type erased.
pub(crate) trait ErasedController: Send + Sync {
    fn name(&self) -> &str;

    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>>;

    fn set_fence(&self, fence: &Fence);

    fn health(&self) -> Vec<InformerHealth>;

    fn collectors(&self) -> Vec<Box<dyn Collector>>;
}

// === impl ErasedController ===

impl<C: Controller> ErasedController for C {
    fn name(&self) -> &str {
        Controller::name(self)
    }

    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>> {
        async move { Controller::run(&*self, stop).await.map_err(Into::into) }.boxed()
    }

    fn set_fence(&self, fence: &Fence) {
        Controller::set_fence(self, fence);
    }

    fn health(&self) -> Vec<InformerHealth> {
        Controller::health(self)
    }

    fn collectors(&self) -> Vec<Box<dyn Collector>> {
        self.prometheus_collectors()
    }
}
