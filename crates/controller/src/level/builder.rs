//! The builder of a `Controller`.

use std::{
    fmt,
    num::{NonZeroU32, NonZeroUsize},
    sync::{Arc, OnceLock},
    time::Duration,
};

use kube::{Api, Client};
use serde::Serialize;
use windlass_informer::{ObjectKey, resource_name};

use super::{
    Controller, ControllerBuildError, Informers, ObjectReconciler, Trigger, Watch, Watchable,
    adapter::LevelAdapter,
    debounce::Debounce,
    filter::Filter,
    handler::{Calls, LevelHandler},
    handles::{Owned, OwnersOrParent, Referred, Related},
    own::OwnWriteTracker,
    pace::Paces,
    rate::Rate,
    references::{self, Referrers},
    setup::Setup,
    triggers::Target,
};
use crate::{
    AddError, CallReport, ErrorReport, FinalizerName, Finalizers, InformerController,
    InformerControllerBuilder, Kind, Mapper, Owners, Predicate, RetryPolicy,
    children::{ChildKind, ParentOf},
};

/// Configures and builds a [`Controller`].
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
/// [`owns`](Self::owns), [`watches`](Self::watches) and [`refers_to`](Self::refers_to) return handles, which the reconciler keeps
/// to read the objects. All other methods are settings.
#[must_use = "a builder does nothing until it is built"]
pub struct ControllerBuilder<K: Watchable> {
    client: Client,
    primary: Watch<K>,
    primaries: Informers<K>,
    engine: InformerControllerBuilder,
    name: String,
    secondaries: Vec<AddSecondary<K>>,
    triggers: Vec<Trigger>,
    finalizer: Option<String>,
    predicate: Option<Box<dyn Predicate<K>>>,
    field_manager: Option<String>,
    limit: Option<Duration>,
    debounce: Option<Debounce>,
    rate: Option<Rate>,
    own_write_timeout: Duration,
    longest_interval: Option<Duration>,
}

/// Adds the informers and the mapper of a secondary kind. Called once the engine exists.
type AddSecondary<K> = Box<
    dyn FnOnce(
            &InformerController,
            &Kind<K>,
            &Client,
            &OwnWriteTracker,
        ) -> Result<(), ControllerBuildError>
        + Send,
>;

// === impl ControllerBuilder ===

impl<K: Watchable> ControllerBuilder<K> {
    /// The default of [`longest_interval`](Self::longest_interval): as in controller-runtime.
    pub(crate) const DEFAULT_LONGEST_INTERVAL: Duration = Duration::from_secs(10 * 3600);

    /// The default of [`own_write_timeout`](Self::own_write_timeout): longer than a watch of a healthy
    /// API server lags, and short enough that a call is not missed.
    pub(crate) const DEFAULT_OWN_WRITE_TIMEOUT: Duration = Duration::from_secs(5);

    pub(super) fn new(client: Client, primary: Watch<K>) -> Self {
        let primaries = Informers::new(primary.types.clone());
        Self {
            name: resource_name::<K>(&primary.types),
            client,
            primary,
            primaries,
            engine: InformerController::builder().level_triggered(),
            secondaries: Vec::new(),
            triggers: Vec::new(),
            finalizer: None,
            predicate: None,
            field_manager: None,
            limit: None,
            debounce: None,
            rate: None,
            own_write_timeout: Self::DEFAULT_OWN_WRITE_TIMEOUT,
            longest_interval: Some(Self::DEFAULT_LONGEST_INTERVAL),
        }
    }

    /// Watches the objects of kind `C` that objects of kind `K` own: a change, creation or deletion
    /// of one reconciles its owners.
    pub fn owns<C: Watchable>(&mut self, children: Watch<C>) -> Owned<K, C> {
        let index = Owned::<K, C>::index(&children.types);
        let kind = ChildKind::of::<C>(&children.types);
        let owners = OwnersOrParent {
            owners: Owners::of::<K>(self.primaries.types()),
            parent: ParentOf::of::<K>(self.primaries.types(), kind),
        };
        Owned::new(self.add_secondary(children.index(&index), owners), index)
    }

    /// Watches objects of kind `O`: a change of one reconciles the objects of kind `K` whose keys
    /// `mapper` returns for its old and for its new state.
    ///
    /// If a `K` names the `O`, use [`refers_to`](Self::refers_to).
    pub fn watches<O: Watchable>(
        &mut self,
        others: Watch<O>,
        mapper: impl Mapper<O>,
    ) -> Related<K, O> {
        Related::new(self.add_secondary(others, mapper))
    }

    /// Watches objects of kind `O` to which objects of kind `K` refer, for example the `Secret` that
    /// a spec names: a change of one reconciles the objects that refer to it.
    ///
    /// `references` returns the keys to which an object refers: none, one, or several. The primary
    /// objects are indexed by them, so there is no mapper and no scan.
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
    /// use windlass_controller::{Controller, Watch};
    /// use windlass_informer::ObjectKey;
    ///
    /// # fn example(client: kube::Client) {
    /// let mut pods = Controller::<Pod>::builder(client, Watch::all());
    /// let accounts = pods.refers_to(Watch::<ServiceAccount>::all(), |pod: &Pod| {
    ///     let name = pod.spec.as_ref()?.service_account_name.clone()?;
    ///     Some(ObjectKey::new(name).within(pod.metadata.namespace.clone()?))
    /// });
    /// # drop(accounts);
    /// # }
    /// ```
    pub fn refers_to<O, F, I>(&mut self, others: Watch<O>, references: F) -> Referred<K, O>
    where
        O: Watchable,
        F: Fn(&K) -> I + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectKey>,
    {
        let keys = references::references(references);
        let referrers = Referrers::new(&self.primaries, Arc::clone(&keys));
        Referred::new(self.add_secondary(others, referrers), keys)
    }

    /// Reconciles objects for another cause: a stream, an interval, or a handle.
    pub fn trigger(&mut self, when: impl Into<Trigger>) -> &mut Self {
        self.triggers.push(when.into());
        self
    }

    /// Adds a watch with a mapper to the primary kind.
    fn add_secondary<O: Watchable>(
        &mut self,
        watch: Watch<O>,
        mapper: impl Mapper<O>,
    ) -> Informers<O> {
        let informers = Informers::new(watch.types.clone());
        let added = informers.clone();
        self.secondaries
            .push(Box::new(move |controller, primary, client, own| {
                let resource = resource_name::<O>(added.types());
                let kind = new_kind::<O>(controller, &resource)?;
                added.attach(controller, kind.clone(), client, None, watch)?;
                own.watch(&added);
                controller.add_mapper(&kind, primary, mapper)?;
                Ok(())
            }));
        informers
    }

    /// Sets the name: the label `controller` of the metrics, and the default of the
    /// [`field_manager`](Self::field_manager). The default is the resource of the kind, for example
    /// `websites.example.io`. Two controllers of one operator need different names.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Keeps each object with this finalizer until
    /// [`cleanup`](ObjectReconciler::cleanup) has succeeded. It is written before the first call. An
    /// invalid name is an error of [`build`](Self::build).
    pub fn finalizer(mut self, name: impl Into<String>) -> Self {
        self.finalizer = Some(name.into());
        self
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

    /// Sets whether and when a failed call is repeated. The default is
    /// [`ExponentialBackoff::DEFAULT`](crate::ExponentialBackoff::DEFAULT), which repeats without end.
    pub fn retry_policy(self, policy: impl RetryPolicy) -> Self {
        self.engine(|engine| engine.retry_policy(policy))
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
    /// is 5 seconds. With zero, own writes are neither waited for nor recognized.
    pub fn own_write_timeout(mut self, timeout: Duration) -> Self {
        self.own_write_timeout = timeout;
        self
    }

    /// Sets what happens if the API server does not know a kind, or does not allow to list it. By
    /// default the controller fails after 2 minutes, with an error that names the kind and the cause.
    pub fn missing_kind(self, then: MissingKind) -> Self {
        let timeout = match then {
            MissingKind::Fail { after } => Some(after),
            MissingKind::Wait => None,
        };
        self.engine(|engine| engine.cache_sync_timeout(timeout))
    }

    fn engine(
        mut self,
        change: impl FnOnce(InformerControllerBuilder) -> InformerControllerBuilder,
    ) -> Self {
        self.engine = change(self.engine);
        self
    }

    /// Builds the controller, which calls `reconciler`.
    ///
    /// # Errors
    ///
    /// [`ControllerBuildError`] if the finalizer or a selector is invalid, if a shared informer has
    /// run before and lacks an index, or if an informer was added twice.
    pub fn build<R>(self, reconciler: R) -> Result<Controller<K>, ControllerBuildError>
    where
        K: Serialize,
        R: ObjectReconciler<K>,
    {
        let finalizer = self.finalizer.map(FinalizerName::new).transpose()?;
        let types = self.primaries.types().clone();
        let api = Api::<K>::all_with(self.client.clone(), &types);
        let finalizers = finalizer.map(|name| Finalizers::of(api, &types, name));
        let finalizers = finalizers.transpose()?;
        let filtered = finalizers.as_ref().map(Finalizers::again);
        let controller = self.engine.name(self.name.clone()).build()?;
        let primary = controller.kind::<K>(&resource_name::<K>(&types))?;
        self.primaries.attach(
            &controller,
            primary.clone(),
            &self.client,
            self.longest_interval,
            self.primary,
        )?;
        let own = Arc::new(OwnWriteTracker::new(self.own_write_timeout));
        own.watch(&self.primaries);
        controller.track(&own);
        for add in self.secondaries {
            add(&controller, &primary, &self.client, &own)?;
        }
        let fence = Arc::new(OnceLock::new());
        let setup = Setup::new(
            self.field_manager.unwrap_or_else(|| self.name.clone()),
            self.primaries.clone(),
            controller.downgrade(),
            Arc::clone(&fence),
            own,
            self.client.clone(),
        );
        let setup = Arc::new(setup);
        let calls = Calls {
            setup: Arc::clone(&setup),
            reconciler,
            limit: self.limit,
        };
        let paces = Paces::new(self.debounce, self.rate);
        let handler = LevelHandler::new(paces, calls, finalizers);
        let calls = Arc::clone(&handler.calls);
        let filter = Filter {
            finalizers: filtered,
            needs_finalizer: Box::new(move |object: &K| calls.needs_finalizer(object)),
            predicate: self.predicate,
        };
        let passes = Box::new(move |event: &_| filter.passes(event));
        let code = LevelAdapter::<K, _>::new(controller.downgrade(), handler).filtered(passes);
        controller.add_erased(&primary, Box::new(code))?;
        _ = setup.kind.set(primary.id());
        let target = Target {
            engine: controller.downgrade(),
            kind: primary.id(),
        };
        let triggers = self.triggers.into_iter();
        let tasks = triggers.filter_map(|trigger| trigger.task(target.clone()));
        let tasks = tasks.collect();
        Ok(Controller::new(controller, self.primaries, fence, tasks))
    }
}

/// What happens if the API server does not know a kind of a controller, or does not allow to list
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKind {
    /// The controller fails after this time without progress. The error names the kind, the request
    /// and the response.
    Fail {
        /// The time.
        after: Duration,
    },
    /// No call begins until the kind can be listed.
    Wait,
}

/// A kind for a further watch of `resource`: with a number, if another watch has the name.
fn new_kind<O: Watchable>(
    controller: &InformerController,
    resource: &str,
) -> Result<Kind<O>, AddError> {
    /// More watches of one resource than a controller has.
    const MOST: u32 = 1000;
    controller.kind(resource).or_else(|taken| {
        let names = (2..MOST).map(|number| format!("{resource}-{number}"));
        let free = names
            .map(|name| controller.kind(&name))
            .find_map(Result::ok);
        free.ok_or(taken)
    })
}

impl<K: Watchable> fmt::Debug for ControllerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
