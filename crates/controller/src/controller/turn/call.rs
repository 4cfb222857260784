//! One call of a handler, and what follows from it.

use std::{pin::pin, time::Duration};

use windlass_informer::ObjectKey;

use super::{Turn, observed_call::ObservedCall};
use crate::{
    Action, FencePermit, Outcome, Reasons, State,
    controller::{drain::OnStop, queued::RepeatableCall, superseded::PreviousFailure},
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
    /// cancelled, and the dead letters stay.
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
        previous: PreviousFailure,
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
            attempt: Attempt {
                limit: self.shared.settings.call_timeout,
                ..attempt.clone()
            },
        };
        let (attempt, state, reasons) = (attempt.number, attempt.state, attempt.reasons);
        let (ended, is_fenced) = self.invoke(invocation, call, now).await?;
        let (reason, delay, call) = match ended {
            Ok(outcome) if outcome.is_deferred() => {
                let delay = outcome.delay().unwrap_or_default();
                let state = outcome.into_state().or(state);
                let (reason, call) = self.deferred(event, (attempt, state), previous, reasons);
                (reason, delay, call)
            }
            Ok(outcome) => {
                let declined = outcome.is_declined();
                let Some((delay, call)) = self.requeued(event, outcome) else {
                    let declined = declined.then_some(Called::Declined);
                    return Ok(declined.unwrap_or(Called::Done));
                };
                (Reason::Requeued, delay, call)
            }
            Err(failed) => {
                let (counted, backoff) = ((attempt, state), previous.backoff);
                let retried = self.failed(invocation, counted, backoff, is_fenced, failed, now);
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
        if let Some((calls, within)) = running.too_frequent() {
            self.warn_of_frequent_calls(invocation, calls, within);
        }
        self.shared.call_began.notify_one();
        let span = trace::handler(handler.role, handler.id, action, attempt);
        let called = pin!(async {
            // Checked at the time of the call: no call begins after a stop, or after the deadline
            // of the lease.
            let permit = self.permit().await?;
            // Without a fence nothing was waited for.
            let began = permit.as_ref().map_or(began, |_| self.shared.engine.now());
            // Dropped with the call, which is then reported as abandoned.
            let observed = ObservedCall {
                turn: self,
                invocation,
                attempt,
                began: Some(began),
            };
            observed.begin();
            let finalizer = handler.code.finalizer();
            // Not of the writes of a finalizer: its wrapper limits the calls of the inner handler.
            let limit = call.attempt.limit.filter(|_| finalizer.is_none());
            let called = pin!(work::call(handler, call, limit));
            let trim = finalizer.and_then(|_| self.shared.trim(self.kind));
            let called = trimmed(trim, called);
            let ended = match &permit {
                Some(permit) => permit.within(called).await,
                None => called.await,
            };
            Ok((ended, observed))
        });
        let (ended, mut observed) = span.within(called).await?;
        drop(running);
        let result = ended.as_ref().map_err(|failed| &failed.error);
        trace::called(&span, result);
        drop(span);
        *now = self.shared.engine.now();
        let is_conflict = ended
            .as_ref()
            .is_err_and(|failed| failed.instructions.is_repeated_conflict());
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

    /// A call that was deferred: it keeps its attempt number, its reasons, the schedule of the retry,
    /// and its state where the outcome has none.
    fn deferred(
        &self,
        event: &AnyEvent,
        (attempt, state): (u32, Option<State>),
        previous: PreviousFailure,
        reasons: Reasons,
    ) -> (Reason, RepeatableCall) {
        let failed = previous.error();
        let reason = match failed {
            Some(_) => Reason::Failed,
            None => Reason::Requeued,
        };
        let call = RepeatableCall {
            event: event.clone(),
            is_deferred: true,
            attempt,
            state: state.map(Box::new),
            failed,
            reasons: reasons.without(Reasons::REQUEUE),
            origin: self.origin.clone(),
        };
        (reason, call)
    }

    /// The call that `outcome` requests.
    fn requeued(&self, event: &AnyEvent, outcome: Outcome) -> Option<(Duration, RepeatableCall)> {
        let delay = outcome.delay()?;
        let call = RepeatableCall {
            event: event.clone(),
            is_deferred: false,
            attempt: 0,
            state: outcome.into_state().map(Box::new),
            failed: None,
            reasons: Reasons::default(),
            origin: self.origin.clone(),
        };
        Some((delay, call))
    }

    /// Waits for a permit of the fence, until the end. With [`OnStop::Drain`] calls begin after the end
    /// too, but none waits for the fence.
    async fn permit(&self) -> Result<Option<FencePermit>, Stopped> {
        let drains = self.shared.settings.on_stop == OnStop::Drain;
        if !self.shared.is_fenced() {
            let is_stopped = self.end.is_cancelled() && !drains;
            return if is_stopped { Err(Stopped) } else { Ok(None) };
        }
        tokio::select! {
            biased;
            () = self.end.cancelled(), if !drains => Err(Stopped),
            permit = self.shared.permit() => Ok(permit),
            () = self.end.cancelled(), if drains => Err(Stopped),
        }
    }
}
