//! `OpinionatedReconciler`: adds a finalizer, so that it misses no deletion.

use std::{fmt, sync::Arc};

use kube::Resource;
use serde::Serialize;
use windlass_informer::{Event, LazyObject};

use super::{
    carried::{WrappedState, carry_failure, carry_outcome},
    finalizer_state::{Disposition, FinalizerState},
    memory::{Progress, is_cleaned_up},
    next_step::{Cause, NextStep, next_step},
    selector_exit::OnSelectorExit,
};
use crate::{
    Action, Failure, Filtered, Finalizers, Outcome, Predicate, Reconciler, Request, State,
    finalizer::FinalizerPresence,
};

/// Wraps a reconciler, and holds each object with a finalizer until the reconciler has cleaned
/// up after it.
///
/// # Contract
///
/// *Guaranteed.*
/// - A new object gets the in-progress finalizer, is passed on as `Created`, and gets the finalizer
///   once that call has succeeded, also if it asks to be repeated.
/// - At the start, an object that has the finalizer is passed on as `Resynced`. One whose
///   `Created` has not succeeded is passed on as `Created` again.
/// - An object that is marked for deletion is passed on as `Deleted` while the finalizer holds
///   it. Once that call has succeeded, and not before, the finalizer is removed; that the object
///   is then gone is not passed on. [`DeleteOrder::AfterRemoval`] changes the order. A `Deleted`
///   that asks to be repeated has not succeeded yet.
/// - A finalizer that another writer removes from an object that lives is put back, and the object
///   is passed on as `Updated`. If an object disappears before its clean-up has succeeded, the
///   clean-up runs with its last state.
/// - Requeues, errors, states and attempts pass through. A requeue repeats the action that was
///   passed on. A call that has succeeded is not repeated because its finalizer could not be
///   written.
/// - Events of our own patches are not passed on, and touch no requeue, state or backoff. A change
///   that another writer made meanwhile is passed on. Versions never go back.
/// - Predicates of the wrapped reconciler decide which calls it gets, and nothing about
///   finalizers.
///
/// - An object that was marked for deletion without our finalizer when it was first seen is passed
///   on as `Deleted` once it is gone, and not before.
///
/// *Required.* Each call finds out what is done already: after a crash between a call and its
/// finalizer the call is repeated. A `Deleted` can come for an object whose `Created` did not
/// succeed, and twice.
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
}

/// When a wrapped reconciler gets `Deleted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeleteOrder {
    /// While the finalizer holds the object; it is removed when the call has succeeded. The
    /// default.
    #[default]
    WhileHeld,
    /// When the object is gone: the finalizer is removed as soon as the object is marked, and the
    /// `Deleted` of the informer is passed on. The order that grafana-app-sdk's page describes.
    ///
    /// It can lose deletions: without the finalizer nothing remembers the object, so an operator
    /// that stops, crashes or gives up retrying between the removal and the end of that call
    /// never cleans up.
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
        }
    }

    /// When the reconciler gets `Deleted`. By default while the finalizer holds the object.
    pub fn delete_order(self, order: DeleteOrder) -> Self {
        Self { order, ..self }
    }

    /// Lets the reconciler receive only what passes `predicate`. The finalizer is written and removed
    /// as without it.
    pub fn filter<P: Predicate<K>>(self, predicate: P) -> OpinionatedReconciler<K, Filtered<R, P>> {
        OpinionatedReconciler {
            state: self.state,
            reconciler: self.reconciler.filter(predicate),
            order: self.order,
        }
    }

    /// What is done for an object that leaves the informer's selector. By default the finalizer
    /// is removed.
    pub fn on_selector_exit(mut self, exit: OnSelectorExit) -> Self {
        self.state.on_selector_exit = exit;
        self
    }

    /// Reconciles an object that exists.
    async fn see(
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
            // The inner reconciler knows a newer state than the old one of the event.
            Some(given) => request.with_old(Arc::clone(given)),
            None => request,
        };
        state.show(&shown);
        if !observed.terminating
            && let Some(carried) = &carried
        {
            if carried.unwritten.is_some() {
                return self.write(request, object, carried, given).await;
            }
            if carried.passed_as == Action::Created && !carried.added {
                let progress = state.progress(&object);
                // What was cleaned up and is back has its finalizer from before that.
                let is_held = matches!(observed.presence, FinalizerPresence::Held { .. });
                let is_added = (is_held && !is_cleaned_up(progress))
                    || matches!(progress, Some(Progress::Added | Progress::Held));
                if !is_added {
                    return self.create(request, object, Some(carried)).await;
                }
                if request.is_repeated() {
                    // Another call has added it. What came after that call is passed on.
                    let is_new = |given| !state.is_echo(given, &object);
                    if given.as_ref().is_none_or(|given| !is_new(given)) {
                        return Ok(Outcome::done());
                    }
                    let inner = carried.state.clone();
                    return self.pass(request, Action::Updated, object, inner).await;
                }
            }
        }
        let cause = match request.action() {
            Action::Updated => Cause::Updated { matters: true },
            Action::Resynced => Cause::Resynced,
            _ => Cause::Added,
        };
        // A repeated call repeats what was passed on.
        let repeats = (carried.as_ref())
            .filter(|_| request.is_repeated())
            .map(|carried| carried.passed_as);
        loop {
            let progress = state.progress(&object);
            let step = next_step(cause, observed, progress);
            let action = match step {
                NextStep::Hold => {
                    let Some(held) = state.hold(&object).await? else {
                        return Ok(Outcome::done());
                    };
                    object = held;
                    observed.presence = FinalizerPresence::Held { tidy: true };
                    if progress == Some(Progress::Added) && cause == Cause::Added {
                        // A repeated add, of which the finalizer alone was not written.
                        return Ok(Outcome::done());
                    }
                    continue;
                }
                NextStep::Add => return self.create(request, object, carried.as_ref()).await,
                NextStep::CleanUp => return self.end(request, object, carried).await,
                NextStep::Release => {
                    state.release(&object).await?;
                    return Ok(Outcome::done());
                }
                NextStep::Ignore => {
                    state.set_progress(&object, Progress::Ignored);
                    return Ok(Outcome::done());
                }
                NextStep::Nothing if observed.terminating || repeats.is_none() => {
                    return Ok(Outcome::done());
                }
                NextStep::Nothing | NextStep::Resume => Action::Resynced,
                NextStep::Update => Action::Updated,
            };
            let action = repeats.unwrap_or(action);
            let inner = carried.and_then(|carried| carried.state);
            return self.pass(request, action, object, inner).await;
        }
    }

    /// Adds an object: guards it, passes it on, and holds it.
    async fn create(
        &self,
        request: Request<K>,
        object: Arc<K>,
        carried: Option<&WrappedState>,
    ) -> Result<Outcome, Failure> {
        let inner = carried.and_then(|carried| carried.state.clone());
        let progress = self.state.progress(&object);
        let guarded = self.state.guard(&object).await;
        let guarded = guarded.map_err(|error| {
            carry_failure(Failure::from(error), Action::Created, false, inner.clone())
        })?;
        let Some(object) = guarded else {
            return Ok(Outcome::done());
        };
        if let FinalizerPresence::Held { .. } = self.state.finalizers.presence(&object)
            && !is_cleaned_up(progress)
        {
            // The event was old: the object has been added.
            self.state.set_progress(&object, Progress::Held);
            let action = match carried.filter(|_| request.is_repeated()) {
                Some(carried) if carried.added => carried.passed_as,
                Some(_) => return Ok(Outcome::done()),
                None => Action::Resynced,
            };
            return self.pass(request, action, object, inner).await;
        }
        let outcome = self
            .call(request, Action::Created, Arc::clone(&object), false, inner)
            .await?;
        self.state.set_added(&object);
        match self.state.hold(&object).await {
            Ok(_) => Ok(carry_outcome(outcome, Action::Created)),
            Err(error) => Err(unwritten(error.into(), outcome)),
        }
    }

    /// Writes the finalizer that could not be written after a call that succeeded. What has changed
    /// since that call, for which the handler was `given` an older state, is passed on.
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
        self.pass(request, action, object, outcome.into_state())
            .await
    }

    /// Passes an object on that has the finalizer.
    async fn pass(
        &self,
        request: Request<K>,
        action: Action,
        object: Arc<K>,
        inner: Option<State>,
    ) -> Result<Outcome, Failure> {
        let outcome = self.call(request, action, object, true, inner).await?;
        Ok(carry_outcome(outcome, action))
    }

    /// Calls the inner reconciler, if its predicates let the call pass. `added` says whether it has
    /// added the object before.
    async fn call(
        &self,
        request: Request<K>,
        action: Action,
        object: Arc<K>,
        added: bool,
        inner: Option<State>,
    ) -> Result<Outcome, Failure> {
        let old = match action {
            Action::Updated => request.old().cloned(),
            _ => None,
        };
        if !self.is_wanted(action, &object, old.as_ref()) {
            return Ok(Outcome::done());
        }
        self.state.give(&object);
        let request = request.passed_on(action, object, old, inner.clone());
        let called = self.reconciler.reconcile(request).await;
        called.map_err(|error| carry_failure(error.into(), action, added, inner))
    }

    /// Whether the predicates of the inner reconciler let a call pass.
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

    /// Cleans up after an object that is marked for deletion, and removes the finalizer.
    async fn end(
        &self,
        request: Request<K>,
        object: Arc<K>,
        carried: Option<WrappedState>,
    ) -> Result<Outcome, Failure> {
        if self.order == DeleteOrder::AfterRemoval {
            self.state.release(&object).await?;
            return Ok(Outcome::done());
        }
        self.state.set_progress(&object, Progress::CleaningUp);
        let outcome = self.clean_up(request, Arc::clone(&object), carried).await?;
        if outcome.delay().is_none() {
            self.state.set_progress(&object, Progress::CleanedUp);
            self.state.release(&object).await?;
        }
        Ok(outcome)
    }

    /// Passes an object on as deleted.
    async fn clean_up(
        &self,
        request: Request<K>,
        object: Arc<K>,
        carried: Option<WrappedState>,
    ) -> Result<Outcome, Failure> {
        // The state of another action says nothing about this one.
        let carried = carried.filter(|carried| carried.passed_as == Action::Deleted);
        let inner = carried.and_then(|carried| carried.state);
        self.pass(request, Action::Deleted, object, inner).await
    }

    /// Finishes an object that the informer reported as deleted.
    async fn finish(
        &self,
        request: Request<K>,
        carried: Option<WrappedState>,
    ) -> Result<Outcome, Failure> {
        let state = &self.state;
        let last = state.newest(request.object());
        let progress = state.progress(&last);
        let released = matches!(progress, Some(Progress::Released | Progress::Gone));
        let after_removal = self.order == DeleteOrder::AfterRemoval;
        if released && !after_removal {
            state.retire(&last);
            return Ok(Outcome::done());
        }
        let disposition = if released {
            Disposition::Gone
        } else {
            state.disposition(&last).await?
        };
        if progress == Some(Progress::CleanedUp) {
            match disposition {
                Disposition::Terminating(live) | Disposition::Held(live) => {
                    state.release_outside(&live).await?;
                }
                Disposition::Gone | Disposition::Free(_) => state.forget(&last),
            }
            return Ok(Outcome::done());
        }
        // A repeated call asks again what became of the object.
        state.forget(&last);
        match (disposition, state.on_selector_exit) {
            (Disposition::Gone, _) => {
                let outcome = self.clean_up(request, Arc::clone(&last), carried).await?;
                if outcome.delay().is_none() {
                    state.set_cleaned_up(&last);
                }
                Ok(outcome)
            }
            (Disposition::Free(live), exit) => {
                let terminating = live.meta().deletion_timestamp.is_some();
                if terminating || exit == OnSelectorExit::CleanUp {
                    return self.clean_up(request, live, carried).await;
                }
                Ok(Outcome::done())
            }
            (Disposition::Terminating(live), _)
            | (Disposition::Held(live), OnSelectorExit::CleanUp) => {
                self.leave(request, live, carried).await
            }
            (Disposition::Held(live), OnSelectorExit::Release) => {
                state.release_outside(&live).await?;
                Ok(Outcome::done())
            }
            (Disposition::Held(live), OnSelectorExit::Report) => {
                state.report_outside(&live);
                Ok(Outcome::done())
            }
        }
    }

    /// Cleans up after an object outside of the selector, and removes the finalizer.
    async fn leave(
        &self,
        request: Request<K>,
        live: Arc<K>,
        carried: Option<WrappedState>,
    ) -> Result<Outcome, Failure> {
        let outcome = self.clean_up(request, Arc::clone(&live), carried).await?;
        if outcome.delay().is_none() {
            // If the patch fails the clean-up is not repeated.
            self.state.set_progress(&live, Progress::CleanedUp);
            self.state.release_outside(&live).await?;
        }
        Ok(outcome)
    }
}

/// The failure to write the finalizer after a call that succeeded with `outcome`.
fn unwritten(failure: Failure, outcome: Outcome) -> Failure {
    failure.state(State::new(WrappedState {
        passed_as: Action::Created,
        added: true,
        state: outcome.clone().into_state(),
        unwritten: Some(outcome),
    }))
}

impl<K, R> Predicate<K> for OpinionatedReconciler<K, R>
where
    K: Resource + Serialize + Send + Sync + 'static,
    R: Reconciler<K>,
{
    fn passes(&self, event: &Event<K>) -> bool {
        !self.state.is_known(event)
    }
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
            self.finish(request, carried).await
        } else {
            self.see(request, carried).await
        }
    }

    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        vec![self]
    }

    fn finalizer(&self) -> Option<&str> {
        Some(self.state.finalizers.name().as_str())
    }

    fn needs(&self, event: &Event<K>) -> bool {
        self.state.needs(event)
    }

    fn history_went_back(&self, uid: &str) {
        self.state.history_went_back(uid);
        self.reconciler.history_went_back(uid);
    }
}

impl<K, R> fmt::Debug for OpinionatedReconciler<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpinionatedReconciler")
            .field("state", &self.state)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}
