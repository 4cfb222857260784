//! The calls of an `OpinionatedReconciler`: takes the next step, and calls the inner reconciler.

use std::sync::Arc;

use kube::Resource;
use serde::Serialize;
use windlass_informer::{Event, LazyObject};

use super::{
    super::{
        deleted_step::{DeletedStep, deleted_step},
        inner_call::InnerCall,
        memory::{Progress, is_to_be_added},
        next_step::{Cause, Change, NextStep, Unfinished, next_step, step_if_added_before},
        versions::is_terminating,
    },
    FinalizerTiming, OpinionatedReconciler,
    wrapper_call::WrapperCall,
};
use crate::{
    Action, Failure, Outcome, Reconciler, Request, fence,
    finalizer::{FinalizerPresence, is_called_for},
    work::{call_user_code, guarded},
};

// === impl OpinionatedReconciler ===

impl<K, R> OpinionatedReconciler<K, R>
where
    K: Resource + Serialize + Send + Sync + 'static,
    R: Reconciler<K>,
{
    /// Processes an object that exists.
    pub(super) async fn process(&self, request: Request<K>) -> Result<Outcome, Failure> {
        let state = &self.state;
        let mut call = self.observe(request);
        loop {
            return match next_step(&call.observed) {
                NextStep::Finish => Ok(call.finished()),
                NextStep::Decline => Ok(Outcome::declined()),
                NextStep::Ignore => {
                    state.set_progress(&call.object, Progress::Ignored);
                    Ok(Outcome::done())
                }
                NextStep::Hold => {
                    if self.hold(&mut call).await? {
                        continue;
                    }
                    Ok(Outcome::declined())
                }
                NextStep::Add => self.add(call).await,
                NextStep::Call(action) => self.pass(call, action).await,
                NextStep::Repeat => self.repeat(call).await,
                NextStep::CleanUp if self.declines_clean_up(&call) => Ok(Outcome::declined()),
                NextStep::CleanUp => {
                    let (request, earlier) = (call.request, call.earlier);
                    let clean_up = |object| self.clean_up(request, object, earlier);
                    let cleaned_up = state.clean_up_and_release(call.object, clean_up).await;
                    cleaned_up.map_err(|failure| failure.inner_action(Action::Deleted))
                }
                NextStep::Release => {
                    let released = state.release(&call.object).await;
                    released.map_err(|error| Failure::from(error).inner_action(Action::Deleted))?;
                    Ok(Outcome::done())
                }
            };
        }
    }

    /// Processes an object that the informer reported as deleted.
    pub(super) async fn process_deleted(&self, request: Request<K>) -> Result<Outcome, Failure> {
        let state = &self.state;
        let last = state.newest(request.object());
        let presence = state.finalizers.presence(last.meta());
        match deleted_step(self.settings, presence, state.progress(&last)) {
            DeletedStep::Retire => state.retire(&last),
            DeletedStep::Forget => state.forget(&last),
            DeletedStep::Exit => {
                let earlier = self.earlier(&request, &last);
                let clean_up = |object| self.clean_up(request, object, earlier);
                return state.process_deleted(last, clean_up).await;
            }
        }
        Ok(Outcome::done())
    }

    /// Writes the finalizer. Returns whether the object has it.
    async fn hold(&self, call: &mut WrapperCall<K>) -> Result<bool, Failure> {
        let (state, observed) = (&self.state, &mut call.observed);
        if self.settings.for_watcher
            && call.earlier.is_none()
            && (observed.cause, observed.change) == (Cause::Updated, Change::Relevant)
        {
            // If the patch fails, the next event has a newer old state.
            let mut update = InnerCall::new(Action::Updated, true);
            update.old.clone_from(&call.old);
            state.begin(&call.object, update);
        }
        let Some(held) = state.hold(&call.object).await? else {
            return Ok(false);
        };
        if observed.progress == Some(Progress::Added)
            && matches!(observed.unfinished, None | Some(Unfinished::Add))
        {
            observed.unfinished = Some(Unfinished::Finalizer);
        }
        observed.presence = FinalizerPresence::Held { tidy: true };
        observed.progress = state.progress(&held);
        call.object = held;
        Ok(true)
    }

    /// Adds an object: writes the in-progress finalizer or the final one, calls the reconciler, and
    /// writes the finalizer if it is not written yet.
    async fn add(&self, mut call: WrapperCall<K>) -> Result<Outcome, Failure> {
        let state = &self.state;
        let inner = call.inner(Action::Created, false);
        let is_early = self.settings.timing == FinalizerTiming::BeforeFirstCall;
        let written = if is_early {
            state.guard(&call.object).await
        } else {
            state.mark_in_progress(&call.object).await
        };
        let object = match written {
            Ok(Some(object)) => object,
            Ok(None) => return Ok(Outcome::declined()),
            Err(error) => return Err(inner.failed(error.into())),
        };
        if !is_early
            && let FinalizerPresence::Held { .. } = state.finalizers.presence(object.meta())
            && !is_to_be_added(call.observed.progress)
        {
            state.set_progress(&object, Progress::Held);
            call.object = object;
            return match step_if_added_before(&call.observed) {
                NextStep::Call(action) => self.pass(call, action).await,
                NextStep::Repeat => self.repeat(call).await,
                NextStep::Finish => Ok(call.finished()),
                _ => Ok(Outcome::declined()),
            };
        }
        let has_failed = matches!(call.observed.progress, Some(Progress::Begun { .. }));
        if has_failed && !self.accepts_update(&call, &object) {
            return Ok(Outcome::declined());
        }
        let is_due = inner.accepted;
        let outcome = self.call_inner(call.request, &object, inner).await?;
        if outcome.is_declined() && is_due {
            // An earlier call has not succeeded, and stays pending.
            return Ok(outcome);
        }
        if is_early {
            state.set_created(&object);
        } else {
            state.set_added(&object);
            if let Err(error) = state.hold(&object).await {
                return Err(InnerCall::<K>::unwritten(outcome).failed(error.into()));
            }
        }
        Ok(InnerCall::<K>::requeued(Action::Created, outcome))
    }

    /// Calls the reconciler with `action`, for an object that was added.
    async fn pass(&self, call: WrapperCall<K>, action: Action) -> Result<Outcome, Failure> {
        let finished = call.finished();
        let mut inner = call.inner(action, true);
        match call.observed.unfinished {
            // The call that the predicates have accepted has succeeded.
            Some(Unfinished::Finalizer) => inner.accepted = false,
            // Another call has added it.
            Some(Unfinished::Add) if action == Action::Resynced => {
                inner = InnerCall::new(action, true);
            }
            _ => {}
        }
        inner.old = call.old.filter(|_| action == Action::Updated);
        let called = self.call_inner(call.request, &call.object, inner).await?;
        Ok(if called.is_declined() && finished.delay().is_some() {
            finished
        } else {
            InnerCall::<K>::requeued(action, called)
        })
    }

    /// Repeats the call of the reconciler that an earlier call has left.
    async fn repeat(&self, call: WrapperCall<K>) -> Result<Outcome, Failure> {
        let Some(mut inner) = call.earlier else {
            return Ok(Outcome::declined());
        };
        let action = inner.action;
        let old = inner.old.or(call.old);
        inner.old = old.filter(|_| action == Action::Updated);
        let called = self.call_inner(call.request, &call.object, inner).await?;
        Ok(InnerCall::<K>::requeued(action, called))
    }

    /// Calls the reconciler with `Deleted`.
    async fn clean_up(
        &self,
        request: Request<K>,
        object: Arc<K>,
        earlier: Option<InnerCall<K>>,
    ) -> Result<Outcome, Failure> {
        // The state of another action does not belong to this request.
        let earlier = earlier.filter(|earlier| earlier.action == Action::Deleted);
        let inner = earlier.unwrap_or_else(|| InnerCall::new(Action::Deleted, true));
        let called = self.call_inner(request, &object, inner).await?;
        Ok(InnerCall::<K>::requeued(Action::Deleted, called))
    }

    /// Calls the inner reconciler, if its predicates accept the event or have accepted the call that
    /// this one continues.
    async fn call_inner(
        &self,
        request: Request<K>,
        object: &Arc<K>,
        mut inner: InnerCall<K>,
    ) -> Result<Outcome, Failure> {
        let state = &self.state;
        let for_watcher = self.settings.for_watcher;
        let is_due = inner.accepted && (for_watcher || request.attempt.is_repeated);
        if !is_due && !self.is_wanted(object, &inner) {
            if for_watcher {
                state.finish(object);
            }
            return Ok(Outcome::declined());
        }
        inner.accepted = true;
        let is_remembered = for_watcher && inner.action != Action::Deleted;
        if is_remembered {
            state.begin(object, inner.clone());
        }
        // The API server was asked meanwhile.
        if let Err(closed) = fence::check() {
            return Err(inner.failed(closed.into()));
        }
        state.set_given(object);
        let (old, left) = (inner.old.clone(), inner.state.clone());
        let request = request.passed_on(inner.action, Arc::clone(object), old, left);
        let called = self.call_within_limit(request).await;
        if called.is_ok() && is_remembered {
            state.finish(object);
        }
        called.map_err(|failure| inner.failed(failure))
    }

    /// Calls the inner reconciler within the time limit of calls.
    async fn call_within_limit(&self, request: Request<K>) -> Result<Outcome, Failure> {
        // A wrapper in this one limits its own inner calls.
        let limit = request
            .attempt
            .limit
            .filter(|_| self.reconciler.finalizer().is_none());
        // A panic is a failure of this call too, with its action and state.
        let called = Box::pin(async { self.reconciler.reconcile(request).await });
        let ended = guarded("drop of an inner call", called, limit).await;
        ended?.map_err(Into::into)
    }

    /// Whether the clean-up has begun before and the predicates reject the event. The event with the
    /// deletion mark is never rejected.
    fn declines_clean_up(&self, call: &WrapperCall<K>) -> bool {
        let is_marked_before = (call.request.old()).is_some_and(|old| is_terminating(&**old));
        call.observed.progress == Some(Progress::CleaningUp)
            && is_marked_before
            && !self.accepts_update(call, &call.object)
    }

    /// Whether the call for `object`, which repeats one that has not succeeded, is made for this event:
    /// the predicates are not asked about the repeated action, which they have accepted, but about the
    /// update. Other events, retries and calls of a watcher are always accepted.
    fn accepts_update(&self, call: &WrapperCall<K>, object: &Arc<K>) -> bool {
        let observed = &call.observed;
        if observed.cause != Cause::Updated || observed.repeated || self.settings.for_watcher {
            return true;
        }
        let mut update = InnerCall::new(Action::Updated, false);
        update.old.clone_from(&call.old);
        self.accepts_repetition(&event_of(object, &update))
    }

    /// Whether the predicates of the inner reconciler, and of a wrapper in it, accept the event for the
    /// repetition of a call that has not succeeded.
    pub(in crate::opinionated) fn accepts_repetition(&self, event: &Event<K>) -> bool {
        let finalizer = self.reconciler.finalizer();
        let interest = finalizer.map(|it| it.on_repetition(event));
        let predicates = self.reconciler.predicates();
        let accepts = || is_called_for(&predicates, interest, event);
        call_user_code("predicate", accepts).unwrap_or(true)
    }

    /// Whether the predicates of the inner reconciler accept the event.
    fn is_wanted(&self, object: &Arc<K>, inner: &InnerCall<K>) -> bool {
        let (predicates, finalizer) = (self.reconciler.predicates(), self.reconciler.finalizer());
        if predicates.is_empty() && finalizer.is_none() {
            return true;
        }
        let event = event_of(object, inner);
        let interest = finalizer.map(|it| it.on_event(&event));
        let accepts = || is_called_for(&predicates, interest, &event);
        call_user_code("predicate", accepts).unwrap_or(true)
    }
}

/// The event that `inner` is for.
fn event_of<K>(object: &Arc<K>, inner: &InnerCall<K>) -> Event<K>
where
    K: Resource + Serialize + Send + Sync + 'static,
{
    let new = Arc::clone(object);
    match (inner.action, &inner.old) {
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
    }
}
