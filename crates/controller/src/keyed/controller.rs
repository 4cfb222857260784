//! `ResourceController`: runs one `KeyedResource`.

use std::{
    fmt,
    num::NonZeroU32,
    sync::{Arc, atomic::AtomicUsize},
};

use prometheus::core::Collector;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_informer::panic_message;

use super::{
    KeyedResource,
    background::{self, Background},
    calls::Calls,
};
use crate::{
    AddError, Coalescing, DeleteRetry, ExponentialBackoff, Fence, FinalizerRegistry,
    InformerController, InformerControllerBuilder, InformerDiagnostics, InformerHealth, OnStop,
    RetryPolicy as _, RunError, Runnable, RunningCall, controller::numbered,
    erased_runnable::ErasedRunnable,
};

mod current;

use self::current::{Current, CurrentCollector, Runs};

/// Runs a [`KeyedResource`]: its informer, its calls, its background task and nested controllers.
///
/// # Contract
///
/// *Guaranteed.* What [`KeyedResource`] and [`InformerController`] guarantee, with these settings:
/// a failed call is repeated five times, after 5, 10, 20, 40 and 80 ms, and all calls together 100
/// times at once and then 10 times per second. After that the failure is reported, and the next
/// event or resync of the object begins anew. On a stop, the events in the queue are processed, and
/// no failed call is repeated. At most 16 calls run concurrently.
/// [`with_controller`](Self::with_controller) changes the settings.
///
/// It can be run again after a run has ended. A clone shares the runs, the health and the metrics.
///
/// # Example
///
/// ```
/// use std::{convert::Infallible, sync::Arc};
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use tokio::sync::mpsc;
/// use tokio_util::sync::CancellationToken;
/// use windlass_controller::{ResourceController, new_resource};
/// use windlass_informer::{Informer, ObjectKey, Scripted};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (script, source) = Scripted::<ConfigMap>::new();
/// let (sender, mut keys) = mpsc::channel(1);
/// let upsert = move |key: ObjectKey, _| {
///     let sender = sender.clone();
///     async move { sender.send(key.to_string()).await }
/// };
/// let delete = |_, _| async { Ok::<_, Infallible>(()) };
/// let controller = ResourceController::new(new_resource(Informer::new(source), upsert, delete));
///
/// let stop = CancellationToken::new();
/// let running = tokio::spawn({
///     let (controller, stop) = (controller.clone(), stop.clone());
///     async move { controller.run(stop).await }
/// });
/// let mut web = ConfigMap::default();
/// web.metadata.name = Some("web".into());
/// web.metadata.namespace = Some("shop".into());
/// script.list([web]).await?;
/// assert_eq!(keys.recv().await.as_deref(), Some("shop/web"));
/// assert!(controller.has_synced());
///
/// stop.cancel();
/// running.await??;
/// # Ok(())
/// # }
/// ```
#[must_use = "a controller does nothing until it is run"]
pub struct ResourceController<R: KeyedResource> {
    name: Arc<str>,
    resource: Arc<R>,
    nested: Vec<Arc<dyn ErasedRunnable>>,
    configure: Arc<Configure>,
    runs: Arc<Runs>,
}

/// Changes the settings of the controller of a run.
type Configure = dyn Fn(InformerControllerBuilder) -> InformerControllerBuilder + Send + Sync;

// === impl ResourceController ===

impl<R: KeyedResource> ResourceController<R> {
    /// The limit of all retries, per second. As in consul-k8s: the default of client-go's queues.
    const RETRIES_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).expect("not zero");

    /// The number of retries that do not wait for the limit.
    const RETRY_BURST: NonZeroU32 = NonZeroU32::new(100).expect("not zero");

    /// The default of [`with_name`](Self::with_name).
    const DEFAULT_NAME: &str = "resource-controller";

    /// Creates a controller of `resource`.
    pub fn new(resource: R) -> Self {
        static UNNAMED: AtomicUsize = AtomicUsize::new(0);
        Self {
            name: numbered(Self::DEFAULT_NAME, &UNNAMED).into(),
            resource: Arc::new(resource),
            nested: Vec::new(),
            configure: Arc::new(|builder| builder),
            runs: Arc::default(),
        }
    }

    /// Sets the name: the label `controller` of the metrics. Controllers of one operator need
    /// different names. The default is `resource-controller`, from the second controller of the
    /// process on with a number.
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self {
            name: name.into().into(),
            ..self
        }
    }

    /// Runs `child` together with this controller, and stops it with it. Its health, its metrics and
    /// its fence are those of this controller. An error of it ends the run.
    ///
    /// [`Background::run`] is for controllers that are not known before the run.
    pub fn nest(mut self, child: impl Runnable) -> Self {
        self.nested.push(Arc::new(child));
        self
    }

    /// Changes the settings: `configure` is called before each run.
    ///
    /// # Example
    ///
    /// One worker, as in consul-k8s, and a log of your own:
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// # use windlass_controller::{KeyedResource, ResourceController};
    ///
    /// # fn build<R: KeyedResource>(services: R) -> ResourceController<R> {
    /// ResourceController::new(services).with_controller(|settings| {
    ///     settings
    ///         .concurrency(NonZeroUsize::MIN)
    ///         .on_error(|report| eprintln!("{report}"))
    /// })
    /// # }
    /// ```
    pub fn with_controller(
        self,
        configure: impl Fn(InformerControllerBuilder) -> InformerControllerBuilder
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let before = self.configure;
        Self {
            configure: Arc::new(move |builder| configure(before(builder))),
            ..self
        }
    }

    /// The name of the controller.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether all objects of the first list of the current or last run are in the queue. False
    /// before the first run.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        let current = self.runs.current.lock();
        let controller = current.controller.as_ref().filter(|_| current.has_run);
        controller.is_some_and(InformerController::has_synced)
    }

    /// The newest resource version up to which no change was missed. `None` before the first run and
    /// before its first list.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> Option<String> {
        let current = self.runs.current.lock();
        let last_version = current.last_version.as_ref();
        last_version.filter(|_| current.has_run)?()
    }

    /// Runs the background task, the nested controllers and the informer, and calls the resource for
    /// its events, until `stop` is cancelled.
    ///
    /// Then it waits for the events in the queue, the nested controllers and the background task,
    /// without a limit. An operator limits the wait by its drain timeout. A stop before the informer
    /// has synced causes no call.
    ///
    /// # Errors
    ///
    /// [`RunError::AlreadyRuns`] while another run is active; [`RunError::Build`] and
    /// [`RunError::Add`] if the settings or the informer are refused; [`RunError::Nested`] if a
    /// nested controller fails; [`RunError::Background`] if the background task panics; and the
    /// errors of [`InformerController::run`]. The other tasks are stopped and joined before this
    /// returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all calls in progress, the background task and the nested
    /// controllers.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), RunError> {
        let _running = self.runs.begin()?;
        let controller = self.controller_of_new_run()?;
        let stop = stop.child_token();
        let _stop = stop.clone().drop_guard();
        let mut tasks = JoinSet::new();
        let scope = Background::new(stop.clone(), self.runs.fence.get().cloned());
        background::start(&mut tasks, Arc::clone(&self.resource), scope).await;
        for nested in &self.nested {
            let name = nested.name().to_owned();
            let running = Arc::clone(nested).run(stop.child_token());
            tasks.spawn(async move {
                let ended = running.await;
                ended.map_err(|source| RunError::Nested { name, source })
            });
        }
        let calls = stop.clone();
        tasks.spawn(async move {
            let ended = controller.run(calls.child_token()).await;
            // It ends by the stop or an error. Both end the other tasks.
            calls.cancel();
            ended
        });

        let mut outcome = Ok(());
        while let Some(ended) = tasks.join_next().await {
            let ended = ended.unwrap_or_else(|error| {
                let message = match error.try_into_panic() {
                    Ok(panic) => panic_message(panic),
                    Err(error) => error.to_string(),
                };
                Err(RunError::Broken { message })
            });
            if ended.is_err() {
                stop.cancel();
            }
            // The first error is the cause of the later ones.
            outcome = outcome.and(ended);
        }
        outcome
    }

    /// The controller of the run that begins.
    fn controller_of_new_run(&self) -> Result<InformerController, RunError> {
        let mut current = self.runs.current.lock();
        if current.has_run {
            current.controller = None;
        }
        let controller = self.current_controller(&mut current)?;
        current.has_run = true;
        Ok(controller)
    }

    /// The controller of the current or last run. Builds that of the first run.
    fn current_controller(&self, current: &mut Current) -> Result<InformerController, RunError> {
        if let Some(controller) = &current.controller {
            return Ok(controller.clone());
        }
        let retries =
            ExponentialBackoff::CONSUL.rate_limited(Self::RETRIES_PER_SECOND, Self::RETRY_BURST);
        let builder = InformerController::builder()
            .name(&*self.name)
            .coalescing(Coalescing::Always)
            // It waits for the API server, the kind and the permissions, as client-go does.
            .cache_sync_timeout(None)
            .delete_retry(DeleteRetry::UntilSuccessor)
            .retry_policy(retries)
            .on_stop(OnStop::Drain);
        let controller = (self.configure)(builder).build()?;
        let informer = self.resource.informer();
        let calls = Calls::new(Arc::clone(&self.resource), informer.store());
        let kind = controller.kind(informer.resource())?;
        controller.add_informer(&kind, &informer)?;
        controller.add_reconciler(&kind, calls)?;
        if let Some(fence) = self.runs.fence.get() {
            controller.set_fence(fence);
        }
        current.controller = Some(controller.clone());
        current.last_version = Some(Box::new(move || informer.last_sync_resource_version()));
        Ok(controller)
    }
}

impl<R: KeyedResource> Runnable for ResourceController<R> {
    type Error = RunError;

    fn name(&self) -> &str {
        self.name()
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), RunError> {
        self.run(stop).await
    }

    fn set_fence(&self, fence: &Fence) {
        _ = self.runs.fence.set(fence.clone());
        if let Some(controller) = &self.runs.current.lock().controller {
            controller.set_fence(fence);
        }
        for nested in &self.nested {
            nested.set_fence(fence);
        }
    }

    /// Those of the nested controllers: it has none of its own.
    fn register_finalizers(&self, registry: &FinalizerRegistry) -> Result<(), AddError> {
        let mut nested = self.nested.iter();
        nested.try_for_each(|nested| nested.register_finalizers(registry))
    }

    /// That of this controller and of the nested ones. Settings that cannot be built have no health;
    /// the run reports them.
    fn health(&self) -> Vec<InformerHealth> {
        let controller = self.current_controller(&mut self.runs.current.lock());
        let mut health = controller.map_or_else(|_| Vec::new(), |it| it.health());
        health.extend(self.nested.iter().flat_map(|nested| nested.health()));
        health
    }

    /// Those of this controller and of the nested ones.
    fn diagnostics(&self) -> Vec<InformerDiagnostics> {
        let controller = self.current_controller(&mut self.runs.current.lock());
        let mut all = controller.map_or_else(|_| Vec::new(), |it| it.diagnostics());
        all.extend(self.nested.iter().flat_map(|nested| nested.diagnostics()));
        all
    }

    /// Those of this controller and of the nested ones.
    fn running_calls(&self) -> Vec<RunningCall> {
        let controller = self.current_controller(&mut self.runs.current.lock());
        let mut calls = controller.map_or_else(|_| Vec::new(), |it| it.running_calls());
        calls.extend(self.nested.iter().flat_map(|nested| nested.running_calls()));
        calls
    }

    /// Those of this controller and of the nested ones. They collect from the current run.
    fn prometheus_collectors(&self) -> Vec<Box<dyn Collector>> {
        let controller = self.current_controller(&mut self.runs.current.lock());
        let own = controller.map_or_else(|_| Vec::new(), |it| it.prometheus_collectors());
        let own = own.into_iter().enumerate().map(|(at, first)| {
            let runs = Arc::clone(&self.runs);
            Box::new(CurrentCollector { runs, at, first }) as Box<dyn Collector>
        });
        let nested = self.nested.iter().flat_map(|nested| nested.collectors());
        own.chain(nested).collect()
    }
}

impl<R: KeyedResource> Clone for ResourceController<R> {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            resource: Arc::clone(&self.resource),
            nested: self.nested.clone(),
            configure: Arc::clone(&self.configure),
            runs: Arc::clone(&self.runs),
        }
    }
}

impl<R: KeyedResource> fmt::Debug for ResourceController<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceController")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
