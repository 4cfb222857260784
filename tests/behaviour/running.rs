//! A controller that runs until the end of a test.

use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass::{InformerController, controller::RunError};

/// A controller that runs.
pub(crate) struct Running {
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<(), RunError>>,
}

// === impl Running ===

impl Running {
    pub(crate) fn start(controller: &InformerController) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (controller, stop) = (controller.clone(), stop.clone());
            async move { controller.run(stop).await }
        });
        Self {
            stop,
            task: AbortOnDropHandle::new(task),
        }
    }

    pub(crate) async fn stop(self) -> Result<(), RunError> {
        self.stop.cancel();
        self.task.await.expect("no panic")
    }
}
