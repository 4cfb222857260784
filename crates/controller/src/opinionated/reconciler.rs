//! `OpinionatedReconciler`: wraps a reconciler with a finalizer, so that it misses no deletion.

mod calls;
mod wrapper_call;

use std::{fmt, sync::Arc};

use kube::Resource;
use serde::Serialize;

use super::{
    finalizer_state::FinalizerState,
    next_step::{Settings, UnheldDeletes},
    selector_exit::OnSelectorExit,
};
use crate::{
    Action, Failure, Filtered, FinalizerHook, Finalizers, Outcome, Predicate, Reconciler, Request,
};

/// Wraps a reconciler, and keeps each object with a finalizer until the reconciler has cleaned up
/// after it.
///
/// # Contract
///
/// *Guaranteed.*
/// - A new object gets the in-progress finalizer (suffix `.in-progress`), is passed to the
///   reconciler as `Created`, and gets the finalizer after that call has succeeded, even if it
///   requests a requeue. With [`FinalizerTiming::BeforeFirstCall`] it gets the finalizer in one
///   patch, and is then passed as `Created` with it.
/// - At the start, an object with the finalizer is passed as `Resynced`. An object whose `Created`
///   has not succeeded is passed as `Created` again.
/// - An object that is marked for deletion is passed as `Deleted` while it has the finalizer. The
///   finalizer is removed after that call has succeeded, and not before. The later deletion is not
///   passed. [`DeleteOrder::AfterRemoval`] changes the order. A `Deleted` that requests a requeue
///   has not succeeded yet.
/// - If another writer removes the finalizer, it is added again, and the object is passed as
///   `Updated`. If an object disappears before its clean-up has succeeded, the clean-up runs with
///   its last state.
/// - Requeues, errors, states and attempts keep their meaning. A requeue repeats the action that
///   was passed; after another call has added the object, a `Created` that a dequeue policy has
///   kept is passed as `Resynced` or `Updated`. A successful call is not repeated because its
///   finalizer could not be written.
/// - Events of our own patches are not passed, and do not affect requeues, states or backoffs. A
///   concurrent change by another writer is passed. Versions never decrease.
/// - Predicates of the wrapped reconciler decide which calls it receives. They do not affect
///   finalizers. An update that they reject repeats no `Created` or `Deleted` that has not succeeded:
///   its dead letter, its retry or its requeue stays, and so does the finalizer. A later update that
///   they accept repeats the call, and so do a resync, a redrive and a restart. The update that marks
///   the object for deletion is always passed as `Deleted`, unless they reject a `Deleted`.
/// - An object that was marked for deletion without our finalizer when it was first seen is passed
///   as `Deleted` after its deletion, and not before.
///
/// *Required.* Each call is idempotent: after a crash between a call and its finalizer the call is
/// repeated. A `Deleted` can come for an object whose `Created` has not succeeded, and twice.
///
/// # Example
///
/// ```
/// use std::convert::Infallible;
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::{
///     FinalizerName, Finalizers, OpinionatedReconciler, Outcome, Request,
/// };
///
/// # fn example(client: kube::Client) -> Result<(), windlass_controller::InvalidFinalizer> {
/// let finalizers = Finalizers::new(client, FinalizerName::new("example.io/publisher")?)?;
/// let reconciler = OpinionatedReconciler::new(finalizers, |request: Request<ConfigMap>| async move {
///     println!("{:?} {}", request.action(), request.key());
///     Ok::<_, Infallible>(Outcome::done())
/// });
/// # let _ = reconciler;
/// # Ok(())
/// # }
/// ```
///
/// Source: grafana-app-sdk, `operator.OpinionatedReconciler`.
#[must_use = "a reconciler does nothing until it is added to a controller"]
pub struct OpinionatedReconciler<K, R> {
    pub(super) state: FinalizerState<K>,
    pub(super) reconciler: R,
    pub(super) settings: Settings,
}

/// When a wrapper writes the finalizer of a new object: after its first call, or before it.
///
/// In both cases an object has a finalizer during its first call, so that no deletion is missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinalizerTiming {
    /// The in-progress finalizer before the first call, and the finalizer after that call has
    /// succeeded: two patches. After a restart, an object whose `Created` has not succeeded is
    /// passed as `Created` again. The default.
    #[default]
    AfterFirstCall,
    /// The finalizer before the first call, in one patch; there is no in-progress finalizer. The
    /// call receives the patched object. After a restart, an object whose `Created` has not
    /// succeeded is passed as `Resynced`, because its finalizer does not show that. Until then, and
    /// while it has not succeeded, every call for it is `Created`.
    ///
    /// For reconcilers that do the same for each action. An object with an in-progress finalizer,
    /// from an operator with the other setting, is passed as `Created`.
    BeforeFirstCall,
}

/// When a wrapped reconciler receives `Deleted`: before or after its finalizer is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeleteOrder {
    /// While the object has the finalizer, which is removed after the call has succeeded. The
    /// default.
    #[default]
    WhileHeld,
    /// After the deletion: the finalizer is removed as soon as the object is marked for deletion,
    /// and the `Deleted` of the informer is passed. This is the order that the documentation of
    /// grafana-app-sdk describes.
    ///
    /// This can lose deletions: if the operator stops or crashes, or if the retries are exhausted,
    /// between the removal and the end of that call, the clean-up never runs.
    AfterRemoval,
}

// === impl OpinionatedReconciler ===

impl<K, R> OpinionatedReconciler<K, R>
where
    K: Resource + Serialize + Send + Sync + 'static,
    R: Reconciler<K>,
{
    /// Wraps `reconciler`.
    pub fn new(finalizers: Finalizers<K>, reconciler: R) -> Self {
        Self {
            state: FinalizerState::new(finalizers),
            reconciler,
            settings: Settings {
                order: DeleteOrder::default(),
                timing: FinalizerTiming::default(),
                for_watcher: false,
                resumes: true,
                unheld: UnheldDeletes::Pass,
            },
        }
    }

    /// Passes no `Deleted` of an object that was never known with the finalizer.
    pub(crate) fn only_held(mut self) -> Self {
        self.settings.unheld = UnheldDeletes::Skip;
        self
    }

    /// Sets when the finalizer of a new object is written. By default after its first call.
    pub fn finalizer_timing(mut self, timing: FinalizerTiming) -> Self {
        self.settings.timing = timing;
        self
    }

    /// Sets when the reconciler receives `Deleted`. By default while the object has the finalizer.
    pub fn delete_order(mut self, order: DeleteOrder) -> Self {
        self.settings.order = order;
        self
    }

    /// Calls the reconciler only for events that pass `predicate`. The finalizer is written and
    /// removed as without it.
    pub fn filter<P: Predicate<K>>(self, predicate: P) -> OpinionatedReconciler<K, Filtered<R, P>> {
        OpinionatedReconciler {
            state: self.state,
            reconciler: self.reconciler.filter(predicate),
            settings: self.settings,
        }
    }

    /// Sets what happens when an object leaves the selector of the informer. By default the
    /// finalizer is removed.
    pub fn on_selector_exit(mut self, exit: OnSelectorExit) -> Self {
        self.state.on_selector_exit = exit;
        self
    }

    /// Whether `object` is from before our last patch.
    pub(crate) fn is_stale(&self, object: &K) -> bool {
        self.state.is_stale(object)
    }

    /// Forgets an object that does not exist and had no finalizer of ours.
    pub(crate) fn forget(&self, object: &K) {
        self.state.forget(object);
    }

    /// Fails the call if the handler around this wrapper does not return its finalizer: the controller
    /// then shows no event to the wrapper, and does not compare its finalizer with others.
    fn check_announced(&self, request: &Request<K>) -> Result<(), Failure> {
        if !request.attempt.hides_finalizer {
            return Ok(());
        }
        let finalizer = self.state.finalizers.name();
        let hidden = format!(
            "the handler around the wrapper with the finalizer {finalizer} hides it: return the \
             `finalizer` of the inner handler from `Reconciler::finalizer` or `Watcher::finalizer`"
        );
        Err(Failure::new(hidden).permanent())
    }
}

impl<K, R> Reconciler<K> for OpinionatedReconciler<K, R>
where
    K: Resource + Serialize + Send + Sync + 'static,
    R: Reconciler<K>,
{
    type Error = Failure;

    async fn reconcile(&self, request: Request<K>) -> Result<Outcome, Failure> {
        self.check_announced(&request)?;
        if request.action() == Action::Deleted {
            return self.process_deleted(request).await;
        }
        let is_absorbed = request.attempt.is_resynced && request.action() != Action::Resynced;
        let resync = is_absorbed.then(|| {
            let (object, state) = (Arc::clone(request.object()), request.state().cloned());
            (request.clone()).passed_on(Action::Resynced, object, None, state)
        });
        let outcome = self.process(request).await?;
        match resync {
            Some(resync) if outcome.is_declined() => self.process(resync).await,
            _ => Ok(outcome),
        }
    }

    fn finalizer(&self) -> Option<FinalizerHook<'_, K>> {
        let identity = self.state.finalizers.identity();
        Some(FinalizerHook::new(identity, self))
    }
}

impl<K, R> fmt::Debug for OpinionatedReconciler<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpinionatedReconciler")
            .field("state", &self.state)
            .field("order", &self.settings.order)
            .field("timing", &self.settings.timing)
            .finish_non_exhaustive()
    }
}
