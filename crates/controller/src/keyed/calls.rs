//! From events to calls: which method of a resource is called, with which object.

use std::{
    collections::HashSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use windlass_informer::{ObjectKey, Store};

use super::KeyedResource;
use crate::{Action, Failure, Outcome, Reconciler, Request, State};

/// The reconciler of a resource.
///
/// A delete whose key is in the store again is deferred, instead of skipped: usually the `Created`
/// of the successor cancels it, because the controller has
/// [`DeleteRetry::UntilSuccessor`](crate::DeleteRetry::UntilSuccessor). But if the successor is
/// deleted before its `Created` was dispatched, the two are coalesced to nothing, and the deferred
/// call is the only one that is left.
pub(super) struct Calls<R: KeyedResource> {
    resource: Arc<R>,
    store: Store<R::Object>,
    /// The keys with a deferred delete, until another event of the key makes it obsolete.
    deferred: Mutex<HashSet<ObjectKey>>,
}

/// The state of a deferred delete.
#[derive(Default)]
struct Deferral {
    /// Whether the resource was called. Then a retry or redrive is not obsolete.
    is_begun: AtomicBool,
}

// === impl Calls ===

impl<R: KeyedResource> Calls<R> {
    /// When a deferred delete checks the store again: long after the event of the successor, which
    /// is in the store already, has arrived.
    const DEFERRAL: Duration = Duration::from_secs(1);

    /// `store` is that of the informer whose events are reconciled.
    pub(super) fn new(resource: Arc<R>, store: Store<R::Object>) -> Self {
        Self {
            resource,
            store,
            deferred: Mutex::default(),
        }
    }

    async fn delete(&self, request: &Request<R::Object>) -> Result<Outcome, Failure> {
        let key = request.key();
        // Not a read of the object: an object that does not decode exists.
        if self.store.contains(key) {
            self.deferred.lock().insert(key.clone());
            let deferral = State::new(Deferral::default());
            return Ok(Outcome::deferred(Self::DEFERRAL).state(deferral));
        }
        let was_deferred = self.deferred.lock().remove(key);
        if let Some(deferral) = request.state().and_then(State::get::<Deferral>) {
            let is_begun = deferral.is_begun.swap(true, Ordering::Relaxed);
            if !was_deferred && !is_begun {
                // A later `Deleted` of the key has done it.
                return Ok(Outcome::done());
            }
        }
        let last = Arc::clone(request.object());
        self.resource.delete(key, last).await?;
        Ok(Outcome::done())
    }
}

impl<R: KeyedResource> Reconciler<R::Object> for Calls<R> {
    type Error = Failure;

    async fn reconcile(&self, request: Request<R::Object>) -> Result<Outcome, Failure> {
        if request.action() == Action::Deleted {
            return self.delete(&request).await;
        }
        let key = request.key();
        self.deferred.lock().remove(key);
        // If it was deleted, its `Deleted` is queued. If it does not decode, its event reports that.
        if let Some(object) = self.store.get(key) {
            self.resource.upsert(key, object).await?;
        }
        Ok(Outcome::done())
    }
}

impl<R: KeyedResource> fmt::Debug for Calls<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
