//! `ApplyCleanupController`: runs one `ApplyCleanup`.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicUsize},
};

use kube::{Client, Resource};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use windlass_informer::{Informer, Source, Store};

use super::{
    ApplyCleanup,
    calls::{Calls, Inner, Outer},
};
use crate::{
    AddError, Coalescing, ExponentialBackoff, Fence, FinalizerName, FinalizerTiming, Finalizers,
    InformerController, InformerControllerBuilder, Kind, Mapper, OnSelectorExit,
    OpinionatedReconciler, Owners, RunError, Runnable, controller::numbered,
};

/// Runs an [`ApplyCleanup`] over the objects of a source.
///
/// # Contract
///
/// *Guaranteed.* What [`ApplyCleanup`] and [`InformerController`] guarantee, with these settings:
/// waiting events of an object are always coalesced, and panics and time-outs are repeated without
/// end as [`ExponentialBackoff::K8S_CONTROLLER`] says. At most 16 objects are processed
/// concurrently. [`with_controller`](Self::with_controller) changes the settings.
///
/// *Required.* It is run once. The permissions of [`Finalizers`].
///
/// # Example
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_controller::{ApplyCleanup, ApplyCleanupController};
/// use kube::{Api, Client};
/// use tokio_util::sync::CancellationToken;
///
/// # async fn run<C: ApplyCleanup<Resource = ConfigMap>>(publish: C) -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::try_default().await?;
/// let configs = Api::<ConfigMap>::namespaced(client.clone(), "shop");
/// let controller = ApplyCleanupController::new(client, publish, configs);
/// controller.run(CancellationToken::new()).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a controller does nothing until it is run"]
pub struct ApplyCleanupController<C: ApplyCleanup> {
    name: String,
    calls: Arc<Calls<C>>,
    informer: Informer<C::Resource>,
    has_finalizer: bool,
    on_selector_exit: OnSelectorExit,
    configure: Box<Configure>,
    related: Vec<Box<Related<C::Resource>>>,
    /// Built at the first use, after all settings.
    built: Mutex<Option<InformerController>>,
}

type Configure = dyn Fn(InformerControllerBuilder) -> InformerControllerBuilder + Send + Sync;

/// Adds an informer and a mapper for this kind to the controller.
type Related<K> = dyn Fn(&InformerController, &Kind<K>) -> Result<(), AddError> + Send + Sync;

// === impl ApplyCleanupController ===

impl<C: ApplyCleanup> ApplyCleanupController<C> {
    /// The default of [`with_name`](Self::with_name).
    const DEFAULT_NAME: &str = "apply-cleanup-controller";

    /// Creates a controller for the objects of `objects`, for example an `Api` or a `ListWatch` with
    /// selectors. The calls get `client`, which also writes the finalizers.
    pub fn new(client: Client, context: C, objects: impl Source<C::Resource>) -> Self {
        static UNNAMED: AtomicUsize = AtomicUsize::new(0);
        Self {
            name: numbered(Self::DEFAULT_NAME, &UNNAMED),
            calls: Arc::new(Calls::new(client, context)),
            informer: Informer::new(objects),
            has_finalizer: true,
            on_selector_exit: OnSelectorExit::default(),
            configure: Box::new(|builder| builder),
            related: Vec::new(),
            built: Mutex::default(),
        }
    }

    /// Adds no finalizer. Then `cleanup` is called after an object was deleted, with its last state,
    /// and not for objects that were deleted while no controller ran. An object that is marked for
    /// deletion, and that the finalizer of another program keeps, gets no call before its end.
    pub fn without_finalizer(self) -> Self {
        Self {
            has_finalizer: false,
            ..self
        }
    }

    /// Sets what happens to an object that leaves the selector of the objects. By default its finalizer
    /// is removed without a clean-up, and this is logged at `WARN`: with
    /// [`OnSelectorExit::CleanUp`] it is cleaned up before. Without a finalizer it has no effect.
    pub fn on_selector_exit(self, then: OnSelectorExit) -> Self {
        Self {
            on_selector_exit: then,
            ..self
        }
    }

    /// Sets the name: the label `controller` of the metrics. Controllers of one operator need
    /// different names. The default is `apply-cleanup-controller`, from the second controller of the
    /// process on with a number.
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    /// Changes the settings of the controller.
    pub fn with_controller(
        self,
        configure: impl Fn(InformerControllerBuilder) -> InformerControllerBuilder
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let before = self.configure;
        Self {
            configure: Box::new(move |builder| configure(before(builder))),
            ..self
        }
    }

    /// Calls `apply` for the owners of each object of `children` that changes.
    pub fn owns<K>(self, children: impl Source<K>) -> Self
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        self.watches(&Informer::new(children), Owners::of::<C::Resource>(&()))
    }

    /// Calls `apply` for the objects that `mapper` returns when an object of `informer` changes.
    pub fn watches<K>(mut self, informer: &Informer<K>, mapper: impl Mapper<K> + Clone) -> Self
    where
        K: Resource + Send + Sync + 'static,
    {
        let informer = informer.clone();
        self.related.push(Box::new(move |controller, to| {
            let kind = format!("{} of {}", informer.resource(), to.name());
            let kind = controller.kind::<K>(&kind)?;
            controller.add_informer(&kind, &informer)?;
            controller.add_mapper(&kind, to, mapper.clone())?;
            Ok(())
        }));
        self
    }

    /// The store of the objects.
    pub fn store(&self) -> Store<C::Resource> {
        self.informer.store()
    }

    /// The name of the controller.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs until `stop` is cancelled, like [`InformerController::run`].
    ///
    /// # Errors
    ///
    /// [`RunError::Finalizer`] if Kubernetes would reject the name of the finalizer;
    /// [`RunError::Build`] and [`RunError::Add`] if the settings are refused; and the errors of
    /// [`InformerController::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all calls in progress.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), RunError> {
        let controller = self.controller()?;
        controller.run(stop).await
    }

    fn controller(&self) -> Result<InformerController, RunError> {
        let mut built = self.built.lock();
        if let Some(controller) = &*built {
            return Ok(controller.clone());
        }
        let builder = InformerController::builder()
            .name(&*self.name)
            .coalescing(Coalescing::Always)
            // It waits for the API server, the kinds and the permissions, without an end.
            .cache_sync_timeout(None)
            .retry_policy(ExponentialBackoff::K8S_CONTROLLER);
        let controller = (self.configure)(builder).build()?;
        let kind = controller.kind::<C::Resource>(self.informer.resource())?;
        controller.add_informer(&kind, &self.informer)?;
        let (calls, inner) = (Arc::clone(&self.calls), Inner(Arc::clone(&self.calls)));
        if self.has_finalizer {
            let name = FinalizerName::new(C::FINALIZER_NAME)?;
            let finalizers = Finalizers::new(self.calls.unfenced().clone(), name)?;
            let reconciler = OpinionatedReconciler::new(finalizers, inner)
                .finalizer_timing(FinalizerTiming::BeforeFirstCall)
                .on_selector_exit(self.on_selector_exit)
                .only_held();
            controller.add_reconciler(&kind, Outer { calls, reconciler })?;
        } else {
            let reconciler = inner;
            controller.add_reconciler(&kind, Outer { calls, reconciler })?;
        }
        for related in &self.related {
            related(&controller, &kind)?;
        }
        *built = Some(controller.clone());
        Ok(controller)
    }
}

impl<C: ApplyCleanup> Runnable for ApplyCleanupController<C> {
    type Error = RunError;

    fn name(&self) -> &str {
        self.name()
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), RunError> {
        self.run(stop).await
    }

    /// Also for the client of the calls, and for the finalizers.
    fn set_fence(&self, fence: &Fence) {
        self.calls.set_fence(fence);
        if let Ok(controller) = self.controller() {
            controller.set_fence(fence);
        }
    }

    /// Settings that cannot be built have none; the run reports them.
    fn informer_controller(&self) -> Option<InformerController> {
        self.controller().ok()
    }
}

impl<C: ApplyCleanup> fmt::Debug for ApplyCleanupController<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApplyCleanupController")
            .field("name", &self.name)
            .field("informer", &self.informer)
            .finish_non_exhaustive()
    }
}
