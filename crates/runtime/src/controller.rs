//! `Controller`: the builder of kube-runtime, and what its stream yields.

use std::{fmt::Debug, hash::Hash, sync::Arc};

use futures::{
    Stream, TryFuture,
    future::{BoxFuture, FutureExt as _},
    stream::BoxStream,
};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use windlass_informer::Informer;

// Settings and results.
mod action;
mod config;
mod debounce;

// What is watched.
mod delays;
mod informers;
mod key_queue;
mod primary;
mod secondaries;
mod shared_streams;
mod streams;
mod triggers;
mod watch_errors;

// The calls.
mod call;
mod run;
mod start;
mod tasks;

#[doc(inline)]
pub use kube::runtime::controller::{Error, ReconcileReason, RunnerError};

pub use self::{action::Action, config::Config};
use self::{
    call::Calls,
    delays::Delays,
    primary::Primary,
    run::{Closures, Reconciled},
    secondaries::Secondary,
    start::Start,
    watch_errors::WatchErrors,
};
use crate::{
    reflector::{ObjectRef, Store, store::keys},
    utils::Backoff,
    watcher,
};

/// Calls a reconciler for the objects of a kind when they, or objects that are related to them,
/// change.
///
/// It has the methods of `kube::runtime::Controller` with the same meaning. `docs/from-kube-rs.md`
/// lists the differences.
///
/// # Contract
///
/// *Guaranteed.*
/// - **Serialized per object.** No two calls for one object overlap, and all causes that arrive
///   before a call begins lead to one call.
/// - **The newest object.** A call gets the newest object of the [`store`](Self::store) at its
///   begin.
/// - **After sync.** No call begins before the store of the controlled kind is complete.
/// - **No delete is lost.** A delete of an owned or watched object in a gap of the watch also leads
///   to a call for its owner, or for the objects that the mapper returns.
/// - **Isolated.** Each watch has its own backoff. A call that panics is logged and repeated after a
///   backoff, and affects no other call. A stream of the program that panics ends the stream of
///   [`run`](Self::run) with an error, because its changes would be lost.
/// - **Bounded.** At most 64 calls run at the same time, or as many as
///   [`Config::concurrency`] says.
///
/// *Required.* The stream of [`run`](Self::run) is polled: calls begin only while it is. A stream
/// that is not polled delays no watch and loses no change. Dropping it aborts all calls.
///
/// *Not guaranteed.* A call for a deleted object: use a [`finalizer`](crate::finalizer()).
pub struct Controller<K>
where
    K: Clone + Resource + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    dyntype: K::DynamicType,
    primary: Primary<K>,
    secondaries: Vec<Secondary<K>>,
    triggers: Vec<BoxStream<'static, triggers::Trigger>>,
    shutdowns: Vec<BoxFuture<'static, ()>>,
    ends_on_signal: bool,
    delays: Arc<Delays>,
    errors: Arc<WatchErrors>,
    config: Config,
}

// === impl Controller ===

impl<K> Controller<K>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// Creates a controller of the objects of `main_api` that `wc` selects.
    ///
    /// The label and field selectors and the page size of `wc` are used. The first list is always
    /// consistent, and streamed if the server supports it, so that the other settings of `wc` have no
    /// effect.
    #[must_use]
    pub fn new(main_api: Api<K>, wc: watcher::Config) -> Self
    where
        K::DynamicType: Default,
    {
        Self::new_with(main_api, wc, K::DynamicType::default())
    }

    /// Creates a controller of a kind that is known only at run time, for example of a
    /// [`DynamicObject`](kube::api::DynamicObject) with its [`ApiResource`](kube::api::ApiResource).
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the signature of kube-runtime"
    )]
    pub fn new_with(main_api: Api<K>, wc: watcher::Config, dyntype: K::DynamicType) -> Self {
        let (delays, errors) = (Arc::<Delays>::default(), Arc::<WatchErrors>::default());
        let source = informers::source(main_api, dyntype.clone(), &wc, &delays);
        let informer = informers::of(source, &errors);
        let primary = Primary::informer(informer);
        Self::of(primary, dyntype, delays, errors)
    }

    fn of(
        primary: Primary<K>,
        dyntype: K::DynamicType,
        delays: Arc<Delays>,
        errors: Arc<WatchErrors>,
    ) -> Self {
        Self {
            dyntype,
            primary,
            secondaries: Vec::new(),
            triggers: Vec::new(),
            shutdowns: Vec::new(),
            ends_on_signal: false,
            delays,
            errors,
            config: Config::default(),
        }
    }

    /// Sets the debounce and the concurrency.
    #[must_use]
    pub fn with_config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the waits between failed attempts of each watch of this controller.
    ///
    /// Each watch has its own position in the delays of `backoff`, so that one that fails does not
    /// delay the others. When `backoff` ends, its last delay is repeated; kube-runtime closes the
    /// controller then. A delay of less than 1 ms counts as 1 ms.
    #[must_use]
    pub fn trigger_backoff(self, backoff: impl Backoff + 'static) -> Self {
        self.delays.replace(backoff);
        self
    }

    /// The objects that the controller sees. Can be called before [`run`](Self::run).
    pub fn store(&self) -> Store<K> {
        self.primary.store().clone()
    }

    /// Also calls the reconciler for the owner when an object of `api` changes that has a `K` in its
    /// `ownerReferences`. `wc` selects the objects. Only their metadata is requested and kept.
    #[must_use]
    pub fn owns<Child>(self, api: Api<Child>, wc: watcher::Config) -> Self
    where
        Child:
            Clone + Resource<DynamicType = ()> + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.owns_with(api, (), wc)
    }

    /// Like [`owns`](Self::owns), for a kind that is known only at run time.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the signature of kube-runtime"
    )]
    pub fn owns_with<Child>(
        mut self,
        api: Api<Child>,
        dyntype: Child::DynamicType,
        wc: watcher::Config,
    ) -> Self
    where
        Child: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
        Child::DynamicType: Debug + Eq + Hash + Clone,
    {
        let source = informers::source(api, dyntype.clone(), &wc, &self.delays);
        let informer = informers::metadata(source, &self.errors);
        let owners = windlass_controller::Owners::of::<K>(&self.dyntype);
        self.add_secondary(informers::name::<Child>(&dyntype), informer, owners);
        self
    }

    /// Also calls the reconciler for the objects that `mapper` returns when an object of `api`
    /// changes. `wc` selects the objects.
    ///
    /// For a changed object `mapper` is called with the old and with the new state, so that both
    /// targets of a reference that moved are reconciled.
    #[must_use]
    pub fn watches<Other, I>(
        self,
        api: Api<Other>,
        wc: watcher::Config,
        mapper: impl Fn(Other) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
        Other::DynamicType: Default + Debug + Clone + Eq + Hash,
        I: 'static + IntoIterator<Item = ObjectRef<K>>,
        I::IntoIter: Send,
    {
        self.watches_with(api, Other::DynamicType::default(), wc, mapper)
    }

    /// Like [`watches`](Self::watches), for a kind that is known only at run time.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the signature of kube-runtime"
    )]
    pub fn watches_with<Other, I>(
        mut self,
        api: Api<Other>,
        dyntype: Other::DynamicType,
        wc: watcher::Config,
        mapper: impl Fn(Other) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
        I: 'static + IntoIterator<Item = ObjectRef<K>>,
        I::IntoIter: Send,
        Other::DynamicType: Debug + Clone + Eq + Hash,
    {
        let source = informers::source(api, dyntype.clone(), &wc, &self.delays);
        let informer: Informer<Other> = informers::of(source, &self.errors);
        let mapper = move |other: &Other| {
            let refs = mapper(other.clone()).into_iter();
            refs.flat_map(|target| keys(&target)).collect::<Vec<_>>()
        };
        self.add_secondary(informers::name::<Other>(&dyntype), informer, mapper);
        self
    }

    /// Starts a graceful shutdown when `trigger` resolves: the watches end, no other call begins, and
    /// the stream ends after the running calls. Of several triggers the first one counts.
    #[must_use]
    pub fn graceful_shutdown_on(
        mut self,
        trigger: impl Future<Output = ()> + Send + Sync + 'static,
    ) -> Self {
        self.shutdowns.push(trigger.boxed());
        self
    }

    /// Starts a graceful shutdown on Ctrl+C, and on Unix on SIGTERM. A second signal ends the stream
    /// at once and aborts the running calls at their next `await`.
    ///
    /// The default handling of these signals stays disabled after the controller has ended, until the
    /// process ends.
    #[must_use]
    pub fn shutdown_on_signal(mut self) -> Self {
        self.ends_on_signal = true;
        self
    }

    /// Returns the stream that runs the controller. Nothing happens before its first poll, which must
    /// be within a tokio runtime.
    ///
    /// It yields one item for each call: the object and the action, or
    /// [`ReconcilerFailed`](Error::ReconcilerFailed) after `error_policy` has returned the action for
    /// the error. It also yields a [`QueueError`](Error::QueueError) for each failed attempt of a
    /// watch, of which at most the newest 64 wait to be read. A call that panics yields nothing: it is
    /// logged, and repeated after a backoff.
    ///
    /// `reconciler` and `error_policy` are called while the stream is polled. The future of a call
    /// runs on the runtime.
    pub fn run<ReconcilerFut, Ctx>(
        self,
        reconciler: impl FnMut(Arc<K>, Arc<Ctx>) -> ReconcilerFut,
        error_policy: impl Fn(Arc<K>, &ReconcilerFut::Error, Arc<Ctx>) -> Action,
        context: Arc<Ctx>,
    ) -> impl Stream<Item = Result<(ObjectRef<K>, Action), Error<ReconcilerFut::Error, watcher::Error>>>
    where
        K::DynamicType: Debug + Unpin,
        ReconcilerFut: TryFuture<Ok = Action> + Send + 'static,
        ReconcilerFut::Error: std::error::Error + Send + 'static,
    {
        let (calls, requests) = Calls::new(self.config.debounce, self.dyntype.clone());
        let closures = Closures {
            reconciler,
            error_policy,
            context,
        };
        Reconciled::new(Start::new(self, calls), requests, closures)
    }
}

impl<K> Debug for Controller<K>
where
    K: Clone + Resource + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller")
            .field("kind", &K::kind(&self.dyntype))
            .field("secondaries", &self.secondaries.len())
            .field("triggers", &self.triggers.len())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
