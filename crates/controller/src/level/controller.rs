//! `Controller`: reconciles the objects of one kind.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use futures::future::BoxFuture;
use kube::Client;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{ControllerBuilder, Informers, Trigger, Watch, Watchable, triggers::Target};
use crate::{EventPublisher, Fence, InformerController, RunError, Runnable};

/// Reconciles the objects of kind `K`, whenever one of them or something that affects it has
/// changed.
///
/// # Contract
///
/// *Guaranteed.*
/// - **One call at a time for each object.** Calls for different objects run concurrently.
/// - **Newest state.** Each call gets the newest object of the store, also when it repeats a failed
///   call. Any number of events during a call cause one further call.
/// - **Nothing is missed.** After the last change of a primary object, of an object of another kind
///   whose mapper returns its key for the old or the new state, or of a trigger, a call begins that
///   sees at least that state.
/// - **After sync.** No call begins before all stores of the controller are complete. A watch that is
///   added while the controller runs stops calls until its store is complete.
/// - **Clean-up.** With a [finalizer](ControllerBuilder::finalizer), the clean-up has succeeded before
///   an object disappears. An object that leaves the selector of its watch is
///   [released](ControllerBuilder::on_selector_exit) instead.
///
/// | a call ends with | the next call | result in the metrics |
/// |--|--|--|
/// | [`Outcome::done`](crate::Outcome::done) | the next event, or the longest interval | `success` |
/// | [`Outcome::requeue_after`](crate::Outcome::requeue_after), [`requeue_at`](crate::Outcome::requeue_at), [`again`](crate::Outcome::again) | after the delay at the latest; an event is earlier and drops it | `requeue_after` |
/// | [`Outcome::unfinished`](crate::Outcome::unfinished) in a clean-up | the next event; the finalizer stays | `requeue_after` |
/// | an error, a panic, the time limit | as [`failed`](super::ObjectReconciler::failed) says, by default the retry policy; never before a `Retry-After` in the error | `error` |
/// | [`Failure::conflict`](crate::Failure::conflict), or a 409 `Conflict` of the API server | after the first delay of the policy at the latest; the attempt does not count | `conflict`, logged at `INFO` |
/// | [`Failure::permanent`](crate::Failure::permanent) | the next event | `error`, and a dead letter |
/// | dropped, because of the fence or the drain timeout | the next leader or the next start | none |
///
/// *Required.* It is run once. Calls are idempotent and do not block their thread.
///
/// *Not guaranteed.* One call for each change. That the stores of two kinds are of one moment.
///
/// For a handler that needs each event, or the old state, use an [`InformerController`].
///
/// # Example
///
/// ```no_run
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
/// use windlass_controller::{Context, Controller, Failure, Outcome, Watch};
///
/// # fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut configs = Controller::<ConfigMap>::builder(client, Watch::all());
/// let deployments = configs.owns(Watch::<Deployment>::all());
/// let controller = configs.build(move |cx: Context<ConfigMap>| {
///     let owned = deployments.of(&cx).len();
///     async move {
///         println!("{} owns {owned} deployments", cx.key());
///         Ok::<_, Failure>(Outcome::done())
///     }
/// })?;
/// # drop(controller);
/// # Ok(())
/// # }
/// ```
pub struct Controller<K: Watchable> {
    pub(super) engine: InformerController,
    pub(super) primaries: Informers<K>,
    pub(super) fence: Arc<OnceLock<Fence>>,
    /// The tasks of the triggers, until the controller runs.
    pub(super) tasks: Mutex<Vec<BoxFuture<'static, ()>>>,
    /// Until the controller runs.
    pub(super) publisher: Mutex<Option<Publisher>>,
    pub(super) target: Target,
}

/// A trigger that was added to a controller. Dropping it ends the trigger, except for a
/// [`TriggerHandle`](super::TriggerHandle), which ends when it is dropped itself.
#[derive(Debug)]
#[must_use = "the trigger ends when this is dropped"]
pub struct AddedTrigger(#[expect(dead_code, reason = "held")] Option<AbortOnDropHandle<()>>);

/// The publisher of the Events of the calls.
pub(super) struct Publisher {
    pub(super) publisher: EventPublisher,
    /// Returns the client of the calls, once the fence is set.
    pub(super) client: Box<dyn FnOnce() -> Client + Send>,
}

// === impl Controller ===

impl<K: Watchable> Controller<K> {
    /// Returns a builder of a controller for the objects of `primary`. `client` is used for the lists
    /// and watches, for finalizers, and in calls.
    pub fn builder(client: Client, primary: Watch<K>) -> ControllerBuilder<K> {
        ControllerBuilder::new(client, primary)
    }

    /// The name of the controller.
    #[must_use]
    pub fn name(&self) -> &str {
        self.engine.name()
    }

    /// The informers of the primary kind, to read their stores, and to add and remove watches while
    /// the controller runs.
    #[must_use]
    pub const fn informers(&self) -> &Informers<K> {
        &self.primaries
    }

    /// Adds a cause of calls while the controller exists. It ends when the result is dropped. Call it
    /// within a tokio runtime.
    pub fn add_trigger(&self, when: impl Into<Trigger>) -> AddedTrigger {
        let task = when.into().task(self.target.clone());
        AddedTrigger(task.map(|task| AbortOnDropHandle::new(tokio::spawn(task))))
    }

    /// The engine, for its dead letters and its pending calls. Handlers and informers that are added
    /// to it directly are not part of this controller's contract.
    #[must_use]
    pub const fn engine(&self) -> &InformerController {
        &self.engine
    }

    /// Runs the controller until `stop` is cancelled, like [`InformerController::run`].
    ///
    /// # Errors
    ///
    /// [`RunError`] like [`InformerController::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all calls in progress.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), RunError> {
        let mut tasks = JoinSet::new();
        for task in std::mem::take(&mut *self.tasks.lock()) {
            tasks.spawn(task);
        }
        // Events are sent until the last call has ended. All tasks end when their set is dropped.
        let (published, mut publishers) = (CancellationToken::new(), JoinSet::new());
        if let Some(Publisher { publisher, client }) = self.publisher.lock().take() {
            let published = published.clone();
            publishers.spawn(publisher.through(client()).run(published));
        }
        let ended = self.engine.run(stop).await;
        published.cancel();
        while publishers.join_next().await.is_some() {}
        ended
    }
}

impl<K: Watchable> Runnable for Controller<K> {
    type Error = RunError;

    fn name(&self) -> &str {
        self.name()
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), RunError> {
        self.run(stop).await
    }

    fn set_fence(&self, fence: &Fence) {
        _ = self.fence.set(fence.clone());
        self.engine.set_fence(fence);
    }

    fn informer_controller(&self) -> Option<InformerController> {
        Some(self.engine.clone())
    }
}

impl<K: Watchable> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name())
            .field("objects", &self.primaries)
            .finish_non_exhaustive()
    }
}
