//! The reconciler: applies the computed statuses and services.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use tokio::sync::{Mutex, watch};
use windlass::{Outcome, Reconciler, Request, operator::wall_clock};

use crate::{
    informers::Informers,
    plan::{Write, plan},
    snapshot::Snapshot,
};

/// Applies all statuses and services that differ from the computed ones.
///
/// It is the reconciler of every kind. Each call computes all statuses, because a deleted service
/// can affect any route. With some hundred objects this takes a millisecond. For many thousands, use
/// a [`Mapper`](windlass::Mapper) for each reference, and compute only the affected objects.
///
/// All clones share one state.
#[derive(Clone)]
pub(crate) struct StatusWriter {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    informers: Informers,
    controller: &'static str,
    /// Held by the call that writes, while the other calls wait.
    turn: Mutex<()>,
    /// The number of calls so far.
    asked: AtomicU64,
    /// The number of calls that started before the last completed write.
    answered: AtomicU64,
    written: watch::Sender<Written>,
}

/// Counts of the work so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// The number of computations of all statuses.
    pub(crate) computations: u64,
    /// The number of applied statuses and services.
    pub(crate) writes: u64,
}

/// A condition was not reached within the timeout.
#[derive(Debug, thiserror::Error)]
#[error("timed out after {}s waiting until {what}", TIMEOUT.as_secs())]
pub(crate) struct TimedOut {
    what: String,
}

/// The owner of the applied fields.
const FIELD_MANAGER: &str = "gateway-controller";

/// When a call is repeated that could not do all its work yet.
const SOON: Duration = Duration::from_millis(100);

/// The timeout of each wait; enough for a slow cluster.
const TIMEOUT: Duration = Duration::from_secs(30);

// === impl StatusWriter ===

impl<K: Send + Sync + 'static> Reconciler<K> for StatusWriter {
    type Error = kube::Error;

    async fn reconcile(&self, _: Request<K>) -> Result<Outcome, kube::Error> {
        if !self.shared.informers.has_synced() {
            return Ok(Outcome::requeue_after(SOON));
        }
        self.write_all().await
    }
}

impl StatusWriter {
    pub(crate) fn new(client: Client, informers: Informers, controller: &'static str) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                informers,
                controller,
                turn: Mutex::new(()),
                asked: AtomicU64::new(0),
                answered: AtomicU64::new(0),
                written: watch::Sender::default(),
            }),
        }
    }

    /// Applies what the objects require that existed when it was called. Calls that arrive during
    /// another call are combined into one. Requeues if an object has changed meanwhile.
    ///
    /// # Errors
    ///
    /// The error of the first failed write. The other writes are sent nevertheless.
    pub(crate) async fn write_all(&self) -> Result<Outcome, kube::Error> {
        let shared = &self.shared;
        let number = shared.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let _turn = shared.turn.lock().await;
        if shared.answered.load(Ordering::SeqCst) >= number {
            return Ok(Outcome::done());
        }
        let answers = shared.asked.load(Ordering::SeqCst);

        let mut settled = Ok(Outcome::done());
        let mut writes = 0;
        for write in self.missing_writes() {
            match self.write(&write).await {
                Ok(()) => writes += 1,
                // Its event will cause another call.
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                // Its event may have come already, and a server can have other reasons.
                Err(kube::Error::Api(status)) if status.is_conflict() => {
                    settled = settled.and(Ok(Outcome::requeue_after(SOON)));
                }
                Err(error) => settled = settled.and(Err(error)),
            }
        }
        // Also after a failed write: this call is retried, the combined calls need no retry.
        shared.answered.store(answers, Ordering::SeqCst);
        shared.written.send_modify(|written| {
            written.computations += 1;
            written.writes += writes;
        });
        settled
    }

    /// The writes that are still required.
    fn missing_writes(&self) -> Vec<Write> {
        // Like `Timestamp::now()`, but a simulation has a clock of its own.
        let now = Timestamp::try_from(wall_clock()).unwrap_or_default();
        plan(
            &self.shared.informers.snapshot(),
            self.shared.controller,
            &Time(now),
        )
    }

    /// Sends a write by server-side apply. The server keeps the fields of other writers, and
    /// removes those that this controller has applied before and does not apply now.
    async fn write(&self, write: &Write) -> Result<(), kube::Error> {
        let client = self.shared.client.clone();
        let api: Api<DynamicObject> = match write.key.namespace() {
            Some(namespace) => Api::namespaced_with(client, namespace, &write.resource),
            None => Api::all_with(client, &write.resource),
        };
        let (name, params) = (write.key.name(), PatchParams::apply(FIELD_MANAGER).force());
        let config = Patch::Apply(&write.config);
        if write.is_status() {
            api.patch_status(name, &params, &config).await?;
        } else {
            api.patch(name, &params, &config).await?;
        }
        Ok(())
    }

    /// Waits until all informers have synced and all statuses are written.
    pub(crate) async fn wait_until_written(&self) -> Result<(), TimedOut> {
        let settled = || self.shared.informers.has_synced() && self.missing_writes().is_empty();
        self.wait("all statuses are written", settled).await
    }

    /// Waits until `is` returns true for a snapshot.
    pub(crate) async fn until(
        &self,
        what: &str,
        is: impl Fn(&Snapshot) -> bool,
    ) -> Result<(), TimedOut> {
        self.wait(what, || is(&self.shared.informers.snapshot()))
            .await
    }

    /// Each change of an object causes a computation, after which `is` is called again.
    async fn wait(&self, what: &str, is: impl Fn() -> bool) -> Result<(), TimedOut> {
        let mut changes = self.shared.written.subscribe();
        let waited = tokio::time::timeout(TIMEOUT, async {
            while !is() {
                // The sender is in `self`, so this cannot fail.
                _ = changes.changed().await;
            }
        });
        waited.await.map_err(|_| TimedOut {
            what: what.to_owned(),
        })
    }

    /// Counts of the work so far.
    pub(crate) fn written(&self) -> Written {
        *self.shared.written.borrow()
    }

    /// A snapshot of all objects.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.shared.informers.snapshot()
    }
}
