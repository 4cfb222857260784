//! An informer: one source, one store, and everybody who is told.

mod builder;
mod resync;
mod run;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::builder::InformerBuilder;
use self::{builder::Settings, run::ErasedSource};
use crate::{
    Health, InformerMetrics, Source, Store, Stored, Subscription, WatchError,
    health::{HealthState, Pulse},
    metrics::Instruments,
    subscription::Subscribers,
};

/// Keeps a live copy of the objects of a kind, and tells what happens to them.
///
/// # Contract
///
/// *Promised.* What [`Event`](crate::Event) and [`Store`] promise. A watch that breaks is
/// reported, shown by [`health`](Self::health), and taken up again with a backoff of its
/// own.
///
/// *Asked.* Each [`Subscription`] is taken from: they are bounded, and while one is full
/// the watch waits, for all of them.
///
/// *Not promised.* That anything happens before [`run`](Self::run).
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

/// Which informer: equal for clones, and for nothing else in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InformerId(u64);

/// Why an informer ended, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InformerError {
    /// It runs already, or has run: an informer runs once.
    #[error("the informer of {resource} runs already, or has run; an informer runs once")]
    AlreadyRan {
        /// What it is an informer of.
        resource: Arc<str>,
    },

    /// The source met what no waiting mends.
    #[error("the informer of {resource} cannot go on")]
    Source {
        /// What it is an informer of.
        resource: Arc<str>,
        /// What the source met.
        source: WatchError,
    },
}

struct Shared<K: Stored> {
    id: InformerId,
    resource: Arc<str>,
    store: Store<K>,
    subscribers: Subscribers<K>,
    pulse: watch::Sender<Pulse>,
    instruments: Instruments,
    settings: Settings,

    /// Taken by the one call of `run`.
    source: Mutex<Option<Box<dyn ErasedSource<K>>>>,
}

// === impl Informer ===

impl<K: Stored> Informer<K> {
    /// Creates an informer with its defaults; [`builder`](Self::builder) sets more.
    pub fn new(source: impl Source<K>) -> Self {
        Self::builder(source).build()
    }

    /// Begins an informer of what `source` tells.
    pub fn builder(source: impl Source<K>) -> InformerBuilder<K> {
        InformerBuilder::new(source)
    }

    /// The store that this informer writes; it can be had, and is empty, before the
    /// informer runs.
    #[must_use]
    pub fn store(&self) -> Store<K> {
        self.shared.store.clone()
    }

    /// Every event from now on, after an [`Added`](crate::Event::Added) for each object
    /// that is there already.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<K> {
        self.shared.subscribers.add(self.shared.settings.buffer)
    }

    /// Runs until `stop` is cancelled, or the source meets what no waiting mends.
    ///
    /// # Errors
    ///
    /// [`InformerError::AlreadyRan`] on a second call, [`InformerError::Source`] if the
    /// source gave up.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the informer as `stop` does.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), InformerError> {
        let source = self.shared.source.lock().take();
        let Some(source) = source else {
            return Err(InformerError::AlreadyRan {
                resource: Arc::clone(&self.shared.resource),
            });
        };
        run::run(&self.shared, source, stop).await
    }

    /// Whether the store has held the whole picture at least once.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.shared.pulse.borrow().synced
    }

    /// Waits until the store has held the whole picture once. Never ready if the informer
    /// ends before.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and called again at any time.
    pub async fn synced(&self) {
        let mut pulse = self.shared.pulse.subscribe();
        // The sender lives as long as we do, so waiting cannot fail.
        _ = pulse.wait_for(|pulse| pulse.synced).await;
    }

    /// The newest version up to which nothing was missed; none before the first list.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> Option<String> {
        self.shared.pulse.borrow().resource_version.clone()
    }

    /// How the watch is.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared.pulse.borrow().health(&self.shared.resource)
    }

    /// Waits until the watch is in a state that `is` accepts, and returns it.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and called again at any time.
    pub async fn until(&self, is: impl Fn(&HealthState) -> bool + Send) -> Health {
        let mut pulse = self.shared.pulse.subscribe();
        _ = pulse.wait_for(|pulse| is(&pulse.state)).await;
        self.health()
    }

    /// What it is an informer of, for people: `websites.example.io`.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.shared.resource
    }

    /// Which informer this is.
    #[must_use]
    pub fn id(&self) -> InformerId {
        self.shared.id
    }

    /// Counts in `metrics` from now on, under the label `kind`. The first call decides;
    /// whoever runs the informer makes it.
    pub fn instrument(&self, metrics: &InformerMetrics, kind: &str) {
        self.shared.instruments.set(metrics, kind);
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
