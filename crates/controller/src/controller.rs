//! `InformerController`: informers on one side, watchers and reconcilers on the other.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use prometheus::core::Collector;
use tokio_util::sync::CancellationToken;
use windlass_informer::{Health, Informer, Stored};

// What it is to be like.
mod builder;

// From the informer into the queue.
mod feed;
mod mapping;
mod notice;
mod room;

// Out of the queue, and to the handlers.
mod clock;
mod engine;
mod known;
mod sync;
mod turn;

// What is told and kept of failures.
mod report;
mod shelf;

// The tasks, and what they share.
mod run;
mod shared;

#[cfg(test)]
mod model;

pub(crate) use self::notice::Owed;
pub use self::{
    builder::InformerControllerBuilder, notice::Delivery, report::ErrorReport, shelf::GivenUp,
};
use self::{
    builder::Settings,
    feed::{Feed, Typed},
    shared::{Fed, Shared},
};
use crate::{
    AddError, BuildError, Fence, HandlerId, Mapper, Reconciler, RunError, Watcher,
    metrics::Labelled,
    route::{By, Role},
    work::{Mapping, Reconciling, Watching},
};

/// Runs the watchers and reconcilers of each kind in the order in which they were added.
///
/// A kind is a name that ties informers to handlers: every event of every informer of a kind
/// goes to every handler of that kind, first to the watchers and then to the reconcilers.
///
/// # Contract
///
/// *Promised.* The events of one object are told in order, each once to each handler; two
/// calls for one object never overlap, whatever they are for. Objects are worked on side by
/// side, as many as [`concurrency`](InformerControllerBuilder::concurrency) says. A handler
/// that fails, panics or takes too long stops none of the others: it alone is called again, as
/// the retry policy says. Memory is bounded: while too many events wait to be told, the
/// watches wait.
///
/// *Asked.* That it is run once.
///
/// *Not promised.* Any order between objects; nothing about what happened before a handler was
/// added, if it was added while the controller runs.
///
/// Clones are the same controller.
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
/// let (tell, mut told) = mpsc::channel(1);
///
/// let controller = InformerController::new();
/// controller.add_informer("configs", &Informer::new(source))?;
/// controller.add_reconciler("configs", move |request: Request<ConfigMap>| {
///     let tell = tell.clone();
///     async move {
///         tell.send(request.key().to_string()).await?;
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
/// assert_eq!(told.recv().await.as_deref(), Some("web"));
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

/// How one informer of a controller is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerHealth {
    /// The name of the kind.
    pub kind: Arc<str>,
    /// How its watch is.
    pub watch: Health,
    /// Whether everything that was there at the start has been queued for the handlers.
    pub has_synced: bool,
}

// === impl InformerController ===

impl InformerController {
    /// Creates a controller with its defaults; [`builder`](Self::builder) sets more.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "our own metrics have good names")]
    pub fn new() -> Self {
        (Self::builder().build()).expect("our own metrics have good names")
    }

    /// Begins a controller.
    pub fn builder() -> InformerControllerBuilder {
        InformerControllerBuilder::new()
    }

    fn from_settings(settings: Settings) -> Result<Self, BuildError> {
        let shared = Arc::new(Shared::new(settings)?);
        Ok(Self { shared })
    }

    /// What the controller is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.settings.name
    }

    /// Feeds the kind called `kind` with what `informer` tells. A kind can have several: one
    /// for each of some namespaces, or for each of some labels.
    ///
    /// The controller runs the informer, unless somebody else does. While the controller runs,
    /// an informer that is added begins at once.
    ///
    /// # Errors
    ///
    /// [`AddError`] if this informer is added already, or `kind` is empty or the name of a
    /// kind of another type.
    pub fn add_informer<K>(&self, kind: &str, informer: &Informer<K>) -> Result<(), AddError>
    where
        K: Stored,
    {
        let id = self.shared.kind::<K>(kind, By::Informer)?;
        let mut feeds = self.shared.feeds.write();
        if let Some(fed) = (feeds.iter()).find(|fed| fed.feed.informer() == informer.id()) {
            let kind = self.shared.route.read().name(fed.kind).to_string();
            return Err(AddError::InformerAlreadyAdded { kind });
        }
        let feed = Typed::new(informer.clone());
        feed.instrument(&self.shared.informer_metrics, kind);
        feeds.push(Fed {
            kind: id,
            feed: Arc::new(feed),
            stop: CancellationToken::new(),
            started: false,
        });
        drop(feeds);
        self.shared.fed.notify_one();
        Ok(())
    }

    /// Has `watcher` told of the objects of the kind called `kind`, after the watchers that
    /// were added before.
    ///
    /// # Errors
    ///
    /// [`AddError`] if `kind` is empty or the name of a kind of another type.
    pub fn add_watcher<K>(
        &self,
        kind: &str,
        watcher: impl Watcher<K>,
    ) -> Result<HandlerId, AddError>
    where
        K: Stored,
    {
        let code = Box::new(Watching::<K, _>::new(watcher));
        self.shared.add::<K>(kind, Role::Watcher, code)
    }

    /// Has `reconciler` reconcile the objects of the kind called `kind`, after all watchers
    /// and after the reconcilers that were added before.
    ///
    /// # Errors
    ///
    /// [`AddError`] if `kind` is empty or the name of a kind of another type.
    pub fn add_reconciler<K>(
        &self,
        kind: &str,
        reconciler: impl Reconciler<K>,
    ) -> Result<HandlerId, AddError>
    where
        K: Stored,
    {
        let code = Box::new(Reconciling::<K, _>::new(reconciler));
        self.shared.add::<K>(kind, Role::Reconciler, code)
    }

    /// Has the objects of the kind called `to` told again to their handlers, as
    /// [`Resynced`](crate::Action::Resynced), that `mapper` names when an object of the kind
    /// called `kind` changes. [`Mapper`] says what is promised.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use windlass_controller::{InformerController, SameName};
    /// use windlass_informer::{Informer, Scripted};
    ///
    /// let (websites, secrets) = (Scripted::<ConfigMap>::new().1, Scripted::<Secret>::new().1);
    /// let controller = InformerController::new();
    /// controller.add_informer("websites", &Informer::new(websites))?;
    /// controller.add_informer("secrets", &Informer::new(secrets))?;
    /// controller.add_mapper::<Secret>("secrets", "websites", SameName)?;
    /// # Ok::<(), windlass_controller::AddError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AddError`] if there is no kind called `to`, or `kind` is empty or the name of a kind of
    /// another type.
    pub fn add_mapper<K>(
        &self,
        kind: &str,
        to: &str,
        mapper: impl Mapper<K>,
    ) -> Result<HandlerId, AddError>
    where
        K: Stored,
    {
        let code = Box::new(Mapping::<K, _>::new(mapper));
        self.shared.add_mapper::<K>(kind, to, code)
    }

    /// Runs all informers, and tells their events to the handlers, until `stop` is cancelled.
    ///
    /// Then the informers are stopped, calls in progress end, no other begins, and all tasks
    /// are joined. What was not told by then is told again after a restart, as an add.
    ///
    /// # Errors
    ///
    /// [`RunError::AlreadyRan`] on a second call, and [`RunError::Informer`] if an informer
    /// meets what no waiting mends; then everything else is stopped and joined first.
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

    /// Lets no call of a handler begin while `fence` is closed: calls wait until it is open.
    ///
    /// An operator with leader election calls this before it runs the controller. The first fence
    /// stays; later ones are ignored. A stop does not end a call that waits for the fence: code that
    /// closes it for good drops the future of [`run`](Self::run), as the operator does.
    pub fn set_fence(&self, fence: &Fence) {
        _ = self.shared.fence.set(fence.clone());
    }

    /// Whether everything that was there at the start has been queued for the handlers.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        (self.shared.feeds.read().iter()).all(|fed| fed.feed.has_synced())
    }

    /// How each informer is, in the order in which they were added.
    #[must_use]
    pub fn health(&self) -> Vec<InformerHealth> {
        let feeds = self.shared.feeds.read();
        let health = feeds.iter().map(|fed| InformerHealth {
            kind: self.shared.route.read().name(fed.kind),
            watch: fed.feed.health(),
            has_synced: fed.feed.has_synced(),
        });
        health.collect()
    }

    /// How many calls are to be made again at a later time.
    #[must_use]
    pub fn pending_retries(&self) -> usize {
        self.shared.engine.pending()
    }

    /// The calls that were given up, oldest first: the last thousand of them.
    #[must_use]
    pub fn given_up(&self) -> Vec<GivenUp> {
        self.shared.shelf.lock().all()
    }

    /// Makes a call again that was given up, as if for the first time. Returns whether it was
    /// still there.
    #[expect(clippy::must_use_candidate, reason = "one does it for the effect")]
    pub fn redrive(&self, call: &GivenUp) -> bool {
        self.shared.redrive(call.number)
    }

    /// The collectors of the controller and its informers, to be registered in a registry.
    /// All metrics have the label `controller` with the controller's name.
    #[must_use]
    pub fn prometheus_collectors(&self) -> Vec<Box<dyn Collector>> {
        let Shared {
            metrics,
            informer_metrics,
            ..
        } = &*self.shared;
        let collectors = metrics.collectors().into_iter();
        let collectors = collectors.chain(informer_metrics.collectors());
        let labelled = collectors.filter_map(|collector| {
            let shared = Arc::downgrade(&self.shared);
            let refresh = move || {
                if let Some(shared) = shared.upgrade() {
                    let engine = &shared.engine;
                    shared.metrics.queue(engine.depth(), engine.pending());
                    shared.kinds.read().iter().for_each(|kind| kind.show());
                }
            };
            match Labelled::new(collector, "controller", self.name(), refresh) {
                Ok(labelled) => Some(Box::new(labelled) as Box<dyn Collector>),
                Err(error) => {
                    let controller = self.name();
                    tracing::error!(controller, %error, "collector dropped: cannot label it");
                    None
                }
            }
        });
        labelled.collect()
    }
}

#[expect(clippy::must_use_candidate, reason = "one removes for the effect")]
impl InformerController {
    /// Stops `informer`, and is fed by it no more. Returns whether it was there. What it told
    /// before is still told to the handlers.
    pub fn remove_informer<K>(&self, informer: &Informer<K>) -> bool
    where
        K: Stored,
    {
        let mut feeds = self.shared.feeds.write();
        let at = (feeds.iter()).position(|fed| fed.feed.informer() == informer.id());
        at.map(|at| feeds.remove(at).stop.cancel()).is_some()
    }

    /// Removes a watcher of the kind called `kind`, with whatever it is owed. Returns whether
    /// it was there. A call in progress ends; none begins.
    pub fn remove_watcher(&self, kind: &str, watcher: HandlerId) -> bool {
        self.shared.remove(kind, Role::Watcher, Some(watcher)) > 0
    }

    /// Removes a reconciler of the kind called `kind`, with whatever it is owed. Returns
    /// whether it was there. A call in progress ends; none begins.
    pub fn remove_reconciler(&self, kind: &str, reconciler: HandlerId) -> bool {
        self.shared.remove(kind, Role::Reconciler, Some(reconciler)) > 0
    }

    /// Removes a mapper of the kind called `kind`. Returns whether it was there. Whom it has
    /// named is still told.
    pub fn remove_mapper(&self, kind: &str, mapper: HandlerId) -> bool {
        self.shared.remove_mappers(kind, Some(mapper)) > 0
    }

    /// Removes all mappers of the kind called `kind`. Returns how many those were.
    pub fn remove_all_mappers(&self, kind: &str) -> usize {
        self.shared.remove_mappers(kind, None)
    }

    /// Removes all watchers of the kind called `kind`. Returns how many those were.
    pub fn remove_all_watchers(&self, kind: &str) -> usize {
        self.shared.remove(kind, Role::Watcher, None)
    }

    /// Removes all reconcilers of the kind called `kind`. Returns how many those were.
    pub fn remove_all_reconcilers(&self, kind: &str) -> usize {
        self.shared.remove(kind, Role::Reconciler, None)
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
