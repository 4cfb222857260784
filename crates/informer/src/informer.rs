//! `Informer`: lists and watches the objects of a kind, and delivers their changes.

mod builder;
mod diagnostics;
mod error;
mod id;
mod resync;
mod run;
mod shared_run;
mod status;
mod sync;

use std::{fmt, future::Future, hash::Hash, panic::Location, sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

pub use self::{
    builder::InformerBuilder,
    diagnostics::Diagnostics,
    error::{InformerError, SyncError},
    id::InformerId,
};
use self::{
    builder::Settings,
    run::SourceAndWriter,
    shared_run::{RunCaller, SharedRun},
    status::InformerStatus,
};
use crate::{
    Health, HealthState, HistoryWentBack, Index, InformerMetrics, LateIndex, Source, Store, Stored,
    Subscription, Trim, metrics::Instruments, subscription::NewSubscribers,
};

/// Lists and watches the objects of a kind, keeps them in a store, and delivers their changes.
///
/// # Contract
///
/// *Guaranteed.* What [`Event`](crate::Event) and [`Store`] guarantee. A broken watch is reported
/// to [`on_error`](InformerBuilder::on_error), visible in [`health`](Self::health), and resumed
/// after a backoff.
///
/// An informer can be shared. It runs while at least one call of [`run`](Self::run) is active, and
/// can run again after it has stopped.
///
/// *Required.* Take the events of each [`Subscription`], or drop it. While one subscription is full
/// (256 events by default), the watch waits, and no subscription receives new events. After 30 s the
/// [health](Self::health) and the log name it. [`Subscription::may_lag`] is the alternative.
///
/// *Not guaranteed.* Any progress before [`run`](Self::run) is called.
///
/// Clones share one informer.
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
/// tokio::spawn(pods.run(CancellationToken::new()));
/// let mut events = pods.subscribe();
/// while let Some(event) = events.next().await {
///     if let Event::Deleted { last, .. } = event {
///         println!("{:?} was deleted", last.metadata.name);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Informer<K: Stored> {
    shared: Arc<Shared<K>>,
}

struct Shared<K: Stored> {
    id: InformerId,
    resource: Arc<str>,
    namespaces: Option<Arc<[String]>>,
    trim: Arc<Trim>,
    store: Store<K>,
    new_subscribers: Arc<NewSubscribers<K>>,
    status: watch::Sender<InformerStatus>,
    instruments: Arc<Instruments>,
    /// When a list last made progress.
    list_progress: parking_lot::Mutex<Option<Instant>>,
    settings: Settings,
    active_run: SharedRun,

    /// Notified when a relist is requested.
    relist: Notify,

    /// The source and the writer, locked by the active run.
    source_and_writer: Mutex<SourceAndWriter<K>>,
}

// === impl Informer ===

impl<K: Stored> Informer<K> {
    /// Creates an informer with default settings. [`builder`](Self::builder) has the other
    /// settings.
    pub fn new(source: impl Source<K>) -> Self {
        Self::builder(source).build()
    }

    /// Returns a builder of an informer for the objects that `source` lists and watches.
    pub fn builder(source: impl Source<K>) -> InformerBuilder<K> {
        InformerBuilder::new(source)
    }

    /// The store of this informer. Empty before the first run. Keeps its objects when the informer
    /// stops.
    #[must_use]
    pub fn store(&self) -> Store<K> {
        self.shared.store.clone()
    }

    /// Declares `index`, like [`InformerBuilder::index`], in an informer that has not run. Declaring
    /// an index again has no effect.
    ///
    /// # Errors
    ///
    /// [`LateIndex`] if the informer has run before.
    pub fn add_index<V>(&self, index: &Index<K, V>) -> Result<(), LateIndex>
    where
        V: Clone + Eq + Hash + Send + Sync + 'static,
    {
        self.shared.store.add_index(index)
    }

    /// Subscribes to all events from now on, after an [`Added`](crate::Event::Added) for each
    /// object in the store.
    ///
    /// The subscription belongs to the active run, or to the next one if the informer does not run.
    /// The store of a stopped informer is out of date. So when it runs again, new subscriptions
    /// receive their `Added`s after the first list is complete; objects that were deleted in
    /// between are not reported to them.
    #[must_use]
    #[track_caller]
    pub fn subscribe(&self) -> Subscription<K> {
        let at = Location::caller();
        (self.shared.new_subscribers).add(self.shared.settings.buffer, at)
    }

    /// Runs the informer until `stop` is cancelled or the source fails permanently.
    ///
    /// Several calls may be active at the same time, from any tasks of one tokio runtime. The
    /// informer lists and watches once for all of them: one call drives it. When that call ends,
    /// another one takes over at the same point, without a list. A call counts from the moment of
    /// the call, not from its first poll. When the last call has ended, the informer stops: its
    /// source is dropped, its subscriptions end after the events that they hold, and its
    /// [`health`](Self::health) is [`Stopped`](HealthState::Stopped). The store keeps its objects.
    ///
    /// A stopped informer starts again with the next call. It begins with a list, which is compared
    /// with the store.
    ///
    /// # Errors
    ///
    /// [`InformerError::Source`] if the source failed permanently (a
    /// [`ListWatch`](crate::ListWatch) never does), [`InformerError::Panicked`] if it panicked. All
    /// active calls return the error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the call like `stop`.
    ///
    /// # Example
    ///
    /// Two users of one informer. One stops, and the other continues.
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

    /// Whether the informer runs and the store has held a complete list since it was started.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.shared.status.borrow().synced
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// Waits at most 10 s of tokio time for a call of
    /// [`run`](Self::run), so that a task that was just spawned can make the call.
    ///
    /// # Errors
    ///
    /// [`SyncError::Stopped`] or [`SyncError::Failed`] if the informer stops or fails before it has
    /// synced. If no caller of [`run`](Self::run) drives the informer for 10 s: the same two if an
    /// earlier run ended that way, otherwise [`SyncError::NotRun`].
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time.
    pub async fn synced(&self) -> Result<(), SyncError> {
        sync::synced(&self.shared).await
    }

    /// How long [`synced`](Self::synced) waits for a caller of [`run`](Self::run): longer than a
    /// busy process needs to start a spawned task, and short enough that a missing call is noticed
    /// at the first start.
    pub(crate) const RUN_GRACE: Duration = Duration::from_secs(10);

    /// The newest version up to which no change was missed. `None` before the first list. Stays
    /// when the informer stops.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> Option<String> {
        self.shared.status.borrow().resource_version.clone()
    }

    /// The version of the newest complete list. `None` before the first list, and for sources that
    /// do not know it.
    #[doc(hidden)]
    #[must_use]
    pub fn list_version(&self) -> Option<String> {
        self.shared.status.borrow().list_version.clone()
    }

    /// When a list last received more objects than any earlier list of the same run. `None` before
    /// the first list. A list of unchanged objects also makes progress, although it causes no
    /// event. The cache sync timeout of a controller is measured from this time.
    #[doc(hidden)]
    #[must_use]
    pub fn last_list_progress(&self) -> Option<Instant> {
        *self.shared.list_progress.lock()
    }

    /// The state of the watch.
    #[must_use]
    pub fn health(&self) -> Health {
        let Shared {
            status,
            resource,
            namespaces,
            new_subscribers,
            ..
        } = &*self.shared;
        let unread = new_subscribers.unread();
        status
            .borrow()
            .health(resource, namespaces.as_ref(), unread)
    }

    /// Requests a relist: stops the source and starts it again, in any state of the watch. Returns
    /// at once. Differences are delivered as events, and then [`Synced`](crate::Event::Synced) once
    /// more, to all subscriptions. Requests before the list has begun count as one. Requests during
    /// the list count as one more, which follows it. A request while the informer does not run has
    /// no effect, because each run begins with a list.
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

    /// What last showed that the history of the API server went back. `None` if it never did, and for
    /// sources that do not detect it. A subscription
    /// [waits](Subscription::history_went_back) for it.
    #[must_use]
    pub fn history_went_back(&self) -> Option<HistoryWentBack> {
        self.shared.status.borrow().went_back.clone()
    }

    /// Waits until `is` returns true for the state of the watch, and returns the health.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time.
    pub async fn until(&self, is: impl Fn(&HealthState) -> bool + Send) -> Health {
        let mut status = self.shared.status.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        _ = status.wait_for(|status| is(&status.state)).await;
        self.health()
    }

    /// The kind of the objects, as `plural.group`: `deployments.apps`.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.shared.resource
    }

    /// The namespaces whose objects it has. `None` for all objects of the kind.
    #[must_use]
    pub fn namespaces(&self) -> Option<&[String]> {
        self.shared.namespaces.as_deref()
    }

    /// The fields that its source removes from the objects.
    #[doc(hidden)]
    #[must_use]
    pub fn trim(&self) -> &Arc<Trim> {
        &self.shared.trim
    }

    /// The identity of the informer.
    #[doc(hidden)]
    #[must_use]
    pub fn id(&self) -> InformerId {
        self.shared.id
    }

    /// Counts in `metrics` from now on, under the label `kind`. The objects in the store are
    /// counted at once, and subtracted when the informer and its stores are dropped. An informer that
    /// several controllers use counts in the metrics of each. A second call with the same `metrics` has
    /// no effect, until [`uninstrument`](Self::uninstrument).
    pub fn instrument(&self, metrics: &InformerMetrics, kind: &str) {
        self.shared.instruments.add(metrics, kind);
    }

    /// Stops counting in `metrics`. The objects of this informer are subtracted from the number of
    /// objects of its kind. The other counts stay.
    #[doc(hidden)]
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
