//! The calls of an `OpinionatedReconciler`: which step is next, and the calls of the inner reconciler.

use std::sync::Arc;

use kube::Resource;
use serde::Serialize;
use windlass_informer::{Event, LazyObject};

use super::{
    super::{
        carried::{InnerCall, WrappedState, carry_failure, carry_outcome},
        memory::{Progress, is_to_be_added},
        next_step::{Cause, NextStep, Observed, next_step},
    },
    DeleteOrder, FinalizerTiming, OpinionatedReconciler,
};
use crate::{
    Action, Failure, Outcome, Reconciler, Request, State, fence, finalizer::FinalizerPresence,
};

/// What an earlier call of a request has left unfinished.
enum Unfinished {
    Nothing,
    /// The finalizer, after a call that succeeded.
    Write,
    /// The add.
    Add,
    /// Nothing more: another call has added the object, and the reconciler has received it.
    Added,
    /// Changes since another call has added the object.
    Pass(Action, InnerCall),
}

// === impl OpinionatedReconciler ===

impl<K, R> OpinionatedReconciler<K, R>
where
    K: Resource + Serialize + Send + Sync + 'static,
    R: Reconciler<K>,
{
    /// Processes an object that exists.
    pub(super) async fn process(
        &self,
        request: Request<K>,
        carried: Option<WrappedState>,
    ) -> Result<Outcome, Failure> {
        let state = &self.state;
        let shown = Arc::clone(request.object());
        let object = state.newest(&shown);
        let observed = state.observe(&object, request.old().map(|old| &**old));
        let given = state.given_before(&object);
        let request = match &given {
            // The inner reconciler has received a newer state than the old one of the event.
            Some(given) => request.with_old(Arc::clone(given)),
            None => request,
        };
        state.note_shown(&shown);
        if state.progress(&object) == Some(Progress::Gone) {
            // A call that was kept has an older state. Nothing is left to call, so that it does not
            // stay pending, as it would after `declined`.
            return Ok(Outcome::done());
        }
        if let Some(carried) = carried.as_ref().filter(|_| !observed.terminating) {
            match self.unfinished(&request, &object, observed, carried, given.as_ref()) {
                Unfinished::Nothing => {}
                Unfinished::Write => return self.write(request, object, carried, given).await,
                Unfinished::Add => return self.create(request, object, Some(carried)).await,
                Unfinished::Added => return Ok(Outcome::done()),
                Unfinished::Pass(action, inner) => {
                    return self.call_inner(request, action, object, inner).await;
                }
            }
        }
        self.take_step(request, object, observed, carried).await
    }

    /// What an earlier call of this request has left unfinished.
    fn unfinished(
        &self,
        request: &Request<K>,
        object: &Arc<K>,
        observed: Observed,
        carried: &WrappedState,
        given: Option<&Arc<K>>,
    ) -> Unfinished {
        if carried.unwritten.is_some() {
            return Unfinished::Write;
        }
        if carried.passed_as != Action::Created || carried.added {
            return Unfinished::Nothing;
        }
        let progress = self.state.progress(object);
        // After a clean-up, or before an add has succeeded, the finalizer shows nothing.
        let is_held = self.timing == FinalizerTiming::AfterFirstCall
            && !observed.stale
            && matches!(observed.presence, FinalizerPresence::Held { .. });
        let is_added = (is_held && !is_to_be_added(progress))
            || matches!(progress, Some(Progress::Added | Progress::Held));
        if !is_added {
            return Unfinished::Add;
        }
        if !request.is_repeated() {
            return Unfinished::Nothing;
        }
        // Another call has added it. Later changes are passed: this call may have replaced the calls
        // for their events.
        match given {
            Some(given) if self.state.is_echo(given, object) => Unfinished::Added,
            Some(_) => Unfinished::Pass(Action::Updated, carried.inner.clone()),
            // It is not known what the inner reconciler has received since.
            None => Unfinished::Pass(Action::Resynced, InnerCall::default()),
        }
    }

    /// Takes the next step for an object that exists.
    async fn take_step(
        &self,
        request: Request<K>,
        mut object: Arc<K>,
        mut observed: Observed,
        carried: Option<WrappedState>,
    ) -> Result<Outcome, Failure> {
        let state = &self.state;
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
    pub(super) async fn process_deleted(
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
