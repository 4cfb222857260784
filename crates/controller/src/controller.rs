//! `InformerController`: runs watchers and reconcilers over the events of informers.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use tokio_util::sync::CancellationToken;
use windlass_informer::{Informer, Stored};

// Configuration.
mod builder;
mod kind;
mod registration;

// Events: from the informers into the queue.
mod feed;
mod mapping;
mod permit;
mod queued;

// Calls: from the queue to the handlers.
mod clock;
mod drain;
mod engine;
mod snapshot;
mod superseded;
mod sync;
mod turn;

// Failures.
mod dead_letters;
mod exhausted;

// The tasks and their shared state.
mod finalizers;
mod run;
mod shared;

// Parts of the interface.
mod inspect;
mod level_triggered;
mod removal;

#[cfg(test)]
mod model;

pub use self::{
    builder::InformerControllerBuilder,
    dead_letters::DeadLetter,
    drain::OnStop,
    kind::{HandledAs, Kind},
    queued::Coalescing,
    registration::Registration,
};
pub(crate) use self::{
    builder::numbered,
    level_triggered::{EventFilter, LevelAdapter, OwnEvents},
    run::flatten,
    shared::Shared,
};
use self::{feed::InformerFeed, kind::KindHandle};
use crate::{
    AddError, Fence, FinalizerRegistry, HandlerId, Mapper, Reconciler, Role, RunError, Watcher,
    handler::ErasedHandler,
    work::{MapperAdapter, ReconcilerAdapter, WatcherAdapter},
};

/// Runs the watchers and reconcilers of each kind in the order in which they were added.
///
/// A [`Kind`] connects informers with handlers: each event of each informer of a kind is dispatched
/// to all handlers of the kind.
///
/// # Contract
///
/// *Guaranteed.*
/// - **In order.** The events of one object are dispatched in order, each to all watchers and then
///   to all reconcilers, in the order in which they were added. The versions that a handler gets
///   of one uid never decrease, also with several informers of a kind.
/// - **Serialized per object.** No two calls for one namespace and name overlap: events, retries,
///   requeues and resyncs. Calls for different objects run concurrently, as many as
///   [`concurrency`](InformerControllerBuilder::concurrency) says.
/// - **After sync.** No handler is called before all informers that the controller started with
///   have synced.
/// - **No delete is lost.** `Deleted` is dispatched when no informer of the kind has the object (its
///   uid) any more, and cancels all other pending calls for it. A new event does not end the retries
///   of a failed `Deleted`, unless [`DeleteRetry`](crate::DeleteRetry) says so. If more than 10,000
///   `Deleted` calls are pending in a kind, the oldest become dead letters.
/// - **Isolated.** A handler that fails, panics or exceeds the time limit is repeated by itself,
///   as the retry policy says, and affects no other handler. By default retries never end.
/// - **Bounded.** A slow handler never stops a watch. [`Coalescing`] says how the queue is bounded.
///
/// *Required.* It is run once. Handlers do not block their thread.
///
/// *Not guaranteed.* An order between different objects. That every state of an object is
/// dispatched: states that the informer did not receive, and states that were coalesced, are not.
/// That a handler which is added while the controller runs receives earlier events.
///
/// Clones share one controller.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use tokio::sync::mpsc;
/// use tokio_util::sync::CancellationToken;
/// use windlass_controller::{Failure, InformerController, Outcome, Request};
/// use windlass_informer::{Informer, Scripted};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (script, source) = Scripted::<ConfigMap>::new();
/// let (sender, mut keys) = mpsc::channel(1);
///
/// let controller = InformerController::new();
/// let configs = controller.kind::<ConfigMap>("configs")?;
/// controller.add_informer(&configs, &Informer::new(source))?;
/// controller.add_reconciler(&configs, move |request: Request<ConfigMap>| {
///     let sender = sender.clone();
///     async move {
///         sender.send(request.key().to_string()).await?;
///         Ok::<_, Failure>(Outcome::done())
///     }
/// })?;
///
/// let stop = CancellationToken::new();
/// let running = tokio::spawn({
///     let (controller, stop) = (controller.clone(), stop.clone());
///     async move { controller.run(stop).await }
/// });
/// let mut web = ConfigMap::default();
/// web.metadata.name = Some("web".into());
/// script.list([web]).await?;
/// assert_eq!(keys.recv().await.as_deref(), Some("web"));
///
/// stop.cancel();
/// running.await??;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InformerController {
    shared: Arc<Shared>,
}

// === impl InformerController ===

impl InformerController {
    /// Creates a controller with default settings. [`builder`](Self::builder) has the other
    /// settings.
    #[must_use]
    #[expect(
        clippy::missing_panics_doc,
        reason = "our own metrics have valid names"
    )]
    pub fn new() -> Self {
        (Self::builder().build()).expect("our own metrics have valid names")
    }

    /// Returns a builder.
    pub fn builder() -> InformerControllerBuilder {
        InformerControllerBuilder::new()
    }

    /// The name of the controller.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.settings.name
    }

    /// Creates a kind, whose informers store objects as `S`: a type of objects, or its
    /// [`RawObject`](windlass_informer::RawObject).
    ///
    /// The name is your choice. Logs, errors and metrics show it; it need not be that of the
    /// resource, and two kinds can have the same type.
    ///
    /// # Errors
    ///
    /// [`AddError`] if `name` is empty or the name of another kind of this controller.
    pub fn kind<S: Stored>(&self, name: &str) -> Result<Kind<S>, AddError> {
        Ok(Kind::new(self.shared.add_kind(name, false)?))
    }

    /// Creates a kind like [`kind`](Self::kind) whose resource may be missing, for example because
    /// its CRD is installed later or never.
    ///
    /// No other kind waits until its informers have synced, the
    /// [`cache_sync_timeout`](InformerControllerBuilder::cache_sync_timeout) does not apply to them,
    /// and the operator is ready without them. The handlers of the kind itself wait. A handler that
    /// reads the store of the kind must check
    /// [`Informer::health`](windlass_informer::Informer::health): an empty store does not mean that
    /// there are no objects.
    ///
    /// # Errors
    ///
    /// [`AddError`] like [`kind`](Self::kind).
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use windlass_controller::{InformerController, SameName};
    /// use windlass_informer::{Informer, Scripted};
    ///
    /// let controller = InformerController::new();
    /// let configs = controller.kind::<ConfigMap>("configs")?;
    /// controller.add_informer(&configs, &Informer::new(Scripted::new().1))?;
    /// // Configs are reconciled also on clusters without secrets.
    /// let secrets = controller.optional_kind::<Secret>("secrets")?;
    /// controller.add_informer(&secrets, &Informer::new(Scripted::new().1))?;
    /// controller.add_mapper(&secrets, &configs, SameName)?;
    /// assert!(controller.health()[1].is_optional);
    /// # Ok::<(), windlass_controller::AddError>(())
    /// ```
    pub fn optional_kind<S: Stored>(&self, name: &str) -> Result<Kind<S>, AddError> {
        Ok(Kind::new(self.shared.add_kind(name, true)?))
    }

    /// Adds `informer` to `kind`. A kind can have several informers, for example one for each of
    /// several namespaces. They may overlap: each version of an object is dispatched once.
    ///
    /// The informer runs while the controller runs, and longer if another controller or caller also
    /// runs it. An informer that is added while the controller runs starts at once, and the
    /// handlers of its kind wait until it has synced. A removed informer can be added again: then
    /// all its objects are dispatched as `Created`.
    ///
    /// # Errors
    ///
    /// [`AddError`] if this informer was already added; if `kind` belongs to another controller; if
    /// the controller has ended; or if the kind has a handler with a finalizer that another handler
    /// has for the same objects ([`FinalizerRegistry`]).
    pub fn add_informer<S: Stored>(
        &self,
        kind: &Kind<S>,
        informer: &Informer<S>,
    ) -> Result<(), AddError> {
        let feed = InformerFeed::new(informer.clone());
        self.shared.add_feed(kind.handle(), Arc::new(feed))
    }

    /// Registers `watcher` for `kind`. Watchers run in the order in which they were added, before
    /// the reconcilers.
    ///
    /// # Errors
    ///
    /// [`AddError`] if `kind` belongs to another controller; if the controller runs and the kind
    /// has no informer; if it has ended; or if another handler has the same finalizer for the same
    /// objects ([`FinalizerRegistry`]).
    pub fn add_watcher<S, T>(
        &self,
        kind: &Kind<S>,
        watcher: impl Watcher<T>,
    ) -> Result<Registration, AddError>
    where
        S: HandledAs<T>,
        T: Send + Sync + 'static,
    {
        let code = Box::new(WatcherAdapter::<T, _>::new(watcher));
        self.add(kind.handle(), Role::Watcher, code)
    }

    /// Registers `reconciler` for `kind`. Reconcilers run in the order in which they were added,
    /// after the watchers.
    ///
    /// # Errors
    ///
    /// [`AddError`] like [`add_watcher`](Self::add_watcher).
    pub fn add_reconciler<S, T>(
        &self,
        kind: &Kind<S>,
        reconciler: impl Reconciler<T>,
    ) -> Result<Registration, AddError>
    where
        S: HandledAs<T>,
        T: Send + Sync + 'static,
    {
        let code = Box::new(ReconcilerAdapter::<T, _>::new(reconciler));
        self.add(kind.handle(), Role::Reconciler, code)
    }

    /// Registers `mapper`: when an object of `kind` changes, the objects of the kind `to` that the
    /// mapper returns are dispatched to their handlers as [`Resynced`](crate::Action::Resynced).
    /// [`Mapper`] has the guarantees.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use windlass_controller::{InformerController, SameName};
    /// use windlass_informer::{Informer, Scripted};
    ///
    /// let controller = InformerController::new();
    /// let websites = controller.kind("websites")?;
    /// let secrets = controller.kind("secrets")?;
    /// controller.add_informer(&websites, &Informer::new(Scripted::<ConfigMap>::new().1))?;
    /// controller.add_informer(&secrets, &Informer::new(Scripted::<Secret>::new().1))?;
    /// controller.add_mapper(&secrets, &websites, SameName)?;
    /// # Ok::<(), windlass_controller::AddError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AddError`] if `kind` or `to` belongs to another controller, or if the controller runs and
    /// `kind` has no informer.
    pub fn add_mapper<S, T, U>(
        &self,
        kind: &Kind<S>,
        to: &Kind<U>,
        mapper: impl Mapper<T>,
    ) -> Result<Registration, AddError>
    where
        S: HandledAs<T>,
        T: Send + Sync + 'static,
    {
        let code = Box::new(MapperAdapter::<T, _>::new(mapper));
        let (kind, to) = (kind.handle(), to.handle());
        let id = self.shared.add_mapper(kind, to, code)?;
        Ok(self.registration(kind, Role::Mapper, id))
    }

    fn add(
        &self,
        kind: &KindHandle,
        role: Role,
        code: Box<dyn ErasedHandler>,
    ) -> Result<Registration, AddError> {
        let id = self.shared.add(kind, role, code)?;
        Ok(self.registration(kind, role, id))
    }

    fn registration(&self, kind: &KindHandle, role: Role, id: HandlerId) -> Registration {
        Registration::new(Arc::downgrade(&self.shared), kind.id(), role, id)
    }

    /// Runs the informers and dispatches their events to the handlers, until `stop` is cancelled.
    ///
    /// Then the informers are stopped, no other call begins (unless
    /// [`on_stop`](InformerControllerBuilder::on_stop) says so), and this waits for the active calls,
    /// without a limit. An operator limits the wait by its drain timeout. After a restart of the
    /// process all objects are dispatched again, as `Created`. A `Deleted` that has not succeeded is
    /// lost, unless a finalizer keeps the object ([`OpinionatedReconciler`](crate::OpinionatedReconciler)).
    ///
    /// # Errors
    ///
    /// [`RunError::AlreadyRan`] on a second call; [`RunError::NoInformer`] if a kind has handlers
    /// and no informer; [`RunError::NotSynced`] if a list makes no progress for the
    /// [`cache_sync_timeout`](InformerControllerBuilder::cache_sync_timeout), 2 minutes by default;
    /// [`RunError::Informer`] if an informer fails permanently. The other tasks are stopped and
    /// joined before this returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all calls in progress.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), RunError> {
        if self.shared.ran.swap(true, Ordering::AcqRel) {
            return Err(RunError::AlreadyRan);
        }
        run::run(&self.shared, stop).await
    }

    /// Registers the finalizers of the handlers in `registry`, also those of handlers and informers
    /// that are added later. Without effect if the builder was given another
    /// [registry](InformerControllerBuilder::finalizer_registry). An operator calls it.
    ///
    /// # Errors
    ///
    /// [`AddError::FinalizerTaken`] if a handler in the registry has the same finalizer on objects
    /// that both receive.
    pub fn register_finalizers(&self, registry: &FinalizerRegistry) -> Result<(), AddError> {
        self.shared.join_registry(registry)
    }

    /// Sets the fence: calls of handlers begin only while it is open, and otherwise wait.
    ///
    /// An operator with leader election calls this before it runs the controller. Only the first
    /// fence is used. A stop ends the wait of a call, because the call has not begun. It does not
    /// end the wait of an [`on_exhausted`](InformerControllerBuilder::on_exhausted) hook. So after
    /// the fence is closed permanently, drop the future of [`run`](Self::run), as the operator does.
    pub fn set_fence(&self, fence: &Fence) {
        _ = self.shared.fence.set(fence.clone());
    }
}

impl Default for InformerController {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for InformerController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerController")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
