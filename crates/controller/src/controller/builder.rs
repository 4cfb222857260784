//! The builder and the settings of a controller.

use std::{
    fmt,
    future::Future,
    num::{NonZeroU32, NonZeroUsize},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;

use super::{
    InformerController, Shared, dead_letters::DeadLetter, drain::OnStop, exhausted,
    queued::Coalescing,
};
use crate::{
    BuildError, DeleteRetry, ErrorReport, ExponentialBackoff, FinalizerRegistry, NewEvent,
    PendingCall, RetryDequeuePolicy, RetryObject, RetryPolicy,
    report::{self, CallHook, CallReport, Hook},
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
    retry_rate: Option<(NonZeroU32, NonZeroU32)>,
}

/// The settings of a controller.
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) metrics_namespace: String,
    pub(crate) retry: Box<dyn RetryPolicy>,
    pub(crate) dequeue: Box<dyn RetryDequeuePolicy>,
    pub(crate) retry_object: RetryObject,
    pub(crate) delete_retry: DeleteRetry,
    pub(crate) coalescing: Coalescing,
    /// Whether its handlers read the newest object when a call begins.
    pub(crate) level_triggered: bool,
    pub(crate) on_stop: OnStop,
    pub(crate) start_before_sync: bool,
    pub(crate) cache_sync_timeout: Option<Duration>,
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) queue: NonZeroUsize,
    pub(crate) call_timeout: Option<Duration>,
    pub(crate) on_error: Hook,
    pub(crate) on_call: Option<CallHook>,
    pub(crate) on_exhausted: Option<exhausted::Hook>,
    pub(crate) seed: Option<u64>,
    pub(crate) finalizer_registry: Option<FinalizerRegistry>,
}

/// The default name of a controller: `name`, from the second one of `unnamed` on with a number.
pub(crate) fn numbered(name: &str, unnamed: &AtomicUsize) -> String {
    match unnamed.fetch_add(1, Ordering::Relaxed) {
        0 => name.to_owned(),
        others => format!("{name}-{}", others.saturating_add(1)),
    }
}

// === impl InformerControllerBuilder ===

impl InformerControllerBuilder {
    /// The default of [`name`](Self::name). The second controller of the process without a name is
    /// called `informer-controller-2`, and so on.
    pub(crate) const DEFAULT_NAME: &str = "informer-controller";

    /// The default of [`concurrency`](Self::concurrency), in objects: enough for handlers that
    /// mostly wait for an API server, and few enough not to overload it.
    pub(crate) const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(16).expect("not zero");

    /// The default of [`queue`](Self::queue), in events of one informer: enough to keep all workers
    /// busy while the next events are decoded, and few enough to fit into memory with objects of any
    /// size.
    pub(crate) const DEFAULT_QUEUE: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

    /// The default of [`cache_sync_timeout`](Self::cache_sync_timeout): the same time as in
    /// controller-runtime.
    pub(crate) const DEFAULT_CACHE_SYNC_TIMEOUT: Duration = Duration::from_secs(120);

    pub(super) fn new() -> Self {
        Self {
            settings: Settings {
                name: String::new(),
                metrics_namespace: String::new(),
                retry: Box::new(ExponentialBackoff::DEFAULT),
                dequeue: Box::new(|_: &NewEvent<'_>, _: &PendingCall<'_>| true),
                retry_object: RetryObject::default(),
                delete_retry: DeleteRetry::default(),
                coalescing: Coalescing::default(),
                level_triggered: false,
                on_stop: OnStop::default(),
                start_before_sync: false,
                cache_sync_timeout: Some(Self::DEFAULT_CACHE_SYNC_TIMEOUT),
                concurrency: Self::DEFAULT_CONCURRENCY,
                queue: Self::DEFAULT_QUEUE,
                call_timeout: None,
                on_error: Box::new(report::log),
                on_call: None,
                on_exhausted: None,
                seed: None,
                finalizer_registry: None,
            },
            retry_rate: None,
        }
    }

    /// Builds the controller.
    ///
    /// # Errors
    ///
    /// [`BuildError::MetricsNamespace`] if the namespace of the metrics is invalid.
    pub fn build(mut self) -> Result<InformerController, BuildError> {
        static UNNAMED: AtomicUsize = AtomicUsize::new(0);
        if self.settings.name.is_empty() {
            self.settings.name = numbered(Self::DEFAULT_NAME, &UNNAMED);
        }
        if let Some((per_second, burst)) = self.retry_rate {
            let limited = self.settings.retry.rate_limited(per_second, burst);
            self.settings.retry = Box::new(limited);
        }
        let shared = Arc::new(Shared::new(self.settings)?);
        Ok(InformerController { shared })
    }

    /// Sets the name: the label `controller` of the metrics. Controllers of one
    /// [registry](prometheus::Registry) or operator need different names. The default is
    /// `informer-controller`, from the second controller on with a number.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Sets whether and when a failed call is repeated. The default is
    /// [`ExponentialBackoff::DEFAULT`], which repeats without end.
    pub fn retry_policy(mut self, policy: impl RetryPolicy) -> Self {
        self.settings.retry = Box::new(policy);
        self
    }

    /// Limits the rate of all retries, whatever the [`retry_policy`](Self::retry_policy) is: `burst` at
    /// once, and after that `per_second` each second, as [`RateLimited`](crate::RateLimited) does. By
    /// default the policy alone decides.
    ///
    /// # Example
    ///
    /// ```
    /// use std::{num::NonZeroU32, time::Duration};
    /// use windlass_controller::{ErrorReport, InformerController};
    ///
    /// const PER_SECOND: NonZeroU32 = NonZeroU32::new(10).unwrap();
    /// const BURST: NonZeroU32 = NonZeroU32::new(100).unwrap();
    ///
    /// let controller = InformerController::builder()
    ///     .retry_rate(PER_SECOND, BURST)
    ///     .retry_policy(|_: &ErrorReport<'_>| Some(Duration::from_secs(1)))
    ///     .build()?;
    /// assert!(controller.pending_calls() == 0);
    /// # Ok::<(), windlass_controller::BuildError>(())
    /// ```
    pub fn retry_rate(mut self, per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        self.retry_rate = Some((per_second, burst));
        self
    }

    /// Sets which pending calls a new event drops. By default it drops all for which the policy is
    /// called.
    pub fn retry_dequeue_policy(mut self, policy: impl RetryDequeuePolicy) -> Self {
        self.settings.dequeue = Box::new(policy);
        self
    }

    /// Sets which object a repeated call gets. By default the newest one.
    pub fn retry_object(mut self, object: RetryObject) -> Self {
        self.settings.retry_object = object;
        self
    }

    /// Sets what ends the retries of a failed `Deleted`. By default only its success.
    pub fn delete_retry(mut self, until: DeleteRetry) -> Self {
        self.settings.delete_retry = until;
        self
    }

    /// Sets when undispatched events of one object are combined into one. The default is
    /// [`Coalescing::WhenFull`]: each event is a call, until the [queue](Self::queue) is full.
    pub fn coalescing(mut self, coalescing: Coalescing) -> Self {
        self.settings.coalescing = coalescing;
        self
    }

    /// Makes the controller level-triggered, for
    /// [`add_level_reconciler`](InformerController::add_level_reconciler): events are always
    /// coalesced, mappers [wake](InformerController::wake) objects directly, and an informer that is
    /// added while the controller runs stops all calls until it has synced.
    #[doc(hidden)]
    pub fn level_triggered(mut self) -> Self {
        self.settings.level_triggered = true;
        self.settings.on_error = Box::new(report::log_level_triggered);
        self.settings.coalescing = Coalescing::Always;
        self
    }

    /// Sets what happens to queued events after a stop. The default is [`OnStop::Abandon`]: no other
    /// call begins.
    pub fn on_stop(mut self, on_stop: OnStop) -> Self {
        self.settings.on_stop = on_stop;
        self
    }

    /// Sets whether handlers are called before all informers of the controller have synced. The
    /// default is false: a handler that reads a store sees all objects that existed at the start.
    /// If an informer is added later, the handlers of its kind wait for it.
    pub fn start_before_sync(mut self, early: bool) -> Self {
        self.settings.start_before_sync = early;
        self
    }

    /// Sets how long an informer may be unsynced while its list makes no progress. After this time
    /// [`run`](InformerController::run) fails with
    /// [`RunError::NotSynced`](crate::RunError::NotSynced), if the informer was added before the
    /// first handlers were called. One that was added later is logged, and its handlers wait. The
    /// default is 2 minutes; `None` waits forever. It does not apply with
    /// [`start_before_sync`](Self::start_before_sync), and not to
    /// [optional kinds](InformerController::optional_kind).
    pub fn cache_sync_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.settings.cache_sync_timeout = timeout;
        self
    }

    /// Sets the registry in which the finalizers of the wrapped handlers have different names. By
    /// default that of the operator, and a registry of this controller alone without an operator.
    ///
    /// For controllers that run without an operator, and for an operator with controllers of several
    /// clusters: one registry for each cluster.
    pub fn finalizer_registry(mut self, registry: &FinalizerRegistry) -> Self {
        self.settings.finalizer_registry = Some(registry.clone());
        self
    }

    /// Sets how many objects are processed concurrently, at most. The default is
    /// 16. Calls for one object never overlap.
    pub fn concurrency(mut self, objects: NonZeroUsize) -> Self {
        self.settings.concurrency = objects;
        self
    }

    /// Sets the size of the queue: how many events of one informer wait without being coalesced.
    /// [`Coalescing`] describes what happens when it is full. The first list does not count. The
    /// default is 1,024.
    pub fn queue(mut self, events: NonZeroUsize) -> Self {
        self.settings.queue = events;
        self
    }

    /// Sets the time limit of one call of a handler. A call that exceeds it is dropped and has
    /// failed. By default there is no limit.
    ///
    /// In a handler with a finalizer it is the limit of each call of the inner handler. The writes of
    /// the finalizer have a limit of their own.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.settings.call_timeout = Some(limit);
        self
    }

    /// Calls `hook` for each failed call, instead of logging it at `ERROR`. The hook has no influence
    /// on retries: the retry policy decides.
    pub fn on_error(mut self, hook: impl Fn(&ErrorReport<'_>) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Box::new(hook);
        self
    }

    /// Calls `hook` after each call of a watcher or reconciler, also if the call was dropped before its
    /// end. It returns immediately and does not block.
    ///
    /// ```
    /// use windlass_controller::{CallReport, InformerController};
    ///
    /// let controller = InformerController::builder()
    ///     .on_call(|call: &CallReport<'_>| println!("{} {:?}", call.key, call.outcome))
    ///     .build()?;
    /// # drop(controller);
    /// # Ok::<(), windlass_controller::BuildError>(())
    /// ```
    pub fn on_call(mut self, hook: impl Fn(&CallReport<'_>) + Send + Sync + 'static) -> Self {
        self.settings.on_call = Some(Box::new(hook));
        self
    }

    /// Calls `hook` for each call that is not repeated any more, after
    /// [`on_error`](Self::on_error), and waits for it before the next call for the object. The hook
    /// gets the object, so that it can write a status. Write only a status that stays the same while the
    /// call fails, without times and counts: each change of the object is an event, which repeats the
    /// call if the predicates of the handler accept it. It has the same [`timeout`](Self::timeout)
    /// as a handler. With a [`Fence`](crate::Fence) it is called only while the fence is open: until
    /// then it waits, and if the controller is stopped before, it is not called.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use windlass_controller::{DeadLetter, InformerController};
    ///
    /// let controller = InformerController::builder()
    ///     .on_exhausted(|letter: DeadLetter| async move {
    ///         let phase = letter.object::<Pod>().and_then(|pod| pod.status.clone()?.phase);
    ///         eprintln!("{}: {phase:?}: {}", letter.key, letter.error);
    ///     })
    ///     .build()?;
    /// # drop(controller);
    /// # Ok::<(), windlass_controller::BuildError>(())
    /// ```
    pub fn on_exhausted<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(DeadLetter) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.settings.on_exhausted = Some(Box::new(move |letter| hook(letter).boxed()));
        self
    }

    /// Sets a prefix for the names of metrics, followed by an underscore. Metrics that have the name
    /// of a metric of controller-runtime or client-go get no prefix. By default there is no prefix.
    pub fn metrics_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.metrics_namespace = namespace.into();
        self
    }

    /// Sets the seed of the jitter, for tests. By default it is random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }
}

impl fmt::Debug for InformerControllerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerControllerBuilder")
            .field("name", &self.settings.name)
            .field("coalescing", &self.settings.coalescing)
            .field("concurrency", &self.settings.concurrency)
            .finish_non_exhaustive()
    }
}
