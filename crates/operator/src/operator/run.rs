//! The run of one controller, and its result.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;
use windlass_controller::ErasedRunnable;
use windlass_informer::{ErrorChain, log, panic_message};

use crate::OperatorError;

/// The result of a controller.
pub(super) type Ended = Result<(), OperatorError>;

/// Runs one controller. A panic is returned as an error.
pub(super) async fn run(controller: Arc<dyn ErasedRunnable>, stop: CancellationToken) -> Ended {
    let name = controller.name().to_owned();
    log::info!(controller = %name, "controller started");
    let running = AssertUnwindSafe(controller.run(stop.clone()));
    match running.catch_unwind().await {
        Ok(Ok(())) if !stop.is_cancelled() => {
            log::error!(controller = %name, "controller ended although it was not stopped");
            Err(OperatorError::Ended { controller: name })
        }
        Ok(Ok(())) => {
            log::info!(controller = %name, "controller ended");
            Ok(())
        }
        Ok(Err(source)) => {
            log::error!(controller = %name, error = %ErrorChain::new(&*source), "controller failed");
            Err(OperatorError::Controller {
                controller: name,
                source,
            })
        }
        Err(panic) => {
            let message = panic_message(panic);
            log::error!(controller = %name, message, "controller panicked");
            Err(OperatorError::Panicked {
                controller: name,
                message,
            })
        }
    }
}
