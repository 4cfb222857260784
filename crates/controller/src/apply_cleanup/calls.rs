//! The reconcilers of an `ApplyCleanup`: the calls, and around the finalizer the errors.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
};

use kube::{Client, Resource as _};
use parking_lot::Mutex;
use windlass_informer::Uid;

use super::{ApplyCleanup, ApplyCleanupError};
use crate::{
    Action, Failure, Fence, FenceClosed, FinalizerError, FinalizerHook, Outcome, Predicate,
    Reconciler, Request, reconciler::Instructions,
};

/// What all calls share.
pub(super) struct Calls<C> {
    pub(super) context: Arc<C>,
    client: Client,
    /// The client of the calls if there is a fence. Built in the first call, within the runtime.
    fenced: OnceLock<Client>,
    fence: OnceLock<Fence>,
    /// The errors in a row, by uid. Only of objects whose last call has failed.
    errors: Mutex<HashMap<Option<Uid>, u32>>,
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
    pub(super) fn new(client: Client, context: C) -> Self {
        Self {
            context: Arc::new(context),
            client,
            fenced: OnceLock::new(),
            fence: OnceLock::new(),
            errors: Mutex::default(),
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

    /// Counts an error. Returns the number of earlier ones in a row.
    fn count_error(&self, uid: Option<&Uid>) -> u32 {
        let mut errors = self.errors.lock();
        let count = errors.entry(uid.cloned()).or_default();
        let earlier = *count;
        *count = earlier.saturating_add(1);
        earlier
    }

    /// Forgets the errors of an object.
    fn forget_errors(&self, uid: Option<&Uid>) {
        let mut errors = self.errors.lock();
        // Usually no object has an error.
        if !errors.is_empty() {
            errors.remove(&uid.cloned());
        }
    }
}

// === impl Inner ===

impl<C: ApplyCleanup> Reconciler<C::Resource> for Inner<C> {
    type Error = Failure;

    async fn reconcile(&self, request: Request<C::Resource>) -> Result<Outcome, Failure> {
        let (calls, object) = (&*self.0, &**request.object());
        let context = &calls.context;
        if request.action() != Action::Deleted {
            // Without a finalizer of ours, only its end is of interest.
            if object.meta().deletion_timestamp.is_some() {
                return Ok(Outcome::done());
            }
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
            Some(outcome) => Ok(outcome),
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
        let (source, instructions) = failure.into_parts();
        let kept = Instructions {
            state: instructions.state,
            inner_action: instructions.inner_action,
            ..Instructions::default()
        };
        let failed = |source| Failure::with(source, kept);
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
            self.calls.forget_errors(uid.as_ref());
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
                self.calls.forget_errors(Uid::of(&*object).as_ref());
                Ok(outcome)
            }
            Err(failure) => Err(self.fail(&object, is_deleted, failure)),
        }
    }

    fn predicates(&self) -> Vec<&dyn Predicate<C::Resource>> {
        self.reconciler.predicates()
    }

    fn finalizer(&self) -> Option<FinalizerHook<'_, C::Resource>> {
        self.reconciler.finalizer()
    }
}

impl<C, R: fmt::Debug> fmt::Debug for Outer<C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Outer").field(&self.reconciler).finish()
    }
}
