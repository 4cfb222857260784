//! A controller, whatever its type, and how it ends.

use std::{
    any::Any,
    error::Error,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures::{FutureExt as _, future::BoxFuture};
use prometheus::core::Collector;
use tokio_util::sync::CancellationToken;
use windlass_controller::{Controller, InformerHealth};

use crate::OperatorError;

/// A [`Controller`] of whatever type.
pub(crate) trait Run: Send + Sync {
    fn name(&self) -> &str;

    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>>;

    /// How its informers are, or how it panicked when it was asked.
    fn health(&self) -> Result<Vec<InformerHealth>, String>;

    fn collectors(&self) -> Vec<Box<dyn Collector>>;
}

/// How a controller ended.
pub(super) type Ended = Result<(), OperatorError>;

/// Runs one controller; whatever it does comes back as a value.
pub(super) async fn run(controller: Arc<dyn Run>, stop: CancellationToken) -> Ended {
    let name = controller.name().to_owned();
    tracing::info!(controller = %name, "starting");
    let ended = AssertUnwindSafe(controller.run(stop)).catch_unwind().await;
    match ended {
        Ok(Ok(())) => {
            tracing::info!(controller = %name, "ended");
            Ok(())
        }
        Ok(Err(source)) => {
            tracing::error!(controller = %name, error = %source, "cannot go on");
            Err(OperatorError::Controller {
                controller: name,
                source,
            })
        }
        Err(panic) => {
            let message = message(&*panic);
            tracing::error!(controller = %name, message, "panicked");
            Err(OperatorError::Panicked {
                controller: name,
                message,
            })
        }
    }
}

/// The beginning of a panic's message.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let message = (panic.downcast_ref::<&str>().copied())
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message");
    message.chars().take(256).collect()
}

// === impl Run ===

impl<C: Controller> Run for C {
    fn name(&self) -> &str {
        Controller::name(self)
    }

    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>> {
        async move { Controller::run(&*self, stop).await.map_err(Into::into) }.boxed()
    }

    fn health(&self) -> Result<Vec<InformerHealth>, String> {
        let health = catch_unwind(AssertUnwindSafe(|| Controller::health(self)));
        health.map_err(|panic| message(&*panic))
    }

    fn collectors(&self) -> Vec<Box<dyn Collector>> {
        self.prometheus_collectors()
    }
}
