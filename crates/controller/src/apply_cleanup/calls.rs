//! The reconcilers of an `ApplyCleanup`: the calls, and around the finalizer the errors.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use kube::{Client, Resource as _};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_informer::{Event, ObjectKey, Uid, log};

use super::{ApplyCleanup, ApplyCleanupError};
use crate::{
    Action, Failure, Fence, FenceClosed, FinalizerError, FinalizerIdentity, Outcome, Predicate,
    Reconciler, Request,
};

/// What all calls share.
pub(super) struct Calls<C> {
    pub(super) context: Arc<C>,
    client: Client,
    /// The client of the calls if there is a fence. Built in the first call, within the runtime.
    fenced: OnceLock<Client>,
    fence: OnceLock<Fence>,
    /// Only of objects with an error or an unfinished clean-up.
    records: Mutex<HashMap<Option<Uid>, Record>>,
}

/// What is remembered of one object (its uid).
#[derive(Default)]
struct Record {
    consecutive_errors: u32,
    /// When its clean-up was first requeued, or last warned about.
    cleaning_since: Option<Instant>,
}

/// Calls `apply` and `cleanup`.
pub(super) struct Inner<C>(pub(super) Arc<Calls<C>>);

/// Asks `error_outcome` about each error of `reconciler`: those of the calls, and those of the
/// finalizer around them.
pub(super) struct Outer<C, R> {
    pub(super) calls: Arc<Calls<C>>,
    pub(super) reconciler: R,
}

// === impl Calls ===

impl<C: ApplyCleanup> Calls<C> {
    /// How long a clean-up may request requeues before it is warned about.
    const LONG_CLEAN_UP: Duration = Duration::from_secs(3600);

    pub(super) fn new(client: Client, context: C) -> Self {
        Self {
            context: Arc::new(context),
            client,
            fenced: OnceLock::new(),
            fence: OnceLock::new(),
            records: Mutex::default(),
        }
    }

    pub(super) const fn unfenced(&self) -> &Client {
        &self.client
    }

    pub(super) fn set_fence(&self, fence: &Fence) {
        _ = self.fence.set(fence.clone());
    }

    fn client(&self) -> Client {
        let Some(fence) = self.fence.get() else {
            return self.client.clone();
        };
        let fenced = || fence.client(self.client.clone());
        self.fenced.get_or_init(fenced).clone()
    }

    /// Notes that the clean-up after `object` has not finished.
    fn note_unfinished(&self, object: &C::Resource) {
        let now = Instant::now();
        let is_long = {
            let mut records = self.records.lock();
            let record = records.entry(Uid::of(object)).or_default();
            let since = record.cleaning_since.get_or_insert(now);
            let is_long = now.duration_since(*since) >= Self::LONG_CLEAN_UP;
            if is_long {
                *since = now;
            }
            is_long
        };
        if is_long {
            log::warn!(
                component = "ApplyCleanup",
                key = %ObjectKey::of(object),
                finalizer = C::FINALIZER_NAME,
                marked_at = ?object.meta().deletion_timestamp,
                "a clean-up has requested requeues for an hour, and keeps its object"
            );
        }
    }

    /// Notes a call without an error.
    fn note_success(&self, uid: Option<&Uid>, is_finished: bool) {
        let mut records = self.records.lock();
        // Usually no object has an error.
        if records.is_empty() {
            return;
        }
        let uid = uid.cloned();
        if let Some(record) = records.get_mut(&uid) {
            record.consecutive_errors = 0;
            if is_finished {
                records.remove(&uid);
            }
        }
    }

    /// Counts an error. Returns the number of earlier ones.
    fn count_error(&self, uid: Option<&Uid>) -> u32 {
        let mut records = self.records.lock();
        let record = records.entry(uid.cloned()).or_default();
        let earlier = record.consecutive_errors;
        record.consecutive_errors = earlier.saturating_add(1);
        earlier
    }
}

// === impl Inner ===

impl<C: ApplyCleanup> Reconciler<C::Resource> for Inner<C> {
    type Error = Failure;

    async fn reconcile(&self, request: Request<C::Resource>) -> Result<Outcome, Failure> {
        let (calls, object) = (&*self.0, &**request.object());
        let context = &calls.context;
        if request.action() != Action::Deleted {
            let applied = context.apply(calls.client(), object).await;
            let outcome = applied.map_err(ApplyCleanupError::ApplyFailed)?;
            return Ok(outcome.unwrap_or_else(|| context.success_outcome(object)));
        }
        let cleaned = context.cleanup(calls.client(), object).await;
        match cleaned.map_err(ApplyCleanupError::CleanupFailed)? {
            None => {
                // Its delay would keep the object for ever: it is not performed.
                let _ = context.success_outcome(object);
                Ok(Outcome::done())
            }
            Some(outcome) => {
                if outcome.delay().is_some() {
                    calls.note_unfinished(object);
                }
                Ok(outcome)
            }
        }
    }
}

// === impl Outer ===

impl<C, R> Outer<C, R>
where
    C: ApplyCleanup,
{
    /// Decides what follows from `failure`.
    fn fail(&self, object: &Arc<C::Resource>, is_deleted: bool, failure: Failure) -> Failure {
        let (source, state, ..) = failure.into_parts();
        let failed = |source| {
            let failure = Failure::new(source);
            match state.clone() {
                Some(state) => failure.state(state),
                None => failure,
            }
        };
        if FenceClosed::find(&*source).is_some() {
            // The lease ended. The engine repeats the call under the next one.
            return failed(source);
        }
        let error = match source.downcast::<ApplyCleanupError<C::Error>>() {
            Ok(error) => *error,
            Err(source) => match source.downcast::<FinalizerError>() {
                Ok(error) if error.is_removal() => ApplyCleanupError::RemoveFinalizer(*error),
                Ok(error) => ApplyCleanupError::AddFinalizer(*error),
                Err(source) => return failed(source),
            },
        };
        let uid = Uid::of(&**object);
        let earlier = self.calls.count_error(uid.as_ref());
        let context = Arc::clone(&self.calls.context);
        let outcome = context.error_outcome(Arc::clone(object), &error, earlier);
        let failure = failed(Box::new(error));
        if let Some(delay) = outcome.delay() {
            return failure.retry_after(delay);
        }
        if is_deleted {
            self.calls.note_success(uid.as_ref(), true);
        }
        failure.permanent()
    }
}

impl<C, R> Reconciler<C::Resource> for Outer<C, R>
where
    C: ApplyCleanup,
    R: Reconciler<C::Resource, Error = Failure>,
{
    type Error = Failure;

    async fn reconcile(&self, request: Request<C::Resource>) -> Result<Outcome, Failure> {
        let object = Arc::clone(request.object());
        let is_deleted = request.action() == Action::Deleted;
        match self.reconciler.reconcile(request).await {
            Ok(outcome) => {
                let is_cleaning = outcome.delay().is_some()
                    && (is_deleted || object.meta().deletion_timestamp.is_some());
                let uid = Uid::of(&*object);
                self.calls.note_success(uid.as_ref(), !is_cleaning);
                Ok(outcome)
            }
            Err(failure) => Err(self.fail(&object, is_deleted, failure)),
        }
    }

    fn predicates(&self) -> Vec<&dyn Predicate<C::Resource>> {
        self.reconciler.predicates()
    }

    fn finalizer(&self) -> Option<&FinalizerIdentity> {
        self.reconciler.finalizer()
    }

    fn needs(&self, event: &Event<C::Resource>) -> bool {
        self.reconciler.needs(event)
    }
}

impl<C, R: fmt::Debug> fmt::Debug for Outer<C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Outer").field(&self.reconciler).finish()
    }
}
