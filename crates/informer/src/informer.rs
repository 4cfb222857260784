//! An informer: one source, one store, and its subscriptions.

mod builder;
mod error;
mod progress;
mod resync;
mod run;
mod shared_run;
mod sync;
mod users;

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Mutex, Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

pub use self::{
    builder::InformerBuilder,
    error::{InformerError, SyncError},
    users::{InformerUser, SharedInformerError},
};
use self::{
    builder::Settings,
    progress::ListProgress,
    run::Ingest,
    shared_run::{RunCaller, SharedRun},
    users::Users,
};
use crate::{
    Health, InformerMetrics, Source, Store, Stored, Subscription,
    health::{HealthState, InformerStatus},
    metrics::Instruments,
    subscription::NewSubscribers,
};

/// Keeps a live copy of the objects of a kind, and delivers what happens to them.
///
/// # Contract
///
/// *Guaranteed.* What [`Event`](crate::Event) and [`Store`] guarantee. A watch that breaks is
/// reported, shown by [`health`](Self::health), and resumed with a backoff.
///
/// An informer can be shared. It runs while at least one call of [`run`](Self::run) is under
/// way, and it can be run again after it has stopped.
///
/// *Required.* Take the events of each [`Subscription`]: they are bounded, and while one is full
/// the watch waits, for all of them.
///
/// *Not guaranteed.* That anything happens before [`run`](Self::run).
///
/// Clones are the same informer.
///
/// # Example
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::{Api, Client};
/// use tokio_util::sync::CancellationToken;
/// use windlass_informer::{Event, Informer};
///
/// # async fn pods() -> Result<(), Box<dyn std::error::Error>> {
/// let pods = Informer::new(Api::<Pod>::all(Client::try_default().await?));
/// let mut events = pods.subscribe();
/// tokio::spawn({
///     let pods = pods.clone();
///     async move { pods.run(CancellationToken::new()).await }
/// });
/// while let Some(event) = events.next().await {
///     if let Event::Deleted { last, .. } = event {
///         println!("{:?} is gone", last.metadata.name);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Informer<K: Stored> {
    shared: Arc<Shared<K>>,
}

/// Identifies an informer: equal for its clones, different for any other in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InformerId(u64);

struct Shared<K: Stored> {
    id: InformerId,
    resource: Arc<str>,
    store: Store<K>,
    new_subscribers: NewSubscribers<K>,
    status: watch::Sender<InformerStatus>,
    instruments: Instruments,
    progress: ListProgress,
    settings: Settings,
    shared_run: SharedRun,
    users: Arc<Users>,

    /// Notified when another list is requested.
    relist: Notify,

    /// Locked by the run that is under way.
    ingest: Mutex<Ingest<K>>,
}

// === impl Informer ===

impl<K: Stored> Informer<K> {
    /// Creates an informer with default settings; [`builder`](Self::builder) takes others.
    pub fn new(source: impl Source<K>) -> Self {
        Self::builder(source).build()
    }

    /// Starts to build an informer of the objects that `source` lists and watches.
    pub fn builder(source: impl Source<K>) -> InformerBuilder<K> {
        InformerBuilder::new(source)
    }

    /// The store that this informer writes. It is empty before the informer runs for the first
    /// time, and keeps its objects when the informer stops.
    #[must_use]
    pub fn store(&self) -> Store<K> {
        self.shared.store.clone()
    }

    /// Subscribes to every event from now on, after an [`Added`](crate::Event::Added) for each
    /// object that is in the store already.
    ///
    /// The subscription belongs to the run that is under way, or to the next one if the informer
    /// does not run. The store of a stopped informer is out of date, so when the informer is run
    /// again its new subscriptions receive their `Added`s when the first list is complete;
    /// objects that were deleted in between are not reported to them.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<K> {
        self.shared.new_subscribers.add(self.shared.settings.buffer)
    }

    /// Whether there is a subscription.
    #[must_use]
    pub fn is_subscribed(&self) -> bool {
        self.shared.new_subscribers.count().any()
    }

    /// Registers a user that takes the events of this informer without making the watch wait. Any
    /// number of them can be registered. A controller registers itself for each of its informers;
    /// [`subscribe`](Self::subscribe) and [`run`](Self::run) do not.
    ///
    /// # Errors
    ///
    /// [`SharedInformerError`] while a user is registered by [`claim`](Self::claim).
    pub fn share(&self) -> Result<InformerUser, SharedInformerError> {
        self.register(false)
    }

    /// Registers a user that may make the watch wait, by not taking the events of a
    /// [`Subscription`] for a long time: it has to be the only registered user, because the watch
    /// then waits for all of them. [`is_subscribed`](Self::is_subscribed) also counts users that
    /// have not registered.
    ///
    /// # Errors
    ///
    /// [`SharedInformerError`] if another user is registered.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass_informer::{Informer, Scripted};
    ///
    /// let configs = Informer::new(Scripted::<ConfigMap>::new().1);
    /// let slow = configs.claim()?;
    /// assert!(configs.share().is_err());
    /// drop(slow);
    ///
    /// let quick = configs.share()?;
    /// assert!(configs.share().is_ok() && configs.claim().is_err());
    /// drop(quick);
    /// assert!(configs.claim().is_ok());
    /// # Ok::<(), windlass_informer::SharedInformerError>(())
    /// ```
    pub fn claim(&self) -> Result<InformerUser, SharedInformerError> {
        self.register(true)
    }

    fn register(&self, exclusive: bool) -> Result<InformerUser, SharedInformerError> {
        let Shared {
            users, resource, ..
        } = &*self.shared;
        users
            .register(exclusive)
            .ok_or_else(|| SharedInformerError {
                resource: Arc::clone(resource),
            })
    }

    /// Keeps the informer running until `stop` is cancelled, or the source fails permanently.
    ///
    /// Several calls may be under way at once, from any tasks of one tokio runtime. The informer
    /// lists and watches once for all of them: one call drives it, and when that call ends,
    /// another one takes over where it was, without a list. Each call counts from the call on,
    /// not from its first poll. When the last call has ended the informer stops: its source is
    /// dropped, its subscriptions end after what they hold, and its
    /// [`health`](Self::health) says [`Stopped`](HealthState::Stopped). The store keeps its
    /// objects.
    ///
    /// An informer that has stopped, by itself or not, starts again with the next call: with a
    /// list, which is compared with the store.
    ///
    /// # Errors
    ///
    /// [`InformerError::Source`] if the source failed permanently, [`InformerError::Panicked`]
    /// if it panicked. Every call that is under way returns the error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the call as `stop` does.
    ///
    /// # Example
    ///
    /// Two users of one informer; one stops, and the other goes on.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use tokio_util::sync::CancellationToken;
    /// use windlass_informer::{Event, HealthState, Informer, Scripted};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (script, source) = Scripted::<ConfigMap>::new();
    /// let configs = Informer::new(source);
    /// let (first, second) = (CancellationToken::new(), CancellationToken::new());
    /// let one = tokio::spawn(configs.run(first.clone()));
    /// let other = tokio::spawn(configs.run(second.clone()));
    /// let mut events = configs.subscribe();
    ///
    /// script.list([]).await?;
    /// assert!(matches!(events.next().await, Some(Event::Synced)));
    /// first.cancel();
    /// one.await??;
    ///
    /// let mut web = ConfigMap::default();
    /// web.metadata.name = Some("web".into());
    /// script.apply(web).await?;
    /// assert!(matches!(events.next().await, Some(Event::Added(_))));
    ///
    /// second.cancel();
    /// other.await??;
    /// assert!(matches!(configs.health().state, HealthState::Stopped));
    /// assert!(events.next().await.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(
        &self,
        stop: CancellationToken,
    ) -> impl Future<Output = Result<(), InformerError>> + Send + use<K> {
        RunCaller::enter(&self.shared).wait(stop)
    }

    /// Whether the informer runs, and the store has held a complete list since it was started.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.shared.status.borrow().synced
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// It never waits for an informer that does not run, except that a task which was spawned to
    /// call [`run`](Self::run) has 10 s of tokio time to do so ([`RUN_GRACE`](Self::RUN_GRACE)).
    ///
    /// # Errors
    ///
    /// [`SyncError::Stopped`] or [`SyncError::Failed`] as soon as the informer has stopped before
    /// it synced. Those two or [`SyncError::NotRun`] if no caller of [`run`](Self::run) drives
    /// the informer for 10 s.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and called again at any time.
    pub async fn synced(&self) -> Result<(), SyncError> {
        sync::synced(&self.shared).await
    }

    /// How long [`synced`](Self::synced) waits for a caller of [`run`](Self::run): longer than it
    /// takes a busy process to start a task that it has spawned, and short enough that a call
    /// that was forgotten is noticed at the first start.
    pub const RUN_GRACE: Duration = Duration::from_secs(10);

    /// The newest version up to which nothing was missed; none before the first list. It stays
    /// when the informer stops.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> Option<String> {
        self.shared.status.borrow().resource_version.clone()
    }

    /// The version of the newest complete list; none before the first, and of a source that does
    /// not know it.
    #[must_use]
    pub fn list_version(&self) -> Option<String> {
        self.shared.status.borrow().list_version.clone()
    }

    /// When a list last showed an object more than the lists of the same run before it; none before
    /// the first. A list that shows objects which have not changed makes progress too, though no
    /// event tells of it.
    #[must_use]
    pub fn last_list_progress(&self) -> Option<Instant> {
        self.shared.progress.last()
    }

    /// The state of the watch.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared.status.borrow().health(&self.shared.resource)
    }

    /// Requests another list, whatever the state of the watch: its source is stopped and started
    /// again, which begins with a list. It returns at once. What the list shows to be different
    /// is delivered as events, as after a watch that could not be resumed, and then
    /// [`Synced`](crate::Event::Synced) once more, to all subscriptions. Requests that come
    /// before the list has begun count as one; so do those that come while it is taken, and are
    /// served after it. A request while the informer does not run has no effect, because each
    /// run begins with a list.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use tokio_util::sync::CancellationToken;
    /// use windlass_informer::{Event, Informer, Scripted};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (script, source) = Scripted::<ConfigMap>::new();
    /// let configs = Informer::new(source);
    /// let mut events = configs.subscribe();
    /// let running = tokio::spawn(configs.run(CancellationToken::new()));
    /// script.list([]).await?;
    /// assert!(matches!(events.next().await, Some(Event::Synced)));
    ///
    /// configs.relist();
    /// let mut web = ConfigMap::default();
    /// web.metadata.name = Some("web".into());
    /// script.list([web]).await?;
    /// assert!(matches!(events.next().await, Some(Event::Added(_))));
    /// assert!(matches!(events.next().await, Some(Event::Synced)));
    /// # running.abort();
    /// # Ok(())
    /// # }
    /// ```
    pub fn relist(&self) {
        self.shared.relist.notify_one();
    }

    /// Waits until the watch is in a state that `is` accepts, and returns it.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and called again at any time.
    pub async fn until(&self, is: impl Fn(&HealthState) -> bool + Send) -> Health {
        let mut status = self.shared.status.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        _ = status.wait_for(|status| is(&status.state)).await;
        self.health()
    }

    /// The kind of its objects, for logs and errors: `websites.example.io`.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.shared.resource
    }

    /// The identity of this informer.
    #[must_use]
    pub fn id(&self) -> InformerId {
        self.shared.id
    }

    /// Counts in `metrics` from now on, under the label `kind`; the objects that are in the store
    /// are counted at once. An informer that several controllers use counts in the metrics of
    /// each. Of several calls with the same `metrics` only the first has an effect, until
    /// [`uninstrument`](Self::uninstrument).
    pub fn instrument(&self, metrics: &InformerMetrics, kind: &str) {
        self.shared.instruments.add(metrics, kind);
    }

    /// Counts no longer in `metrics`: the objects of this informer leave the number of objects of
    /// its kind, and the other counts stay as they are.
    pub fn uninstrument(&self, metrics: &InformerMetrics) {
        self.shared.instruments.remove(metrics);
    }
}

impl<K: Stored> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Stored> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("id", &self.shared.id)
            .field("resource", &self.shared.resource)
            .field("store", &self.shared.store)
            .finish_non_exhaustive()
    }
}

// === impl InformerId ===

impl InformerId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
