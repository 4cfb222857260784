//! Settling: conditions become written status.

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
    core::ApiResource,
};
use tokio::sync::{Mutex, watch};
use windlass::{Outcome, Reconciler, Request};

use crate::{
    api::{Gateway, GatewayClass},
    informers::Informers,
    plan::{Kind, StatusWrite, plan},
    snapshot::Snapshot,
};

/// Writes the statuses that are not as they should be.
///
/// It reconciles objects of every kind, and always in the same way: it looks at everything,
/// since a service that goes away may concern any route. With some hundred objects that
/// takes a millisecond; with many thousands a [`Mapper`](windlass::Mapper) for each reference
/// would name the objects that a change concerns, and each would be judged on its own.
///
/// Clones are the same one.
#[derive(Clone)]
pub(crate) struct Settle {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    informers: Informers,
    controller: &'static str,
    /// Held by the call that settles, while the others wait for it.
    turn: Mutex<()>,
    /// How many calls there were.
    asked: AtomicU64,
    /// Of those, how many came before something was settled.
    answered: AtomicU64,
    written: watch::Sender<Written>,
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// How often everything was looked at.
    pub(crate) looks: u64,
    /// How many statuses were written.
    pub(crate) statuses: u64,
}

/// It did not come to be in time.
#[derive(Debug, thiserror::Error)]
#[error("timed out after {}s waiting until {what}", PATIENCE.as_secs())]
pub(crate) struct InVain {
    what: String,
}

/// Enough for a cluster that is slow.
const PATIENCE: Duration = Duration::from_secs(30);

// === impl Settle ===

impl<K: Send + Sync + 'static> Reconciler<K> for Settle {
    type Error = kube::Error;

    async fn reconcile(&self, _: Request<K>) -> Result<Outcome, kube::Error> {
        const SOON: Duration = Duration::from_millis(100);
        if !self.shared.informers.has_synced() {
            return Ok(Outcome::requeue_after(SOON));
        }
        self.settle().await.map(|()| Outcome::done())
    }
}

impl Settle {
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

    /// Settles what was there when it was called. Calls that come while another one settles
    /// are answered together by the next.
    ///
    /// # Errors
    ///
    /// What the API server said to the first write that failed; the others were made all the
    /// same.
    pub(crate) async fn settle(&self) -> Result<(), kube::Error> {
        let shared = &self.shared;
        let number = shared.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let _turn = shared.turn.lock().await;
        if shared.answered.load(Ordering::SeqCst) >= number {
            return Ok(());
        }
        let answers = shared.asked.load(Ordering::SeqCst);

        let mut settled = Ok(());
        let mut statuses = 0;
        for write in self.open() {
            match self.write(&write).await {
                Ok(()) => statuses += 1,
                // It has changed, or is gone; the informer is about to tell us.
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
                Err(error) => settled = settled.and(Err(error)),
            }
        }
        // Also if a write failed: it is ours to be retried, not everybody's who waits.
        shared.answered.store(answers, Ordering::SeqCst);
        shared.written.send_modify(|written| {
            written.looks += 1;
            written.statuses += statuses;
        });
        settled
    }

    /// The writes that are still missing.
    fn open(&self) -> Vec<StatusWrite> {
        let now = Time(Timestamp::now());
        plan(
            &self.shared.informers.snapshot(),
            self.shared.controller,
            &now,
        )
    }

    async fn write(&self, write: &StatusWrite) -> Result<(), kube::Error> {
        let resource = match write.kind {
            Kind::Class => ApiResource::erase::<GatewayClass>(&()),
            Kind::Gateway => ApiResource::erase::<Gateway>(&()),
            Kind::Route(kind) => kind.resource(),
        };
        let client = self.shared.client.clone();
        let api: Api<DynamicObject> = match write.key.namespace() {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        let patch = Patch::Merge(&write.patch);
        api.patch_status(write.key.name(), &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Waits until everything is known, and said as it should be.
    pub(crate) async fn settled(&self) -> Result<(), InVain> {
        let settled = || self.shared.informers.has_synced() && self.open().is_empty();
        self.wait("all statuses are written", settled).await
    }

    /// Waits until `is` is true of what is there.
    pub(crate) async fn until(
        &self,
        what: &str,
        is: impl Fn(&Snapshot) -> bool,
    ) -> Result<(), InVain> {
        self.wait(what, || is(&self.shared.informers.snapshot()))
            .await
    }

    /// Every change of an object has us look at everything, so a look is when to ask again.
    async fn wait(&self, what: &str, is: impl Fn() -> bool) -> Result<(), InVain> {
        let mut looks = self.shared.written.subscribe();
        let waited = tokio::time::timeout(PATIENCE, async {
            while !is() {
                // The sender lives as long as we do, so waiting cannot fail.
                _ = looks.changed().await;
            }
        });
        waited.await.map_err(|_| InVain {
            what: what.to_owned(),
        })
    }

    /// What was done so far.
    pub(crate) fn written(&self) -> Written {
        *self.shared.written.borrow()
    }

    /// Everything that is there.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.shared.informers.snapshot()
    }
}
