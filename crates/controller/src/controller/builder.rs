//! The configuration of a controller.

use std::{
    fmt,
    future::Future,
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use super::{
    InformerController,
    exhausted::{self, ExhaustedCall},
    queued::Coalescing,
    report::{self, ErrorReport, Hook},
};
use crate::{
    AlwaysDequeue, BuildError, DeleteRetry, ExponentialBackoff, RetryDequeuePolicy, RetryObject,
    RetryPolicy,
};

/// Configures and builds an [`InformerController`].
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_controller::{ExponentialBackoff, InformerController};
///
/// let controller = InformerController::builder()
///     .name("websites")
///     .retry_policy(ExponentialBackoff::new(Duration::from_secs(1), 3))
///     .on_error(|report| eprintln!("{report}"))
///     .build()?;
/// assert_eq!(controller.name(), "websites");
/// # Ok::<(), windlass_controller::BuildError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct InformerControllerBuilder {
    settings: Settings,
}

/// The configuration of a controller.
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) metrics_namespace: String,
    pub(crate) retry: Box<dyn RetryPolicy>,
    pub(crate) dequeue: Box<dyn RetryDequeuePolicy>,
    pub(crate) retry_object: RetryObject,
    pub(crate) delete_retry: DeleteRetry,
    pub(crate) coalescing: Coalescing,
    pub(crate) start_before_sync: bool,
    pub(crate) cache_sync_timeout: Option<Duration>,
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) queue: NonZeroUsize,
    pub(crate) limit: Option<Duration>,
    pub(crate) on_error: Hook,
    pub(crate) on_exhausted: Option<exhausted::Hook>,
    pub(crate) seed: Option<u64>,
}

// === impl InformerControllerBuilder ===

impl InformerControllerBuilder {
    /// The name of a controller that was given none; a second one in the process is called
    /// `informer-controller-2`, and so on.
    pub const DEFAULT_NAME: &str = "informer-controller";

    /// Enough for handlers that mostly wait for an API server, and few enough not to be what
    /// overloads it.
    pub const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(16).expect("not zero");

    /// Enough to keep all workers busy while the next events are decoded, and few enough to be
    /// held in memory whatever the size of the objects.
    pub const DEFAULT_QUEUE: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

    /// How long the list of an informer may make no progress before the controller gives up:
    /// as long as controller-runtime waits.
    pub const DEFAULT_CACHE_SYNC_TIMEOUT: Duration = Duration::from_secs(120);

    pub(super) fn new() -> Self {
        Self {
            settings: Settings {
                name: String::new(),
                metrics_namespace: String::new(),
                retry: Box::new(ExponentialBackoff::DEFAULT),
                dequeue: Box::new(AlwaysDequeue),
                retry_object: RetryObject::default(),
                delete_retry: DeleteRetry::default(),
                coalescing: Coalescing::default(),
                start_before_sync: false,
                cache_sync_timeout: Some(Self::DEFAULT_CACHE_SYNC_TIMEOUT),
                concurrency: Self::DEFAULT_CONCURRENCY,
                queue: Self::DEFAULT_QUEUE,
                limit: None,
                on_error: Box::new(report::log),
                on_exhausted: None,
                seed: None,
            },
        }
    }

    /// Makes the controller.
    ///
    /// # Errors
    ///
    /// [`BuildError::MetricsNamespace`] if the namespace of the metrics cannot begin a name.
    pub fn build(mut self) -> Result<InformerController, BuildError> {
        static UNNAMED: AtomicUsize = AtomicUsize::new(0);
        if self.settings.name.is_empty() {
            let name = Self::DEFAULT_NAME;
            self.settings.name = match UNNAMED.fetch_add(1, Ordering::Relaxed) {
                0 => name.to_owned(),
                others => format!("{name}-{}", others.saturating_add(1)),
            };
        }
        InformerController::from_settings(self.settings)
    }

    /// The controller's name: the label `controller` of its metrics. Controllers of one
    /// [registry](prometheus::Registry) or operator need different names. By default
    /// [`DEFAULT_NAME`](Self::DEFAULT_NAME) with a number.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Whether and when a failed call is repeated. The default is
    /// [`ExponentialBackoff::DEFAULT`], which never gives up.
    pub fn retry_policy(mut self, policy: impl RetryPolicy) -> Self {
        self.settings.retry = Box::new(policy);
        self
    }

    /// Which pending calls a new event makes needless. By default all
    /// ([`AlwaysDequeue`]).
    pub fn retry_dequeue_policy(mut self, policy: impl RetryDequeuePolicy) -> Self {
        self.settings.dequeue = Box::new(policy);
        self
    }

    /// Which object a repeated call gets. The default is the newest.
    pub fn retry_object(mut self, object: RetryObject) -> Self {
        self.settings.retry_object = object;
        self
    }

    /// What ends the retries of a failed `Deleted`. By default nothing but its success.
    pub fn delete_retry(mut self, until: DeleteRetry) -> Self {
        self.settings.delete_retry = until;
        self
    }

    /// When undispatched events of one object are folded. The default is
    /// [`Coalescing::WhenFull`].
    pub fn coalescing(mut self, coalescing: Coalescing) -> Self {
        self.settings.coalescing = coalescing;
        self
    }

    /// Whether handlers are called before all informers of the controller have synced. The
    /// default is false: a handler that reads a store sees every object that was there at the
    /// start. The handlers of a kind to which an informer is added later wait for that one.
    pub fn start_before_sync(mut self, early: bool) -> Self {
        self.settings.start_before_sync = early;
        self
    }

    /// How long an informer may be unsynced without progress of its list; then
    /// [`run`](InformerController::run) ends with
    /// [`RunError::NotSynced`](crate::RunError::NotSynced). The default is
    /// [2 minutes](Self::DEFAULT_CACHE_SYNC_TIMEOUT); None waits for ever. It does not apply
    /// with [`start_before_sync`](Self::start_before_sync).
    pub fn cache_sync_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.settings.cache_sync_timeout = timeout;
        self
    }

    /// How many objects are worked on at once, at most. By default
    /// [16](Self::DEFAULT_CONCURRENCY). One object is never worked on twice at once.
    pub fn concurrency(mut self, objects: NonZeroUsize) -> Self {
        self.settings.concurrency = objects;
        self
    }

    /// How many events of one informer are queued each by itself; [`Coalescing`] says what
    /// happens beyond that. The first list does not count. The default is
    /// [1024](Self::DEFAULT_QUEUE).
    pub fn queue(mut self, events: NonZeroUsize) -> Self {
        self.settings.queue = events;
        self
    }

    /// How long one call of a handler may take. A call that takes longer is dropped, and has
    /// failed. By default there is no limit.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.settings.limit = Some(limit);
        self
    }

    /// Calls `hook` for each failed call, instead of logging it. It does not decide about retries:
    /// the retry policy does.
    pub fn on_error(mut self, hook: impl Fn(&ErrorReport<'_>) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Box::new(hook);
        self
    }

    /// Calls `hook` for each call that is not repeated any more, after
    /// [`on_error`](Self::on_error), and waits for its end before the object's next call. The hook
    /// sees the object, so that it can write a status. It has the same
    /// [`timeout`](Self::timeout) as a handler. Behind a [`Fence`](crate::Fence) it waits until the
    /// fence is open; if the controller is stopped before, it is not called.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use windlass_controller::{ExhaustedCall, InformerController};
    ///
    /// let controller = InformerController::builder()
    ///     .on_exhausted(|exhausted: ExhaustedCall| async move {
    ///         let phase = exhausted.object::<Pod>().and_then(|pod| pod.status.clone()?.phase);
    ///         eprintln!("{}: {phase:?}: {}", exhausted.call().key, exhausted.call().error);
    ///     })
    ///     .build()?;
    /// # drop(controller);
    /// # Ok::<(), windlass_controller::BuildError>(())
    /// ```
    pub fn on_exhausted<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(ExhaustedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.settings.on_exhausted = Some(exhausted::boxed(hook));
        self
    }

    /// What comes before the names of its metrics, with an underscore; those that are known
    /// from controller-runtime and client-go keep their names.
    pub fn metrics_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.metrics_namespace = namespace.into();
        self
    }

    /// Where its randomness begins, for tests. By default somewhere else each time.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }
}

impl fmt::Debug for InformerControllerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

// === impl Settings ===

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerControllerBuilder")
            .field("name", &self.name)
            .field("coalescing", &self.coalescing)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}
