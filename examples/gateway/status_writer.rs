//! The reconciler: applies the computed statuses and services.

use std::time::Duration;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use tokio::sync::watch;
use windlass::{Outcome, Reconciler, Request, operator::wall_clock};

use crate::{
    TIMEOUT,
    api::GatewayClass,
    informers::Informers,
    plan::{Write, plan},
    snapshot::Snapshot,
};

/// Applies all statuses and services that differ from the computed ones.
///
/// It is called for the class to which all events are mapped. Each call computes all statuses,
/// because a deleted service can affect any route. With some hundred objects this takes a
/// millisecond. For many thousands, use a [`Mapper`](windlass::Mapper) for each reference, and
/// compute only the affected objects.
///
/// All clones share one state.
#[derive(Clone)]
pub(crate) struct StatusWriter {
    client: Client,
    informers: Informers,
    controller: &'static str,
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

/// When a call is repeated whose write was in conflict.
const SOON: Duration = Duration::from_millis(100);

// === impl StatusWriter ===

impl Reconciler<GatewayClass> for StatusWriter {
    type Error = kube::Error;

    async fn reconcile(&self, request: Request<GatewayClass>) -> Result<Outcome, kube::Error> {
        match self.informers.first_class() {
            // That one has a call of its own.
            Some(first) if first != *request.key() => Ok(Outcome::done()),
            _ => self.write_all().await,
        }
    }
}

impl StatusWriter {
    pub(crate) fn new(client: Client, informers: Informers, controller: &'static str) -> Self {
        Self {
            client,
            informers,
            controller,
            written: watch::Sender::default(),
        }
    }

    /// Applies what the objects require. Requeues if an object has changed meanwhile.
    ///
    /// # Errors
    ///
    /// The error of the first failed write. The other writes are sent nevertheless.
    pub(crate) async fn write_all(&self) -> Result<Outcome, kube::Error> {
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
        self.written.send_modify(|written| {
            written.computations += 1;
            written.writes += writes;
        });
        settled
    }

    /// The writes that are still required.
    fn missing_writes(&self) -> Vec<Write> {
        // Like `Timestamp::now()`, but a simulation has a clock of its own.
        let now = Timestamp::try_from(wall_clock()).unwrap_or_default();
        plan(&self.informers.snapshot(), self.controller, &Time(now))
    }

    /// Sends a write by server-side apply. The server keeps the fields of other writers, and
    /// removes those that this controller has applied before and does not apply now.
    async fn write(&self, write: &Write) -> Result<(), kube::Error> {
        let client = self.client.clone();
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

    /// Waits until all statuses are written. The first call begins after all first lists.
    pub(crate) async fn wait_until_written(&self) -> Result<(), TimedOut> {
        let settled = || self.written().computations > 0 && self.missing_writes().is_empty();
        self.wait("all statuses are written", settled).await
    }

    /// Waits until `is` returns true for a snapshot.
    pub(crate) async fn until(
        &self,
        what: &str,
        is: impl Fn(&Snapshot) -> bool,
    ) -> Result<(), TimedOut> {
        self.wait(what, || is(&self.informers.snapshot())).await
    }

    /// Each change of an object causes a computation, after which `is` is called again.
    async fn wait(&self, what: &str, is: impl Fn() -> bool) -> Result<(), TimedOut> {
        let mut changes = self.written.subscribe();
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
        *self.written.borrow()
    }

    /// A snapshot of all objects.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.informers.snapshot()
    }
}
