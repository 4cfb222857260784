//! The names of the crate `k8s_controller` (0.7): its programs move by their imports.
//!
//! | there | here |
//! |--|--|
//! | `k8s_controller::{Context, Controller, Error}` | the same names |
//! | `kube_runtime::controller::Action`, `kube_runtime::watcher` | [`Action`], [`watcher`] |
//! | `Controller::run` | the same, or [`Controller::run_until`], which can be stopped and reports its error. An `Operator` runs it too |
//!
//! `docs/from-k8s-controller.md` says what changes in meaning. First: a requeue from
//! [`cleanup`](Context::cleanup) keeps the finalizer.
//!
//! The trait has boxed futures, so that `#[async_trait]` implementations compile. New programs
//! implement [`ApplyCleanup`], whose methods are `async` without boxes.

use std::{
    fmt::Debug,
    num::{NonZeroU32, NonZeroUsize},
    sync::Arc,
    time::Duration,
};

use kube::{
    Api, Client,
    core::{ClusterResourceScope, NamespaceResourceScope},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    ApplyCleanup, ApplyCleanupController, Fence, InformerController, InformerControllerBuilder,
    Mapper, OnSelectorExit, Outcome, RunError, Runnable,
};
use windlass_informer::{ErrorChain, Informer, InvalidListWatch, ListWatch, Source, log};

mod context;

pub use self::context::Context;

pub use windlass_controller::ApplyCleanupError as Error;

/// The concurrency that 0 stands for: more than an API server answers at once.
const UNLIMITED: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

pub mod watcher {
    //! Which objects a controller watches.

    /// Selects the watched objects. By default all.
    #[derive(Clone, Debug, Default)]
    #[must_use]
    pub struct Config {
        pub(super) labels: Option<String>,
        pub(super) fields: Option<String>,
        pub(super) page_size: Option<u32>,
    }

    impl Config {
        /// Watches only objects with these labels.
        pub fn labels(self, selector: &str) -> Self {
            let labels = Some(selector.to_owned());
            Self { labels, ..self }
        }

        /// Watches only objects with these fields.
        pub fn fields(self, selector: &str) -> Self {
            let fields = Some(selector.to_owned());
            Self { fields, ..self }
        }

        /// Sets the number of objects in a page of a list.
        pub fn page_size(self, page_size: u32) -> Self {
            let page_size = Some(page_size);
            Self { page_size, ..self }
        }

        /// Has no effect: a watch is opened again when it ends or is silent.
        pub fn timeout(self, _timeout_secs: u32) -> Self {
            self
        }

        /// Has no effect: lists are streamed if the server supports it.
        pub fn streaming_lists(self) -> Self {
            self
        }

        /// Has no effect: the first list is consistent with the newest state.
        pub fn any_semantic(self) -> Self {
            self
        }

        /// Has no effect: a watch without bookmarks ends more often.
        pub fn disable_bookmarks(self) -> Self {
            self
        }
    }
}

/// What a controller does after a call: requeue the object, or wait for its next change.
#[derive(Clone, Debug)]
pub struct Action(Outcome);

impl Action {
    /// Requeues the object after `duration`.
    #[must_use]
    pub const fn requeue(duration: Duration) -> Self {
        Self(Outcome::requeue_after(duration))
    }

    /// Does nothing until the object changes.
    #[must_use]
    pub const fn await_change() -> Self {
        Self(Outcome::done())
    }
}

/// Equal if the delays are.
impl PartialEq for Action {
    fn eq(&self, other: &Self) -> bool {
        self.0.delay() == other.0.delay()
    }
}

impl Eq for Action {}

/// A [`Context`] in our own form.
#[doc(hidden)]
#[derive(Debug)]
pub struct Adapter<Ctx>(Arc<Ctx>);

impl<Ctx> ApplyCleanup for Adapter<Ctx>
where
    Ctx: Context + Send + Sync + 'static,
    Ctx::Error: Send + Sync + 'static,
    Ctx::Resource: kube::Resource<DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    type Resource = Ctx::Resource;
    type Error = Ctx::Error;
    const FINALIZER_NAME: &'static str = Ctx::FINALIZER_NAME;

    async fn apply(
        &self,
        client: Client,
        object: &Ctx::Resource,
    ) -> Result<Option<Outcome>, Ctx::Error> {
        Ok(self.0.apply(client, object).await?.map(|action| action.0))
    }

    async fn cleanup(
        &self,
        client: Client,
        object: &Ctx::Resource,
    ) -> Result<Option<Outcome>, Ctx::Error> {
        Ok(self.0.cleanup(client, object).await?.map(|action| action.0))
    }

    fn success_outcome(&self, object: &Ctx::Resource) -> Outcome {
        self.0.success_action(object).0
    }

    fn error_outcome(
        self: Arc<Self>,
        object: Arc<Ctx::Resource>,
        error: &Error<Ctx::Error>,
        consecutive_errors: u32,
    ) -> Outcome {
        let context = Arc::clone(&self.0);
        context.error_action(object, error, consecutive_errors).0
    }
}

/// Watches the objects of a kind, and calls a [`Context`] for them.
#[must_use = "a controller does nothing until it is run"]
#[derive(Debug)]
pub struct Controller<Ctx>
where
    Adapter<Ctx>: ApplyCleanup,
{
    controller: ApplyCleanupController<Adapter<Ctx>>,
    /// Why the selectors of the config are invalid.
    invalid: Option<InvalidListWatch>,
}

type ResourceOf<Ctx> = <Adapter<Ctx> as ApplyCleanup>::Resource;

impl<Ctx> Controller<Ctx>
where
    Adapter<Ctx>: ApplyCleanup,
{
    /// Watches one namespace.
    pub fn namespaced(client: Client, context: Ctx, namespace: &str, wc: watcher::Config) -> Self
    where
        ResourceOf<Ctx>: kube::Resource<Scope = NamespaceResourceScope>,
    {
        let api = Api::namespaced(client.clone(), namespace);
        Self::over(client, context, &api, wc)
    }

    /// Watches all namespaces.
    pub fn namespaced_all(client: Client, context: Ctx, wc: watcher::Config) -> Self
    where
        ResourceOf<Ctx>: kube::Resource<Scope = NamespaceResourceScope>,
    {
        let api = Api::all(client.clone());
        Self::over(client, context, &api, wc)
    }

    /// Watches a cluster-scoped kind.
    pub fn cluster(client: Client, context: Ctx, wc: watcher::Config) -> Self
    where
        ResourceOf<Ctx>: kube::Resource<Scope = ClusterResourceScope>,
    {
        let api = Api::all(client.clone());
        Self::over(client, context, &api, wc)
    }

    fn over(client: Client, context: Ctx, api: &Api<ResourceOf<Ctx>>, wc: watcher::Config) -> Self {
        let all = || match wc.page_size.and_then(NonZeroU32::new) {
            Some(size) => ListWatch::new(api.clone()).page_size(size),
            None => ListWatch::new(api.clone()),
        };
        // An empty selector selects everything.
        let is_set = |selector: &String| !selector.is_empty();
        let selected = match wc.labels.filter(is_set) {
            Some(labels) => all().labels(labels),
            None => Ok(all()),
        };
        let selected = selected.and_then(|it| match wc.fields.filter(is_set) {
            Some(fields) => it.fields(fields),
            None => Ok(it),
        });
        let (objects, invalid) = match selected {
            Ok(objects) => (objects, None),
            Err(invalid) => (all(), Some(invalid)),
        };
        Self {
            controller: ApplyCleanupController::new(client, Adapter(Arc::new(context)), objects),
            invalid,
        }
    }

    /// Sets how many objects are processed concurrently. The default is 16; 0 means 1,024.
    pub fn with_concurrency(self, concurrency: u16) -> Self {
        let objects = NonZeroUsize::new(concurrency.into()).unwrap_or(UNLIMITED);
        self.with_controller(move |settings| settings.concurrency(objects))
    }

    /// Sets the name: the label `controller` of the metrics.
    pub fn with_name(self, name: impl Into<String>) -> Self {
        let controller = self.controller.with_name(name);
        Self { controller, ..self }
    }

    /// Adds no finalizer, like [`ApplyCleanupController::without_finalizer`]: for a context whose
    /// `FINALIZER_NAME` is `None` in later versions of the other crate.
    pub fn without_finalizer(self) -> Self {
        let controller = self.controller.without_finalizer();
        Self { controller, ..self }
    }

    /// Sets what happens to an object that leaves the selector of the config, like
    /// [`ApplyCleanupController::on_selector_exit`].
    pub fn on_selector_exit(self, then: OnSelectorExit) -> Self {
        let controller = self.controller.on_selector_exit(then);
        Self { controller, ..self }
    }

    /// Calls `apply` for the owners of each object of `children` that changes.
    pub fn owns<K>(self, children: impl Source<K>) -> Self
    where
        K: kube::Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        let controller = self.controller.owns(children);
        Self { controller, ..self }
    }

    /// Calls `apply` for the objects that `mapper` returns when an object of `informer` changes.
    pub fn watches<K>(self, informer: &Informer<K>, mapper: impl Mapper<K> + Clone) -> Self
    where
        K: kube::Resource + Send + Sync + 'static,
    {
        let controller = self.controller.watches(informer, mapper);
        Self { controller, ..self }
    }

    /// Changes the settings of the controller. That of the other crate takes the controller of
    /// kube-runtime, for example for [`owns`](Self::owns).
    pub fn with_controller(
        self,
        f: impl Fn(InformerControllerBuilder) -> InformerControllerBuilder + Send + Sync + 'static,
    ) -> Self {
        let controller = self.controller.with_controller(f);
        Self { controller, ..self }
    }

    /// Runs until the process ends. An error is logged.
    pub async fn run(self) {
        if let Err(error) = self.run_until(CancellationToken::new()).await {
            log::error!(
                component = "k8s_controller",
                error = %ErrorChain::new(&error),
                "the controller ended"
            );
        }
    }

    /// Runs until `stop` is cancelled.
    ///
    /// # Errors
    ///
    /// [`RunError::Selector`] if a selector of the config is invalid, and the errors of
    /// [`ApplyCleanupController::run`].
    pub async fn run_until(&self, stop: CancellationToken) -> Result<(), RunError> {
        if let Some(source) = self.invalid.clone() {
            return Err(RunError::Selector { source });
        }
        self.controller.run(stop).await
    }
}

impl<Ctx> Runnable for Controller<Ctx>
where
    Adapter<Ctx>: ApplyCleanup,
    Ctx: Send + Sync + 'static,
{
    type Error = RunError;

    fn name(&self) -> &str {
        self.controller.name()
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), RunError> {
        self.run_until(stop).await
    }

    fn set_fence(&self, fence: &Fence) {
        self.controller.set_fence(fence);
    }

    fn informer_controller(&self) -> Option<InformerController> {
        self.controller.informer_controller()
    }
}
