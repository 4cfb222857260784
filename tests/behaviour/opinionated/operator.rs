//! An operator with a finalizer that tests can restart and crash.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, ResourceExt as _};
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass::{
    Action, ExponentialBackoff, FinalizerName, Finalizers, Informer, InformerController, ListWatch,
    ObjectKey, OpinionatedReconciler, OpinionatedWatcher, Outcome, Reconciler, Request,
    SimpleWatcher, Watcher,
    controller::{Kind, RunError},
    finalizer::{FinalizerPatch, PatchClient},
};

use crate::{cluster::Cluster, kinds::value, watched::quick};

/// What a handler says when it is to fail.
#[derive(Debug, thiserror::Error)]
#[error("not yet")]
pub(super) struct NotYet;

/// What has been called, in order. Clones are the same.
#[derive(Clone)]
pub(super) struct Log {
    name: &'static str,
    lines: watch::Sender<Vec<String>>,
    failing: Arc<AtomicU32>,
}

/// An operator that runs.
pub(super) struct Running {
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<(), RunError>>,
}

/// A client that does not respond any more after a number of writes, as if the operator had
/// crashed.
#[derive(Clone)]
pub(super) struct Crashing {
    client: Client,
    after: u32,
    writes: Arc<AtomicU32>,
    pub(super) crashed: Arc<Notify>,
}

// === impl Log ===

impl Log {
    pub(super) fn new() -> Self {
        Self::of("")
    }

    /// The log of one of several operators.
    pub(super) fn of(name: &'static str) -> Self {
        Self {
            name,
            lines: watch::Sender::new(Vec::new()),
            failing: Arc::default(),
        }
    }

    /// Lets the next `calls` calls fail.
    pub(super) fn fail(&self, calls: u32) {
        self.failing.store(calls, Ordering::SeqCst);
    }

    fn call(&self, what: &str, object: &ConfigMap) -> Result<(), NotYet> {
        let line = format!(
            "{}{what} {}={}",
            self.name,
            object.name_any(),
            value(object)
        );
        let fewer = |left: u32| left.checked_sub(1);
        // Before the call is seen: a test that sees it may ask the next ones to fail.
        let fails = (self.failing).fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
        self.lines.send_modify(|lines| lines.push(line));
        match fails {
            Ok(_) => Err(NotYet),
            Err(_) => Ok(()),
        }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// The number of times that `line` was recorded.
    pub(super) fn count(&self, line: &str) -> usize {
        self.lines.borrow().iter().filter(|it| *it == line).count()
    }

    /// Waits until `line` was recorded.
    pub(super) async fn until(&self, line: &str) {
        self.until_times(1, line).await;
    }

    /// Waits until `line` was recorded `times` times.
    pub(super) async fn until_times(&self, times: usize, line: &str) {
        let mut lines = self.lines.subscribe();
        let is_logged =
            |lines: &Vec<String>| lines.iter().filter(|it| *it == line).count() >= times;
        _ = lines.wait_for(is_logged).await;
    }

    pub(super) fn watcher(&self) -> SimpleWatcher<ConfigMap> {
        let (add, update, delete) = (self.clone(), self.clone(), self.clone());
        SimpleWatcher::new()
            .on_add(move |object: Arc<ConfigMap>| ready(add.call("add", &object)))
            .on_update(move |_: Arc<ConfigMap>, new: Arc<ConfigMap>| {
                ready(update.call("update", &new))
            })
            .on_delete(move |dying: Arc<ConfigMap>| ready(delete.call("delete", &dying)))
    }

    pub(super) fn reconciler(&self) -> impl Reconciler<ConfigMap> + use<> {
        let log = self.clone();
        move |request: Request<ConfigMap>| {
            let word = match request.action() {
                Action::Created => "created",
                Action::Updated => "updated",
                Action::Deleted => "deleted",
                _ => "resynced",
            };
            let done = log.call(word, request.object());
            ready(done.map(|()| Outcome::done()))
        }
    }

    /// A watcher with a finalizer, written by `client`.
    pub(super) fn opinionated_watcher(
        &self,
        client: impl PatchClient<ConfigMap>,
        finalizer: &str,
    ) -> OpinionatedWatcher<ConfigMap, SimpleWatcher<ConfigMap>> {
        let log = self.clone();
        OpinionatedWatcher::new(finalizers(client, finalizer), self.watcher())
            .sync(move |object: Arc<ConfigMap>| ready(log.call("sync", &object)))
    }

    /// A reconciler with a finalizer, written by `client`.
    pub(super) fn opinionated_reconciler<C: PatchClient<ConfigMap>>(
        &self,
        client: C,
        finalizer: &str,
    ) -> OpinionatedReconciler<ConfigMap, impl Reconciler<ConfigMap> + use<C>> {
        OpinionatedReconciler::new(finalizers(client, finalizer), self.reconciler())
    }
}

// === impl Running ===

impl Running {
    pub(super) fn watch(source: ListWatch<ConfigMap>, watcher: impl Watcher<ConfigMap>) -> Self {
        let controller = controller();
        let configs = controller.kind("configs").expect("a new kind");
        controller.add_watcher(&configs, watcher).expect("added");
        Self::start(source, controller, &configs)
    }

    pub(super) fn reconcile(
        source: ListWatch<ConfigMap>,
        reconciler: impl Reconciler<ConfigMap>,
    ) -> Self {
        let controller = controller();
        let configs = controller.kind("configs").expect("a new kind");
        let added = controller.add_reconciler(&configs, reconciler);
        added.expect("added");
        Self::start(source, controller, &configs)
    }

    fn start(
        source: ListWatch<ConfigMap>,
        controller: InformerController,
        configs: &Kind<ConfigMap>,
    ) -> Self {
        let informer = Informer::new(source);
        controller.add_informer(configs, &informer).expect("added");
        let stop = CancellationToken::new();
        let run = {
            let stop = stop.clone();
            async move { controller.run(stop).await }
        };
        Self {
            stop,
            task: AbortOnDropHandle::new(tokio::spawn(run)),
        }
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        let ended = self.task.await.expect("no panic");
        ended.expect("it stops");
    }

    /// Ends it at once, whatever it is doing.
    pub(super) async fn crash(self) {
        self.task.abort();
        _ = self.task.await;
    }
}

/// The config maps of this test that it has made itself.
pub(super) async fn source(cluster: &Cluster) -> ListWatch<ConfigMap> {
    let source = quick(cluster.api::<ConfigMap>().await);
    // The real server keeps a config map of its own in each namespace, if its controllers run.
    source
        .fields("metadata.name!=kube-root-ca.crt")
        .expect("a selector")
}

fn finalizers(client: impl PatchClient<ConfigMap>, name: &str) -> Finalizers<ConfigMap> {
    let name = FinalizerName::new(name).expect("a name");
    Finalizers::new(client, name).expect("a finalizer")
}

/// A controller that tries again soon, and for long.
fn controller() -> InformerController {
    InformerController::builder()
        .retry_policy(ExponentialBackoff::new(Duration::from_millis(20), 10))
        .on_error(|_| {})
        .build()
        .expect("good settings")
}

/// A future of what is there.
fn ready<T: Send>(value: T) -> impl Future<Output = T> + Send {
    std::future::ready(value)
}

// === impl Crashing ===

impl Crashing {
    pub(super) fn after(client: Client, after: u32) -> Self {
        Self {
            client,
            after,
            writes: Arc::default(),
            crashed: Arc::default(),
        }
    }
}

impl PatchClient<ConfigMap> for Crashing {
    async fn patch(
        &self,
        key: &ObjectKey,
        patch: &FinalizerPatch,
    ) -> Result<ConfigMap, kube::Error> {
        let write = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if write > self.after && self.after > 0 {
            // What has crashed writes no more, though its tasks do not all end at once.
            return std::future::pending().await;
        }
        let answer = PatchClient::patch(&self.client, key, patch).await;
        if write == self.after {
            self.crashed.notify_one();
            return std::future::pending().await;
        }
        answer
    }

    async fn get(&self, key: &ObjectKey) -> Result<ConfigMap, kube::Error> {
        PatchClient::get(&self.client, key).await
    }
}
