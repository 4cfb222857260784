//! The builder of a `Controller`.

use std::{
    fmt,
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use kube::Client;
use windlass_informer::resource_name;

use self::kinds::{AddSecondary, OwnedResource};
use super::{Informers, MissingKind, Trigger, Watch, Watchable, debounce::Debounce};
use crate::{
    CallReport, ErrorReport, FinalizerRegistry, InformerController, InformerControllerBuilder,
    OnSelectorExit, Predicate, RetryPolicy, gcra::Rate,
};

mod build;
mod kinds;

/// Configures and builds a [`Controller`](super::Controller).
///
/// # Kinds are checked by the compiler
///
/// A mapper of another kind, a reconciler of another kind, and a child of a kind that is not owned
/// do not compile:
///
/// ```compile_fail
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
/// use windlass_controller::{Controller, Watch};
/// use windlass_informer::ObjectKey;
///
/// # fn example(client: kube::Client) {
/// let mut configs = Controller::<ConfigMap>::builder(client, Watch::all());
/// configs.watches(Watch::<Secret>::all(), |pod: &Pod| Some(ObjectKey::new("web")));
/// # }
/// ```
///
/// ```compile_fail
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// use windlass_controller::{Context, Controller, Failure, Outcome, Watch};
///
/// # fn example(client: kube::Client) {
/// let configs = Controller::<ConfigMap>::builder(client, Watch::all());
/// configs.build(|cx: Context<Pod>| async move { Ok::<_, Failure>(Outcome::done()) });
/// # }
/// ```
///
/// ```compile_fail
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
/// use windlass_controller::{Context, Desired, Owned};
///
/// async fn apply(secrets: &Owned<ConfigMap, Secret>, cx: &Context<ConfigMap>) {
///     secrets.apply(cx, Pod::default()).await;
/// }
/// ```
///
/// ```compile_fail
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
/// use windlass_controller::{Context, Owned};
///
/// fn secrets_of_a_pod(secrets: &Owned<ConfigMap, Secret>, cx: &Context<Pod>) -> usize {
///     secrets.of(cx).len()
/// }
/// ```
///
/// [`owns`](Self::owns), [`claims`](Self::claims), [`watches`](Self::watches) and
/// [`refers_to`](Self::refers_to) return handles, which the reconciler keeps to read the objects. All other methods are settings.
#[must_use = "a builder does nothing until it is built"]
pub struct ControllerBuilder<K: Watchable> {
    client: Client,
    primary: Watch<K>,
    primaries: Informers<K>,
    engine: InformerControllerBuilder,
    name: String,
    secondaries: Vec<AddSecondary<K>>,
    owned: Vec<OwnedResource>,
    triggers: Vec<Trigger>,
    finalizer: Option<String>,
    on_selector_exit: OnSelectorExit,
    predicate: Option<Box<dyn Predicate<K>>>,
    field_manager: Option<String>,
    earlier_managers: Vec<String>,
    limit: Option<Duration>,
    debounce: Option<Debounce>,
    rate: Option<Rate>,
    own_write_timeout: Duration,
    longest_interval: Option<Duration>,
    missing_kind: MissingKind,
}

// === impl ControllerBuilder ===

impl<K: Watchable> ControllerBuilder<K> {
    /// The default of [`longest_interval`](Self::longest_interval): as in controller-runtime.
    pub(crate) const DEFAULT_LONGEST_INTERVAL: Duration = Duration::from_secs(10 * 3600);

    /// The default of [`own_write_timeout`](Self::own_write_timeout): longer than a watch of a healthy
    /// API server lags, and short enough that a call is not missed.
    pub(crate) const DEFAULT_OWN_WRITE_TIMEOUT: Duration = Duration::from_secs(5);

    pub(super) fn new(client: Client, mut primary: Watch<K>) -> Self {
        let primaries = Informers::new(primary.types.clone());
        let predicate = primary.predicate.take();
        Self {
            name: resource_name::<K>(&primary.types),
            client,
            primary,
            primaries,
            engine: InformerController::builder().level_triggered(),
            secondaries: Vec::new(),
            owned: Vec::new(),
            triggers: Vec::new(),
            finalizer: None,
            on_selector_exit: OnSelectorExit::default(),
            predicate,
            field_manager: None,
            earlier_managers: Vec::new(),
            limit: None,
            debounce: None,
            rate: None,
            own_write_timeout: Self::DEFAULT_OWN_WRITE_TIMEOUT,
            longest_interval: Some(Self::DEFAULT_LONGEST_INTERVAL),
            missing_kind: MissingKind::DEFAULT,
        }
    }

    /// Sets the name: the label `controller` of the metrics, and the default of the
    /// [`field_manager`](Self::field_manager). The default is the resource of the kind, for example
    /// `websites.example.io`. Two controllers of one operator need different names.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Keeps each object with this finalizer until
    /// [`cleanup`](super::ObjectReconciler::cleanup) has succeeded. It is written before the first call. An
    /// invalid name is an error of [`build`](Self::build).
    pub fn finalizer(mut self, name: impl Into<String>) -> Self {
        self.finalizer = Some(name.into());
        self
    }

    /// Whether the objects have a finalizer.
    #[doc(hidden)]
    #[must_use]
    pub const fn has_finalizer(&self) -> bool {
        self.finalizer.is_some()
    }

    /// Adds no finalizer, as by default.
    #[doc(hidden)]
    pub fn without_finalizer(mut self) -> Self {
        self.finalizer = None;
        self
    }

    /// Sets what happens when an object with the finalizer leaves the selector of its watch. By default
    /// the finalizer is removed without a clean-up, and this is logged at `WARN`; with
    /// [`OnSelectorExit::CleanUp`] [`cleanup`](super::ObjectReconciler::cleanup) is called before.
    pub fn on_selector_exit(mut self, then: OnSelectorExit) -> Self {
        self.on_selector_exit = then;
        self
    }

    /// Sets the registry in which the finalizer has a name of its own. By default that of the operator.
    ///
    /// For an operator with controllers of several clusters, which have the same finalizer: one registry
    /// for each cluster.
    pub fn finalizer_registry(self, registry: &FinalizerRegistry) -> Self {
        self.engine(|engine| engine.finalizer_registry(registry))
    }

    /// Sets which changes of a primary object reconcile it. By default a new generation, changed
    /// labels and changed annotations; for kinds without a generation any change outside of the
    /// status. Changed finalizers, deletion marks, other kinds, triggers and retries always reconcile.
    pub fn filter(mut self, predicate: impl Predicate<K>) -> Self {
        self.predicate = Some(Box::new(predicate));
        self
    }

    /// Sets the field manager of server-side apply. The default is the [name](Self::name).
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.field_manager = Some(name.into());
        self
    }

    /// The field manager of the controller that these settings build.
    #[doc(hidden)]
    #[must_use]
    pub fn manager(&self) -> &str {
        self.field_manager.as_ref().unwrap_or(&self.name)
    }

    /// Takes over the fields of the status that `manager` has set with updates, for example the program
    /// that this one replaces: those that [`write_status`](super::Context::write_status) does not have are
    /// removed with its next write, which requires the verb `patch` for the kind. Without it the API
    /// server keeps them as the fields of another writer. Can be called several times.
    pub fn migrate_status_from(mut self, manager: impl Into<String>) -> Self {
        self.earlier_managers.push(manager.into());
        self
    }

    /// The primary objects, for example for a mapper that looks for those that an object affects. They
    /// can be read when the controller runs.
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::{ConfigMap, Node};
    /// use windlass_controller::{Controller, Watch};
    /// use windlass_informer::ObjectIdentity as _;
    ///
    /// # fn example(client: kube::Client) {
    /// let mut configs = Controller::<ConfigMap>::builder(client, Watch::all());
    /// let all = configs.informers();
    /// let nodes = configs.watches(Watch::<Node>::all(), move |node: &Node| {
    ///     let zone = node.metadata.labels.as_ref().and_then(|it| it.get("zone").cloned());
    ///     let selector = kube::core::Selector::from_iter([("zone".to_owned(), zone.unwrap_or_default())]);
    ///     let configs = all.list_matching(None, &selector);
    ///     configs.iter().map(|it| it.key()).collect::<Vec<_>>()
    /// });
    /// # drop(nodes);
    /// # }
    /// ```
    #[must_use]
    pub fn informers(&self) -> Informers<K> {
        self.primaries.clone()
    }

    /// Sets whether and when a failed call is repeated. The default is
    /// [`ExponentialBackoff::DEFAULT`](crate::ExponentialBackoff::DEFAULT), which repeats without end.
    pub fn retry_policy(self, policy: impl RetryPolicy) -> Self {
        self.engine(|engine| engine.retry_policy(policy))
    }

    /// Limits the rate of all retries, like
    /// [`InformerControllerBuilder::retry_rate`](crate::InformerControllerBuilder::retry_rate).
    pub fn retry_rate(self, per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        self.engine(|engine| engine.retry_rate(per_second, burst))
    }

    /// Sets how many objects are reconciled concurrently, at most. The default is 16.
    pub fn concurrency(self, objects: NonZeroUsize) -> Self {
        self.engine(|engine| engine.concurrency(objects))
    }

    /// Sets the time limit of one call of the reconciler. A call that exceeds it is dropped and has
    /// failed. By default there is no limit.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Calls `hook` for each failed call, instead of logging it at `ERROR`.
    pub fn on_error(self, hook: impl Fn(&ErrorReport<'_>) + Send + Sync + 'static) -> Self {
        self.engine(|engine| engine.on_error(hook))
    }

    /// Calls `hook` after each call, also if the call was dropped before its end.
    pub fn on_call(self, hook: impl Fn(&CallReport<'_>) + Send + Sync + 'static) -> Self {
        self.engine(|engine| engine.on_call(hook))
    }

    /// Sets the seed of the jitter, for tests. By default it is random.
    pub fn seed(self, seed: u64) -> Self {
        self.engine(|engine| engine.seed(seed))
    }

    /// Waits until an object had no event for `quiet`, and at most for `longest` after its first
    /// event, before it is reconciled. By default a call begins at once.
    pub fn debounce(mut self, quiet: Duration, longest: Duration) -> Self {
        self.debounce = Debounce::new(quiet, longest);
        self
    }

    /// Reconciles one object at most `calls` times in each `period`. Further events are not lost: one
    /// call follows them when the limit allows it. By default there is no limit.
    pub fn rate_limit(mut self, calls: NonZeroU32, period: Duration) -> Self {
        self.rate = Rate::new(calls.get(), period);
        self
    }

    /// Sets the longest time between two calls for an object. The default is 10 hours, spread over
    /// the objects; `None` sets no limit. It does not apply to a shared informer of the primary kind,
    /// which has a resync period of its own.
    pub fn longest_interval(mut self, every: impl Into<Option<Duration>>) -> Self {
        self.longest_interval = every.into();
        self
    }

    /// Sets how long a call for an object waits until the stores have the writes of the earlier call.
    /// Then it begins, and [`Context::is_stale`](super::Context::is_stale) returns true. The default
    /// is 5 seconds. With zero, own writes are neither waited for nor recognized: a call can see the
    /// state of a child before its last write. With `Duration::MAX` no call begins before the stores have
    /// the writes: for operators that must not repeat what an earlier call has done, such as the start of
    /// a Job. While a watch is broken, they do nothing for the objects with such writes.
    pub fn own_write_timeout(mut self, timeout: Duration) -> Self {
        self.own_write_timeout = timeout;
        self
    }

    /// Sets what happens if the API server does not know a kind, or does not allow to list it. By
    /// default the controller fails after 2 minutes, with an error that names the kind and the cause.
    pub fn missing_kind(self, then: MissingKind) -> Self {
        let builder = Self {
            missing_kind: then,
            ..self
        };
        match then {
            MissingKind::Fail { after } => {
                builder.engine(|engine| engine.cache_sync_timeout(Some(after)))
            }
            MissingKind::Wait => builder.engine(|engine| engine.cache_sync_timeout(None)),
            MissingKind::Optional => builder,
        }
    }

    fn engine(
        mut self,
        change: impl FnOnce(InformerControllerBuilder) -> InformerControllerBuilder,
    ) -> Self {
        self.engine = change(self.engine);
        self
    }
}

impl<K: Watchable> fmt::Debug for ControllerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
