//! `OpinionatedReconciler`: wraps a reconciler with a finalizer, so that it misses no deletion.

use std::{fmt, sync::Arc};

use kube::Resource;
use serde::Serialize;
use windlass_informer::{Event, LazyObject};

use super::{
    carried::{InnerCall, WrappedState, carry_failure, carry_outcome},
    finalizer_state::FinalizerState,
    memory::{Progress, is_to_be_added},
    next_step::{Cause, NextStep, next_step},
    selector_exit::OnSelectorExit,
};
use crate::{
    Action, Failure, Filtered, FinalizerIdentity, Finalizers, Outcome, Predicate, Reconciler,
    Request, State, fence, finalizer::FinalizerPresence,
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
///   was passed. A successful call is not repeated because its finalizer could not be written.
/// - Events of our own patches are not passed, and do not affect requeues, states or backoffs. A
///   concurrent change by another writer is passed. Versions never decrease.
/// - Predicates of the wrapped reconciler decide which calls it receives. They do not affect
///   finalizers.
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
    state: FinalizerState<K>,
    reconciler: R,
    order: DeleteOrder,
    timing: FinalizerTiming,
    /// Whether objects that were deleted without ever having the finalizer get no call.
    only_held: bool,
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
            order: DeleteOrder::default(),
            timing: FinalizerTiming::default(),
            only_held: false,
        }
    }

    /// Passes no `Deleted` of an object that was never known with the finalizer.
    pub(crate) fn only_held(self) -> Self {
        Self {
            only_held: true,
            ..self
        }
    }

    /// Sets when the finalizer of a new object is written. By default after its first call.
    ///
    /// # Example
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass_controller::{
    ///     FinalizerName, FinalizerTiming, Finalizers, OpinionatedReconciler, Outcome, Request,
    /// };
    ///
    /// # fn example(client: kube::Client) -> Result<(), windlass_controller::InvalidFinalizer> {
    /// let finalizers = Finalizers::new(client, FinalizerName::new("example.io/publisher")?)?;
    /// let publish = |request: Request<ConfigMap>| async move {
    ///     // The finalizer is written already.
    ///     println!("{:?}", request.object().metadata.finalizers);
    ///     Ok::<_, Infallible>(Outcome::done())
    /// };
    /// let reconciler = OpinionatedReconciler::new(finalizers, publish)
    ///     .finalizer_timing(FinalizerTiming::BeforeFirstCall);
    /// # let _ = reconciler;
    /// # Ok(())
    /// # }
    /// ```
    pub fn finalizer_timing(self, timing: FinalizerTiming) -> Self {
        Self { timing, ..self }
    }

    /// Sets when the reconciler receives `Deleted`. By default while the object has the finalizer.
    pub fn delete_order(self, order: DeleteOrder) -> Self {
        Self { order, ..self }
    }

    /// Calls the reconciler only for events that pass `predicate`. The finalizer is written and
    /// removed as without it.
    pub fn filter<P: Predicate<K>>(self, predicate: P) -> OpinionatedReconciler<K, Filtered<R, P>> {
        OpinionatedReconciler {
            state: self.state,
            reconciler: self.reconciler.filter(predicate),
            order: self.order,
            timing: self.timing,
            only_held: self.only_held,
        }
    }

    /// Sets what happens when an object leaves the selector of the informer. By default the
    /// finalizer is removed.
    pub fn on_selector_exit(mut self, exit: OnSelectorExit) -> Self {
        self.state.on_selector_exit = exit;
        self
    }

    /// Processes an object that exists.
    async fn process(
        &self,
        request: Request<K>,
        carried: Option<WrappedState>,
    ) -> Result<Outcome, Failure> {
        let state = &self.state;
        let shown = Arc::clone(request.object());
        let mut object = state.newest(&shown);
        let mut observed = state.observe(&object, request.old().map(|old| &**old));
        let given = state.given_before(&object);
        let request = match &given {
            // The inner reconciler has received a newer state than the old one of the event.
            Some(given) => request.with_old(Arc::clone(given)),
            None => request,
        };
        state.note_shown(&shown);
        if state.progress(&object) == Some(Progress::Gone) {
            // A call that was kept has an older state.
            return Ok(Outcome::done());
        }
        if !observed.terminating
            && let Some(carried) = &carried
        {
            if carried.unwritten.is_some() {
                return self.write(request, object, carried, given).await;
            }
            if carried.passed_as == Action::Created && !carried.added {
                let progress = state.progress(&object);
                // After a clean-up, or before an add has succeeded, the finalizer shows nothing.
                let is_held = self.timing == FinalizerTiming::AfterFirstCall
                    && !observed.stale
                    && matches!(observed.presence, FinalizerPresence::Held { .. });
                let is_added = (is_held && !is_to_be_added(progress))
                    || matches!(progress, Some(Progress::Added | Progress::Held));
                if !is_added {
                    return self.create(request, object, Some(carried)).await;
                }
                if request.is_repeated() {
                    // Another call has added it. Later changes are passed: this call may have replaced
                    // the calls for their events.
                    let (action, inner) = match &given {
                        Some(given) if state.is_echo(given, &object) => {
                            return Ok(Outcome::done());
                        }
                        Some(_) => (Action::Updated, carried.inner.clone()),
                        // It is not known what the inner reconciler has received since.
                        None => (Action::Resynced, InnerCall::default()),
                    };
                    return self.call_inner(request, action, object, inner).await;
                }
            }
        }
        let cause = match request.action() {
            Action::Updated => Cause::Updated { matters: true },
            Action::Resynced => Cause::Resynced,
            _ => Cause::Added,
        };
        // A repeated call repeats the action that was passed.
        let repeats = (carried.as_ref())
            .filter(|_| request.is_repeated())
            .map(|carried| carried.passed_as);
        loop {
            let progress = state.progress(&object);
            let step = next_step(cause, observed, progress);
            let action = match step {
                NextStep::Hold => {
                    let Some(updated) = state.hold(&object).await? else {
                        return Ok(Outcome::declined());
                    };
                    object = updated;
                    observed.presence = FinalizerPresence::Held { tidy: true };
                    if progress == Some(Progress::Added) && cause == Cause::Added {
                        // A repeated add whose finalizer alone was not written.
                        return Ok(Outcome::done());
                    }
                    continue;
                }
                NextStep::Add => return self.create(request, object, carried.as_ref()).await,
                NextStep::CleanUp if self.order == DeleteOrder::AfterRemoval => {
                    state.release(&object).await?;
                    return Ok(Outcome::done());
                }
                NextStep::CleanUp => {
                    let clean_up = |object| self.clean_up(request, object, carried);
                    return state.clean_up_and_release(object, clean_up).await;
                }
                NextStep::Release => {
                    state.release(&object).await?;
                    return Ok(Outcome::done());
                }
                NextStep::Ignore => {
                    state.set_progress(&object, Progress::Ignored);
                    return Ok(Outcome::done());
                }
                NextStep::Nothing if observed.terminating || repeats.is_none() => {
                    return Ok(Outcome::declined());
                }
                NextStep::Nothing | NextStep::Resume => Action::Resynced,
                NextStep::Update => Action::Updated,
            };
            let action = repeats.unwrap_or(action);
            let inner = carried.map(|carried| carried.inner).unwrap_or_default();
            return self.call_inner(request, action, object, inner).await;
        }
    }

    /// Adds an object: writes the in-progress finalizer or the final one, calls the reconciler, and
    /// writes the finalizer if it is not written yet.
    async fn create(
        &self,
        request: Request<K>,
        object: Arc<K>,
        carried: Option<&WrappedState>,
    ) -> Result<Outcome, Failure> {
        let inner = carried
            .map(|carried| carried.inner.clone())
            .unwrap_or_default();
        let progress = self.state.progress(&object);
        let is_early = self.timing == FinalizerTiming::BeforeFirstCall;
        let written = if is_early {
            self.state.guard(&object).await
        } else {
            self.state.mark_in_progress(&object).await
        };
        let written = written.map_err(|error| {
            carry_failure(Failure::from(error), Action::Created, false, inner.clone())
        })?;
        let Some(object) = written else {
            return Ok(Outcome::declined());
        };
        if !is_early
            && let FinalizerPresence::Held { .. } = self.state.finalizers.presence(&object)
            && !is_to_be_added(progress)
        {
            // The event is old: the object was already added.
            self.state.set_progress(&object, Progress::Held);
            let action = match carried.filter(|_| request.is_repeated()) {
                Some(carried) if carried.added => carried.passed_as,
                Some(_) => return Ok(Outcome::done()),
                None => Action::Resynced,
            };
            return self.call_inner(request, action, object, inner).await;
        }
        let is_due = inner.accepted;
        let outcome = self
            .call(request, Action::Created, Arc::clone(&object), false, inner)
            .await?;
        if outcome.is_declined() && is_due {
            // An earlier call has not succeeded, and stays pending.
            return Ok(outcome);
        }
        if is_early {
            self.state.set_created(&object);
            return Ok(carry_outcome(outcome, Action::Created));
        }
        self.state.set_added(&object);
        match self.state.hold(&object).await {
            Ok(_) => Ok(carry_outcome(outcome, Action::Created)),
            Err(error) => Err(unwritten(error.into(), outcome)),
        }
    }

    /// Writes the finalizer that could not be written after a successful call. Changes since that
    /// call, in which the handler received `given`, are passed.
    async fn write(
        &self,
        request: Request<K>,
        object: Arc<K>,
        carried: &WrappedState,
        given: Option<Arc<K>>,
    ) -> Result<Outcome, Failure> {
        let outcome = carried.unwritten.clone().unwrap_or_default();
        if let Err(error) = self.state.hold(&object).await {
            return Err(unwritten(error.into(), outcome));
        }
        let changed = given.is_some_and(|given| !self.state.is_echo(&given, &object));
        if request.is_repeated() && !changed {
            return Ok(carry_outcome(outcome, carried.passed_as));
        }
        let action = match request.action() {
            Action::Resynced => Action::Resynced,
            _ => Action::Updated,
        };
        let inner = InnerCall {
            state: outcome.clone().into_state(),
            accepted: false,
        };
        let called = self.call_inner(request, action, object, inner).await?;
        Ok(if called.is_declined() {
            carry_outcome(outcome, carried.passed_as)
        } else {
            called
        })
    }

    /// Calls the reconciler for an object with the finalizer.
    async fn call_inner(
        &self,
        request: Request<K>,
        action: Action,
        object: Arc<K>,
        inner: InnerCall,
    ) -> Result<Outcome, Failure> {
        let outcome = self.call(request, action, object, true, inner).await?;
        Ok(carry_outcome(outcome, action))
    }

    /// Calls the inner reconciler, if its predicates accept the event or have accepted the call that
    /// this one repeats. `added` says whether it has added the object before.
    async fn call(
        &self,
        request: Request<K>,
        action: Action,
        object: Arc<K>,
        added: bool,
        mut inner: InnerCall,
    ) -> Result<Outcome, Failure> {
        let old = match action {
            Action::Updated => request.old().cloned(),
            _ => None,
        };
        let is_due = request.is_repeated() && inner.accepted;
        if !is_due && !self.is_wanted(action, &object, old.as_ref()) {
            return Ok(Outcome::declined());
        }
        inner.accepted = true;
        // The API server was asked meanwhile.
        fence::check()
            .map_err(|closed| carry_failure(Failure::from(closed), action, added, inner.clone()))?;
        self.state.set_given(&object);
        let request = request.passed_on(action, object, old, inner.state.clone());
        let called = self.reconciler.reconcile(request).await;
        called.map_err(|error| carry_failure(error.into(), action, added, inner))
    }

    /// Whether the predicates of the inner reconciler accept the event.
    fn is_wanted(&self, action: Action, object: &Arc<K>, old: Option<&Arc<K>>) -> bool {
        let predicates = self.reconciler.predicates();
        if predicates.is_empty() {
            return true;
        }
        let new = Arc::clone(object);
        let event = match (action, old) {
            (Action::Updated, Some(old)) => Event::Updated {
                old: LazyObject::from(Arc::clone(old)),
                new,
            },
            (Action::Deleted, _) => Event::Deleted {
                last: new,
                missed: false,
            },
            (Action::Resynced, _) => Event::Resynced(new),
            _ => Event::Added(new),
        };
        predicates.iter().all(|predicate| predicate.passes(&event))
    }

    /// Calls the reconciler with `Deleted`.
    async fn clean_up(
        &self,
        request: Request<K>,
        object: Arc<K>,
        carried: Option<WrappedState>,
    ) -> Result<Outcome, Failure> {
        // The state of another action does not belong to this request.
        let carried = carried.filter(|carried| carried.passed_as == Action::Deleted);
        let inner = carried.map(|carried| carried.inner).unwrap_or_default();
        self.call_inner(request, Action::Deleted, object, inner)
            .await
    }

    /// Processes an object that the informer reported as deleted.
    async fn process_deleted(
        &self,
        request: Request<K>,
        carried: Option<WrappedState>,
    ) -> Result<Outcome, Failure> {
        let state = &self.state;
        let last = state.newest(request.object());
        let released = matches!(
            state.progress(&last),
            Some(Progress::Released | Progress::Gone)
        );
        if released && self.order == DeleteOrder::WhileHeld {
            state.retire(&last);
            return Ok(Outcome::done());
        }
        let is_unknown = matches!(state.progress(&last), None | Some(Progress::Ignored));
        let is_free = state.finalizers.presence(&last) == FinalizerPresence::Absent;
        if self.only_held && is_unknown && is_free {
            state.forget(&last);
            return Ok(Outcome::done());
        }
        let clean_up = |object| self.clean_up(request, object, carried);
        state.process_deleted(last, clean_up).await
    }
}

/// The failure to write the finalizer after a call that succeeded with `outcome`.
fn unwritten(failure: Failure, outcome: Outcome) -> Failure {
    failure.state(State::new(WrappedState {
        passed_as: Action::Created,
        added: true,
        inner: InnerCall {
            state: outcome.clone().into_state(),
            accepted: true,
        },
        unwritten: Some(outcome),
    }))
}

impl<K, R> Reconciler<K> for OpinionatedReconciler<K, R>
where
    K: Resource + Serialize + Send + Sync + 'static,
    R: Reconciler<K>,
{
    type Error = Failure;

    async fn reconcile(&self, request: Request<K>) -> Result<Outcome, Failure> {
        let carried = request
            .state()
            .and_then(State::get::<WrappedState>)
            .cloned();
        if request.action() == Action::Deleted {
            self.process_deleted(request, carried).await
        } else {
            self.process(request, carried).await
        }
    }

    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        vec![&self.state]
    }

    fn finalizer(&self) -> Option<&FinalizerIdentity> {
        Some(self.state.finalizers.identity())
    }

    fn needs(&self, event: &Event<K>) -> bool {
        self.state.needs(event)
    }
}

impl<K, R> fmt::Debug for OpinionatedReconciler<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpinionatedReconciler")
            .field("state", &self.state)
            .field("order", &self.order)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}
