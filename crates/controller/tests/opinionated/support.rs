//! An operator that can be restarted, with a simulated server.

use std::{fmt::Display, sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    Action, ExponentialBackoff, FinalizerName, Finalizers, InformerController,
    InformerControllerBuilder, Kind, OpinionatedReconciler, OpinionatedWatcher, Outcome,
    Reconciler, Request, RunError, SimpleWatcher, Watcher,
};
use windlass_informer::{Informer, Scripted};

use crate::world::{OWN, World};

/// The error of a handler that is scripted to fail.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) &'static str);

/// The calls and writes, in order.
#[derive(Clone, Default)]
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    /// The calls that fail, such as `add`, once for each entry.
    failing: Arc<Mutex<Vec<&'static str>>>,
    /// The effects during calls, by the line of the call.
    during: Arc<Mutex<Vec<(&'static str, Effect)>>>,
}

type Effect = Box<dyn FnOnce() + Send>;

/// A world, and what happened in it.
pub(crate) struct Rig {
    pub(crate) world: World,
    pub(crate) log: Log,
}

/// A running operator.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

// === impl Log ===

impl Log {
    pub(crate) fn say(&self, line: impl Display) {
        self.lines.lock().push(line.to_string());
    }

    /// Waits until all tasks are idle, and returns the lines since the last call.
    pub(crate) async fn take(&self) -> String {
        settle().await;
        std::mem::take(&mut *self.lines.lock()).join(", ")
    }

    /// Makes the next call of `what` fail. Several entries make several calls fail.
    pub(crate) fn fail(&self, what: &'static str) {
        self.failing.lock().push(what);
    }

    /// Makes no further call fail.
    pub(crate) fn succeed(&self) {
        self.failing.lock().clear();
    }

    /// Runs `effect` during the next call that says `line`.
    pub(crate) fn during(&self, line: &'static str, effect: impl FnOnce() + Send + 'static) {
        self.during.lock().push((line, Box::new(effect)));
    }

    pub(crate) fn call(&self, what: &str, line: impl Display) -> Result<(), Refused> {
        let line = line.to_string();
        self.say(&line);
        let mut during = self.during.lock();
        if let Some(at) = during.iter().position(|(it, _)| *it == line) {
            let (_, effect) = during.remove(at);
            effect();
        }
        drop(during);
        let mut failing = self.failing.lock();
        match failing.iter().position(|it| *it == what) {
            Some(at) => {
                failing.remove(at);
                Err(Refused("not yet"))
            }
            None => Ok(()),
        }
    }

    /// A watcher that says what it receives.
    pub(crate) fn watcher(&self) -> SimpleWatcher<Lease> {
        let (add, update, delete) = (self.clone(), self.clone(), self.clone());
        SimpleWatcher::new()
            .on_add(move |object: Arc<Lease>| {
                ready(add.call("add", format_args!("add {}", show(&object))))
            })
            .on_update(move |old: Arc<Lease>, new: Arc<Lease>| {
                let line = format!("update {} {}", show(&old), show(&new));
                ready(update.call("update", line))
            })
            .on_delete(move |terminating: Arc<Lease>| {
                ready(delete.call("delete", format_args!("delete {}", show(&terminating))))
            })
    }

    /// A reconciler that records its requests.
    pub(crate) fn reconciler(&self) -> impl Reconciler<Lease> + use<> {
        let log = self.clone();
        move |request: Request<Lease>| {
            let word = word(request.action());
            let done = log.call(word, format_args!("{word} {}", show(request.object())));
            async move { done.map(|()| Outcome::done()) }
        }
    }
}

// === impl Rig ===

impl Rig {
    pub(crate) fn new() -> Self {
        let log = Log::default();
        Self {
            world: World::new(log.clone()),
            log,
        }
    }

    /// Our finalizer, written in this world.
    pub(crate) fn finalizers(&self) -> Finalizers<Lease> {
        let name = FinalizerName::new(OWN).expect("a name");
        Finalizers::new(self.world.clone(), name).expect("a finalizer")
    }

    /// The watcher of most tests.
    pub(crate) fn watcher(&self) -> OpinionatedWatcher<Lease, SimpleWatcher<Lease>> {
        let log = self.log.clone();
        OpinionatedWatcher::new(self.finalizers(), self.log.watcher()).sync(
            move |object: Arc<Lease>| {
                ready(log.call("sync", format_args!("sync {}", show(&object))))
            },
        )
    }

    /// The reconciler of most tests.
    pub(crate) fn reconciler(
        &self,
    ) -> OpinionatedReconciler<Lease, impl Reconciler<Lease> + use<>> {
        OpinionatedReconciler::new(self.finalizers(), self.log.reconciler())
    }

    pub(crate) async fn watch(&self, watcher: impl Watcher<Lease>) -> Running {
        let controller = builder().build().expect("good settings");
        let leases = controller.kind("leases").expect("a new kind");
        controller.add_watcher(&leases, watcher).expect("added");
        self.start(controller, &leases, None).await
    }

    pub(crate) async fn reconcile(&self, reconciler: impl Reconciler<Lease>) -> Running {
        let controller = builder().build().expect("good settings");
        let leases = controller.kind("leases").expect("a new kind");
        let added = controller.add_reconciler(&leases, reconciler);
        added.expect("added");
        self.start(controller, &leases, None).await
    }

    /// Starts an operator with this resync period in seconds.
    pub(crate) async fn start(
        &self,
        controller: InformerController,
        leases: &Kind<Lease>,
        resync: Option<u64>,
    ) -> Running {
        let (script, source) = Scripted::new();
        let resync = Duration::from_secs(resync.unwrap_or_default());
        let informer = Informer::builder(source).resync(resync).build();
        controller.add_informer(leases, &informer).expect("added");
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (controller, stop) = (controller.clone(), stop.clone());
            async move { controller.run(stop).await }
        });
        self.world.tell(script).await;
        Running { stop, task }
    }

    /// Waits until all tasks are idle, and returns the lines since the last call.
    pub(crate) async fn logged(&self) -> String {
        self.log.take().await
    }
}

// === impl Running ===

impl Running {
    /// Stops the operator in good order.
    pub(crate) async fn stop(self, rig: &Rig) {
        rig.world.hush().await;
        self.stop.cancel();
        let ended = self.task.await.expect("it does not panic");
        ended.expect("it stops");
    }

    /// Ends the operator at once, whatever it is doing.
    pub(crate) async fn crash(self, rig: &Rig) {
        self.task.abort();
        _ = self.task.await;
        rig.world.hush().await;
    }
}

/// A controller that reports nothing.
pub(crate) fn builder() -> InformerControllerBuilder {
    InformerController::builder()
        .retry_policy(ExponentialBackoff::GRAFANA)
        .on_error(|_| {})
}

/// An object as `name=value`.
pub(crate) fn show(object: &Lease) -> String {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let value = object
        .spec
        .as_ref()
        .and_then(|spec| spec.lease_duration_seconds);
    format!("{name}={}", value.unwrap_or_default())
}

pub(crate) fn word(action: Action) -> &'static str {
    match action {
        Action::Created => "created",
        Action::Updated => "updated",
        Action::Deleted => "deleted",
        _ => "resynced",
    }
}

/// A future of what is there.
pub(crate) async fn ready<T>(value: T) -> T {
    std::future::ready(value).await
}

/// Waits until every task waits: paused time moves only then.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Lets time pass.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
