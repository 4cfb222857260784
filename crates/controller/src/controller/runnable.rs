//! `InformerController` as a task of an operator.

use prometheus::core::Collector;
use tokio_util::sync::CancellationToken;

use super::InformerController;
use crate::{
    AddError, Fence, FinalizerRegistry, InformerDiagnostics, InformerHealth, RunError, Runnable,
    RunningCall,
};

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

    fn register_finalizers(&self, registry: &FinalizerRegistry) -> Result<(), AddError> {
        self.register_finalizers(registry)
    }

    fn health(&self) -> Vec<InformerHealth> {
        self.health()
    }

    fn diagnostics(&self) -> Vec<InformerDiagnostics> {
        self.diagnostics()
    }

    fn running_calls(&self) -> Vec<RunningCall> {
        self.running_calls()
    }

    fn prometheus_collectors(&self) -> Vec<Box<dyn Collector>> {
        self.prometheus_collectors()
    }
}
