//! An `AsyncCompositeHandler` with faults in its calls.

use std::sync::Arc;

use kube::Resource;
use serde_json::Value;
use windlass_composite::{AsyncCompositeHandler, FinalizeResponse, SyncRequest, SyncResponse};
use windlass_controller::{Action, Failure, HandlerError};

use super::SimulatedHandler;
use crate::received::Trigger;

impl<P, H> AsyncCompositeHandler<P> for SimulatedHandler<H>
where
    P: Resource + Send + Sync + 'static,
    H: AsyncCompositeHandler<P>,
{
    async fn sync(&self, request: SyncRequest<P>) -> Result<SyncResponse, Failure> {
        let parent = Arc::clone(request.parent());
        let call = self.handler.sync(request);
        self.call_with_fault((Trigger::Level, Action::Updated), &*parent, call)
            .await
    }

    async fn finalize(&self, request: SyncRequest<P>) -> Result<FinalizeResponse, Failure> {
        let parent = Arc::clone(request.parent());
        let call = self.handler.finalize(request);
        self.call_with_fault((Trigger::Level, Action::Deleted), &*parent, call)
            .await
    }

    async fn error_status(&self, request: SyncRequest<P>, error: &HandlerError) -> Option<Value> {
        self.handler.error_status(request, error).await
    }
}
