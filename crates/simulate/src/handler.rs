//! A wrapper of a handler that injects faults into its calls.

use std::{
    fmt::{self, Debug},
    future::Future,
    sync::Arc,
    time::Duration,
};

use futures::TryFutureExt as _;
use kube::Resource;
use tokio::time::sleep;
use windlass_controller::{
    Action, Context, Failure, FinalizerHook, HandlerError, ObjectReconciler, Outcome, Predicate,
    Reconciler, Request, Retry, Watchable, Watcher,
};

mod composite;
mod models;

pub use self::models::SimulatedError;

use crate::{
    Fault,
    fault::StepKind,
    oracle,
    process::ObservedInformers,
    received::Trigger,
    world::{Origin, World},
};

/// The delay of a slow call.
const SLOW: Duration = Duration::from_secs(30);

/// The delay of a hanging call.
const HANGS: Duration = Duration::from_secs(600);

/// A wrapper of a watcher, a reconciler, the reconciler of a `Controller`, an `ApplyCleanup`, a
/// `KeyedResource` or an `AsyncCompositeHandler` that injects faults into its calls. Created by
/// [`Process::handler`](crate::Process::handler).
#[derive(Clone)]
pub struct SimulatedHandler<H> {
    world: Arc<World>,
    origin: Origin,
    informers: ObservedInformers,
    name: String,
    handler: H,
}

/// A planned failure of a call.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a simulated failure")]
struct SimulatedFailure;

// === impl SimulatedHandler ===

impl<H> SimulatedHandler<H> {
    pub(crate) fn new(
        world: Arc<World>,
        origin: Origin,
        informers: ObservedInformers,
        name: &str,
        handler: H,
    ) -> Self {
        Self {
            world,
            origin,
            informers,
            name: name.to_owned(),
            handler,
        }
    }

    /// Makes one call, with the fault that the plan has for it.
    async fn call_with_fault<K, T, E>(
        &self,
        cause: (Trigger, Action),
        object: &K,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E>
    where
        K: Resource,
        E: Debug + From<SimulatedFailure>,
    {
        let Self {
            world,
            origin,
            informers,
            name,
            ..
        } = self;
        world.halt_if_crashed(*origin).await;
        let meta = object.meta();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let key = format!("{namespace}/{}", meta.name.as_deref().unwrap_or_default());
        let version = meta.resource_version.as_deref().unwrap_or("-");
        if let Some(resource) = informers.not_synced() {
            let text = format!("{name} was called for {key} before {resource} was listed");
            world.report_violation(oracle::SYNCED, text);
        }
        // The same handler can be used for several kinds.
        let kind = std::any::type_name::<K>().rsplit("::").next();
        let object = format!("{} {key}", kind.unwrap_or_default().trim_end_matches('>'));
        let _call = world.call(*origin, name, cause, &object, meta);
        let text = format!("{name} {:?} {key} version {version}", cause.1);
        let fault = world.step(*origin, StepKind::Call, &text, Some(&key));
        match fault {
            Some(Fault::CrashBefore) => world.crash(*origin),
            // Without the panic hook: the panic is planned and should not be printed.
            Some(Fault::HandlerPanics) => std::panic::resume_unwind(Box::new("a simulated panic")),
            Some(Fault::HandlerSlow) => sleep(SLOW).await,
            Some(Fault::HandlerHangs) => sleep(HANGS).await,
            Some(Fault::Freeze) => world.freeze().await,
            _ => {}
        }
        world.halt_if_crashed(*origin).await;
        let result = call.await;
        let text = match &result {
            Ok(_) => format!("   {name} {key}: done"),
            Err(error) => format!("   {name} {key}: {error:?}"),
        };
        world.log(Some(*origin), &text);
        if result.is_err() {
            world.record_failure();
        }
        match fault {
            Some(Fault::CrashAfter) => world.crash(*origin),
            Some(Fault::HandlerFails) => return Err(SimulatedFailure.into()),
            _ => {}
        }
        world.halt_if_crashed(*origin).await;
        result
    }
}

impl<K, H> Watcher<K> for SimulatedHandler<H>
where
    K: Resource + Send + Sync + 'static,
    H: Watcher<K>,
{
    type Error = Failure;

    async fn add(&self, object: Arc<K>) -> Result<(), Failure> {
        let call = self.handler.add(Arc::clone(&object)).map_err(Into::into);
        self.call_with_fault((Trigger::Edge, Action::Created), &*object, call)
            .await
    }

    async fn update(&self, old: Arc<K>, new: Arc<K>) -> Result<(), Failure> {
        let call = self
            .handler
            .update(old, Arc::clone(&new))
            .map_err(Into::into);
        self.call_with_fault((Trigger::Edge, Action::Updated), &*new, call)
            .await
    }

    async fn delete(&self, last: Arc<K>) -> Result<(), Failure> {
        let call = self.handler.delete(Arc::clone(&last)).map_err(Into::into);
        self.call_with_fault((Trigger::Edge, Action::Deleted), &*last, call)
            .await
    }

    async fn resync(&self, object: Arc<K>) -> Result<(), Failure> {
        let call = self.handler.resync(Arc::clone(&object)).map_err(Into::into);
        self.call_with_fault((Trigger::Edge, Action::Resynced), &*object, call)
            .await
    }

    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        self.handler.predicates()
    }

    fn finalizer(&self) -> Option<FinalizerHook<'_, K>> {
        self.handler.finalizer()
    }
}

impl<K, H> Reconciler<K> for SimulatedHandler<H>
where
    K: Resource + Send + Sync + 'static,
    H: Reconciler<K>,
{
    type Error = Failure;

    async fn reconcile(&self, request: Request<K>) -> Result<Outcome, Failure> {
        let (action, object) = (request.action(), Arc::clone(request.object()));
        let call = self.handler.reconcile(request).map_err(Into::into);
        self.call_with_fault((Trigger::Edge, action), &*object, call)
            .await
    }

    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        self.handler.predicates()
    }

    fn finalizer(&self) -> Option<FinalizerHook<'_, K>> {
        self.handler.finalizer()
    }
}

impl<K, H> ObjectReconciler<K> for SimulatedHandler<H>
where
    K: Watchable,
    H: ObjectReconciler<K>,
{
    type Error = Failure;

    async fn reconcile(&self, cx: Context<K>) -> Result<Outcome, Failure> {
        let object = Arc::clone(cx.object());
        let call = self.handler.reconcile(cx).map_err(Into::into);
        self.call_with_fault((Trigger::Level, Action::Updated), &*object, call)
            .await
    }

    async fn cleanup(&self, cx: Context<K>) -> Result<Outcome, Failure> {
        let object = Arc::clone(cx.object());
        let call = self.handler.cleanup(cx).map_err(Into::into);
        self.call_with_fault((Trigger::Level, Action::Deleted), &*object, call)
            .await
    }

    async fn failed(&self, cx: &Context<K>, error: &HandlerError) -> Retry {
        self.handler.failed(cx, error).await
    }

    fn needs_finalizer(&self, object: &K) -> bool {
        self.handler.needs_finalizer(object)
    }
}

impl<H> fmt::Debug for SimulatedHandler<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedHandler")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
