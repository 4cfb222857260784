//! One call of a handler, and what follows from it.

use std::{pin::pin, time::Duration};

use windlass_informer::ObjectKey;

use super::{Turn, observed_call::ObservedCall};
use crate::{
    Action, FencePermit, Outcome, State,
    controller::{
        drain::OnStop,
        queued::{Backoff, RepeatableCall},
    },
    event::AnyEvent,
    finalizer::trimmed,
    handler::Handler,
    reconciler::{Attempt, Call},
    schedule::{Moment, Pending, Reason},
    trace,
    work::{self, CallFailure},
};

/// One call of a handler.
pub(super) struct Invocation<'a> {
    pub(super) handler: &'a Handler,
    pub(super) key: &'a ObjectKey,
    pub(super) action: Action,
    pub(super) event: &'a AnyEvent,
}

/// What follows from a call.
pub(super) enum Called {
    Done,
    /// The call is pending again.
    Pending(Box<Pending<RepeatableCall>>),
    /// A wrapper did not call its inner handler, so that the calls stay pending which the event has
    /// cancelled.
    Declined,
}

/// The controller stops, so a call did not begin.
pub(super) struct Stopped;

// === impl Turn ===

impl Turn<'_> {
    /// Calls a handler, and advances `now` to the end of the call.
    pub(super) async fn call(
        &self,
        invocation: &Invocation<'_>,
        attempt: Attempt,
        backoff: Backoff,
        now: &mut Moment,
    ) -> Result<Called, Stopped> {
        let Invocation {
            handler,
            key,
            action,
            event,
        } = *invocation;
        let call = Call {
            kind: self.kind,
            key: key.clone(),
            action,
            event: event.clone(),
            attempt: attempt.clone(),
        };
        let (attempt, state) = (attempt.number, attempt.state);
        let (ended, is_fenced) = self.invoke(invocation, call, now).await?;
        let (reason, delay, call) = match ended {
            Ok(outcome) => {
                let declined = outcome.is_declined();
                let Some((delay, call)) = self.requeued(event, attempt, state, outcome) else {
                    let declined = declined.then_some(Called::Declined);
                    return Ok(declined.unwrap_or(Called::Done));
                };
                (Reason::Requeued, delay, call)
            }
            Err(failed) => {
                let previous = (attempt, state);
                let retried = self.failed(invocation, previous, backoff, is_fenced, failed, now);
                let Some((delay, call)) = retried.await else {
                    return Ok(Called::Done);
                };
                (Reason::Failed, delay, call)
            }
        };
        Ok(Called::Pending(Box::new(Pending {
            handler: handler.id,
            action,
            reason,
            due: *now + delay,
            overtaken: false,
            call,
        })))
    }

    /// Makes a call and reports it. Returns its result, and whether it failed because the fence has
    /// closed.
    async fn invoke(
        &self,
        invocation: &Invocation<'_>,
        call: Call,
        now: &mut Moment,
    ) -> Result<(Result<Outcome, CallFailure>, bool), Stopped> {
        let Invocation {
            handler,
            key,
            action,
            ..
        } = *invocation;
        let attempt = call.attempt.number;
        let began = *now;
        let ongoing = self.metrics.call(action);
        let running = self.metrics.running.begin(handler, key, action, began);
        self.shared.call_began.notify_one();
        let span = trace::handler(handler.role, handler.id, action, attempt);
        let called = pin!(async {
            // Checked at the time of the call: no call begins after a stop, or after the deadline
            // of the lease.
            let permit = self.permit().await?;
            // Dropped with the call, which is then reported as abandoned.
            let observed = ObservedCall {
                turn: self,
                invocation,
                attempt,
                began: Some(self.shared.engine.now()),
            };
            observed.begin();
            let called = work::call(handler, call, self.shared.settings.call_timeout);
            let trim = (handler.code.finalizer()).and_then(|_| self.shared.trim(self.kind));
            let called = trimmed(trim, called);
            let ended = match &permit {
                Some(permit) => permit.within(called).await,
                None => called.await,
            };
            Ok((ended, observed))
        });
        let (ended, mut observed) = trace::within(&span, called).await?;
        drop(running);
        let result = ended.as_ref().map_err(|failed| &failed.error);
        trace::called(&span, result);
        drop(span);
        *now = self.shared.engine.now();
        let is_conflict = ended.as_ref().is_err_and(|failed| failed.is_conflict);
        let is_fenced = result.is_err_and(|error| self.shared.is_refused_by_fence(error));
        if ended.as_ref().is_ok_and(Outcome::is_deferred) {
            observed.discard();
            drop(ongoing);
        } else {
            ongoing.called(handler.role, *now - began, result, is_conflict);
        }
        if !is_fenced {
            observed.ended(*now, &ended);
        }
        // If the fence refused it, it is reported as abandoned.
        drop(observed);
        Ok((ended, is_fenced))
    }

    /// The call that `outcome` requests. A deferred call keeps its attempt number and its state.
    fn requeued(
        &self,
        event: &AnyEvent,
        attempt: u32,
        state: Option<State>,
        outcome: Outcome,
    ) -> Option<(Duration, RepeatableCall)> {
        let (delay, is_deferred) = (outcome.delay()?, outcome.is_deferred());
        let state = outcome.into_state().or(state.filter(|_| is_deferred));
        let call = RepeatableCall {
            event: event.clone(),
            attempt: if is_deferred { attempt } else { 0 },
            state: state.map(Box::new),
            failed: None,
            origin: self.origin.clone(),
        };
        Some((delay, call))
    }

    /// Waits for a permit of the fence, until the stop. With [`OnStop::Drain`] calls begin after the
    /// stop too, but none waits for the fence.
    async fn permit(&self) -> Result<Option<FencePermit>, Stopped> {
        let drains = self.shared.settings.on_stop == OnStop::Drain;
        tokio::select! {
            biased;
            () = self.stop.cancelled(), if !drains => Err(Stopped),
            permit = self.shared.permit() => Ok(permit),
            () = self.stop.cancelled(), if drains => Err(Stopped),
        }
    }
}
