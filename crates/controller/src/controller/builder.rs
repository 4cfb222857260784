//! How a controller is to be.

use std::{fmt, num::NonZeroUsize, time::Duration};

use super::{
    InformerController,
    notice::Delivery,
    report::{self, ErrorReport, Hook},
};
use crate::{
    AlwaysDequeue, BuildError, ExponentialBackoff, RetryDequeuePolicy, RetryObject, RetryPolicy,
};

/// What a controller is to be like, before it is one.
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

/// How a controller is.
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) metrics_namespace: String,
    pub(crate) retry: Box<dyn RetryPolicy>,
    pub(crate) dequeue: Box<dyn RetryDequeuePolicy>,
    pub(crate) retry_object: RetryObject,
    pub(crate) delivery: Delivery,
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) queue: NonZeroUsize,
    pub(crate) limit: Option<Duration>,
    pub(crate) on_error: Hook,
    pub(crate) on_exhausted: Hook,
    pub(crate) seed: Option<u64>,
}

// === impl InformerControllerBuilder ===

impl InformerControllerBuilder {
    /// What a controller is called that nobody gave a name.
    pub const DEFAULT_NAME: &str = "informer-controller";

    /// Enough for handlers that mostly wait for an API server, and few enough not to be what
    /// overloads it.
    pub const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(16).expect("not zero");

    /// Enough to keep all workers busy while the next events are on their way, and few enough
    /// to be held in memory whatever the objects are.
    pub const DEFAULT_QUEUE: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

    pub(super) fn new() -> Self {
        Self {
            settings: Settings {
                name: Self::DEFAULT_NAME.to_owned(),
                metrics_namespace: String::new(),
                retry: Box::new(ExponentialBackoff::GRAFANA),
                dequeue: Box::new(AlwaysDequeue),
                retry_object: RetryObject::default(),
                delivery: Delivery::default(),
                concurrency: Self::DEFAULT_CONCURRENCY,
                queue: Self::DEFAULT_QUEUE,
                limit: None,
                on_error: Box::new(report::log),
                on_exhausted: Box::new(|_| {}),
                seed: None,
            },
        }
    }

    /// Makes the controller.
    ///
    /// # Errors
    ///
    /// [`BuildError::MetricsNamespace`] if the namespace of the metrics cannot begin a name.
    pub fn build(self) -> Result<InformerController, BuildError> {
        InformerController::from_settings(self.settings)
    }

    /// What it is called: the label `controller` of its metrics, by which several controllers
    /// can be in one registry.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Whether and when a call that failed is made again. By default
    /// [`ExponentialBackoff::GRAFANA`].
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

    /// With which object a call is made again. By default the newest.
    pub fn retry_object(mut self, object: RetryObject) -> Self {
        self.settings.retry_object = object;
        self
    }

    /// What is done with several events of one object that could not be told yet. By default
    /// each is told.
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.settings.delivery = delivery;
        self
    }

    /// How many objects are worked on at once, at most. By default
    /// [16](Self::DEFAULT_CONCURRENCY). One object is never worked on twice at once.
    pub fn concurrency(mut self, objects: NonZeroUsize) -> Self {
        self.settings.concurrency = objects;
        self
    }

    /// How many events of one informer may wait to be told; when there are more, its watch
    /// waits. By default [1024](Self::DEFAULT_QUEUE).
    pub fn queue(mut self, events: NonZeroUsize) -> Self {
        self.settings.queue = events;
        self
    }

    /// How long one call of a handler may take; then it is dropped, and has failed. By default
    /// as long as it likes.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.settings.limit = Some(limit);
        self
    }

    /// Is told of each call that failed. It decides nothing: that is the retry policy's. By
    /// default the log is told.
    pub fn on_error(mut self, hook: impl Fn(&ErrorReport<'_>) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Box::new(hook);
        self
    }

    /// Is told of each call that was given up, after [`on_error`](Self::on_error).
    pub fn on_exhausted(mut self, hook: impl Fn(&ErrorReport<'_>) + Send + Sync + 'static) -> Self {
        self.settings.on_exhausted = Box::new(hook);
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
            .field("delivery", &self.delivery)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}
