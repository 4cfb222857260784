//! An `ApplyCleanup` and a `KeyedResource` with faults in their calls.

use std::{error::Error, sync::Arc};

use kube::{Client, Resource};
use windlass_controller::{Action, ApplyCleanup, Background, Failure, KeyedResource, Outcome};
use windlass_informer::{Informer, ObjectKey};

use super::{SimulatedFailure, SimulatedHandler};
use crate::received::Trigger;

/// The error of a simulated [`ApplyCleanup`]: its own, or a planned failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulatedError<E: Error + 'static> {
    /// The call failed.
    #[error("the call failed")]
    Handler(#[source] E),

    /// The plan lets the call fail.
    #[error("a simulated failure")]
    Simulated,
}

// === impl SimulatedError ===

impl<E: Error + 'static> From<SimulatedFailure> for SimulatedError<E> {
    fn from(_: SimulatedFailure) -> Self {
        Self::Simulated
    }
}

/// With the outcomes of the wrapped one. After an error, the default of
/// [`error_outcome`](ApplyCleanup::error_outcome) decides.
impl<H: ApplyCleanup> ApplyCleanup for SimulatedHandler<H> {
    type Resource = H::Resource;
    type Error = SimulatedError<H::Error>;
    const FINALIZER_NAME: &'static str = H::FINALIZER_NAME;

    async fn apply(
        &self,
        client: Client,
        object: &Self::Resource,
    ) -> Result<Option<Outcome>, Self::Error> {
        let call = async {
            let applied = self.handler.apply(client, object).await;
            applied.map_err(SimulatedError::Handler)
        };
        self.call_with_fault((Trigger::Edge, Action::Updated), object, call)
            .await
    }

    async fn cleanup(
        &self,
        client: Client,
        object: &Self::Resource,
    ) -> Result<Option<Outcome>, Self::Error> {
        let call = async {
            let cleaned = self.handler.cleanup(client, object).await;
            cleaned.map_err(SimulatedError::Handler)
        };
        self.call_with_fault((Trigger::Edge, Action::Deleted), object, call)
            .await
    }

    fn success_outcome(&self, object: &Self::Resource) -> Outcome {
        self.handler.success_outcome(object)
    }
}

impl<H> KeyedResource for SimulatedHandler<H>
where
    H: KeyedResource<Object: Resource>,
{
    type Object = H::Object;

    fn informer(&self) -> Informer<H::Object> {
        self.handler.informer()
    }

    async fn upsert(&self, key: &ObjectKey, object: Arc<H::Object>) -> Result<(), Failure> {
        let call = self.handler.upsert(key, Arc::clone(&object));
        self.call_with_fault((Trigger::Edge, Action::Updated), &*object, call)
            .await
    }

    async fn delete(&self, key: &ObjectKey, last: Arc<H::Object>) -> Result<(), Failure> {
        let call = self.handler.delete(key, Arc::clone(&last));
        self.call_with_fault((Trigger::Edge, Action::Deleted), &*last, call)
            .await
    }

    async fn background(&self, scope: Background) {
        self.handler.background(scope).await;
    }
}
