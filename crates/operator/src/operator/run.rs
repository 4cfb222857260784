//! A type-erased controller, and the result of its run.

use std::{error::Error, panic::AssertUnwindSafe, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use prometheus::core::Collector;
use tokio_util::sync::CancellationToken;
use windlass_controller::{Controller, Fence, InformerHealth};
use windlass_informer::{ErrorChain, panic_message};

use crate::OperatorError;

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

/// The result of a controller.
pub(super) type Ended = Result<(), OperatorError>;

/// Runs one controller. A panic is returned as an error.
pub(super) async fn run(controller: Arc<dyn ErasedController>, stop: CancellationToken) -> Ended {
    let name = controller.name().to_owned();
    tracing::info!(controller = %name, "controller started");
    let ended = AssertUnwindSafe(controller.run(stop)).catch_unwind().await;
    match ended {
        Ok(Ok(())) => {
            tracing::info!(controller = %name, "controller ended");
            Ok(())
        }
        Ok(Err(source)) => {
            tracing::error!(controller = %name, error = %ErrorChain::new(&*source), "controller failed");
            Err(OperatorError::Controller {
                controller: name,
                source,
            })
        }
        Err(panic) => {
            let message = panic_message(panic);
            tracing::error!(controller = %name, message, "controller panicked");
            Err(OperatorError::Panicked {
                controller: name,
                message,
            })
        }
    }
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
