//! `InformerController` as a task of an operator.

use tokio_util::sync::CancellationToken;

use super::InformerController;
use crate::{Fence, RunError, Runnable};

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
