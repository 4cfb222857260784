//! One turn of a worker: one event for all its handlers, or one repeated call.
//!
//! A worker of `run` takes a lane from the engine and calls [`run`] here.

use std::{cmp::Ordering, pin::pin, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use windlass_informer::{ErrorChain, Event, LazyObject, ObjectKey, log};

use super::{
    Shared,
    dead_letters::DeadLetterEntry,
    drain::OnStop,
    engine::LaneGuard,
    exhausted,
    queued::{Backoff, FailedCall, HandlerPosition, QueuedEvent, RepeatableCall},
    snapshot::RouteSnapshot,
    superseded::{CarryOver, PreviousCalls, supersede},
};
use crate::{
    Action, CallOutcome, CallReport, ErasedObject, ErrorReport, ExponentialBackoff, FencePermit,
    HandlerError, HandlerId, Outcome, Reasons, RetryObject, State,
    call_observer::observer,
    event::AnyEvent,
    handler::Handler,
    metrics::KindMetrics,
    reconciler::{Attempt, Call, Retry},
    route::{Chain, KindId, KindSnapshot},
    schedule::{LaneKey, Moment, Pending, Reason, ScheduleItem as _, Work},
    trace::{self, TraceParent},
    work::{self, CallFailure, call_user_code},
};

/// One turn: its kind, handlers and span.
pub(super) struct Turn<'a> {
    pub(super) shared: &'a Shared,
    /// After it is cancelled, no call begins.
    stop: &'a CancellationToken,
    kind: KindId,
    chain: &'a Chain,
    pub(super) metrics: &'a KindMetrics,
    /// The span of the turn, for calls that follow from it.
    origin: TraceParent,
}

/// The handlers that are called for an event, and the event for each.
pub(super) enum Recipients<'a> {
    /// The whole chain, with the same event: the usual case, in which nothing is copied.
    All(&'a Chain),
    Some(Vec<(&'a Handler, AnyEvent)>),
}

/// One call of a handler.
struct Invocation<'a> {
    handler: &'a Handler,
    key: &'a ObjectKey,
    action: Action,
    event: &'a AnyEvent,
}

/// A call, which is reported when it ends or is dropped.
struct ObservedCall<'a> {
    turn: &'a Turn<'a>,
    invocation: &'a Invocation<'a>,
    attempt: u32,
    /// When it began. `None` after it was reported.
    began: Option<Moment>,
}

/// What follows from a call.
enum Called {
    Done,
    /// The call is pending again.
    Pending(Box<Pending<RepeatableCall>>),
    /// A wrapper did not call its inner handler, so that the calls stay pending which the event has
    /// cancelled.
    Declined,
}

/// The controller stops, so a call did not begin.
struct Stopped;

/// Processes the work of `guard`. Returns the time of its end; then return the lane with `finish` or
/// `next`. Returns `None` if `stop` was cancelled before the last call; then drop the guard, so
/// that the rest stays queued.
///
/// # Cancel safety
///
/// Dropping the future drops the active call. If the guard is also dropped, that handler and the
/// following ones are called again.
pub(crate) async fn run(
    shared: &Shared,
    routes: &mut RouteSnapshot,
    guard: &mut LaneGuard<QueuedEvent, RepeatableCall>,
    stop: &CancellationToken,
) -> Option<Moment> {
    let kind = guard.key().kind;
    let began = guard.since();
    let Some(KindSnapshot { chain, metrics }) = routes.of(kind, shared) else {
        // The kind was removed with all its handlers.
        return Some(began);
    };
    let mut turn = Turn {
        shared,
        stop,
        kind,
        chain,
        metrics,
        origin: TraceParent::default(),
    };
    let (ongoing, span) = match guard.work() {
        Work::Event { offer, .. } => {
            let Some(action) = Action::of(&offer.event.event) else {
                return Some(began);
            };
            let ongoing = metrics.event(action, began - offer.event.received);
            let (key, queued) = (&guard.key().object, &offer.event);
            let span = trace::event(&metrics.kind, key, action, &queued.event, &queued.origin);
            turn.origin = TraceParent::of(&span);
            (ongoing, span)
        }
        Work::Retry(pending) => {
            let ongoing = metrics.retry(pending.action, began - pending.due);
            let (key, call) = (&guard.key().object, &pending.call);
            let (uid, action) = (call.uid(), pending.action);
            let span = trace::retry(&metrics.kind, key, uid, action, call.attempt);
            turn.origin = match pending.reason {
                // All retries of a call have the same parent span, that of their event.
                Reason::Failed => {
                    call.origin.set_as_parent_of(&span);
                    call.origin.clone()
                }
                // A requeue is in a trace of its own.
                Reason::Requeued => {
                    call.origin.link_from(&span);
                    TraceParent::of(&span)
                }
            };
            (ongoing, span)
        }
    };
    let done = trace::within(&span, pin!(turn.run(guard))).await.ok()?;
    ongoing.done(done - began);
    Some(done)
}

/// The update with `old` as its old state, which is the last state that the handler received.
pub(super) fn updated_from(old: Arc<dyn ErasedObject>, event: &AnyEvent) -> Option<AnyEvent> {
    let Event::Updated { new, .. } = event else {
        return None;
    };
    Some(Event::Updated {
        old: LazyObject::from_erased(old),
        new: Arc::clone(new),
    })
}

// === impl Recipients ===

impl Recipients<'_> {
    /// The handlers in order, with the event for each.
    fn iter<'a>(
        &'a self,
        event: &'a AnyEvent,
    ) -> impl Iterator<Item = (&'a Handler, &'a AnyEvent)> {
        let (all, some): (&[Arc<Handler>], &[_]) = match self {
            Self::All(chain) => (chain, &[]),
            Self::Some(recipients) => (&[], recipients),
        };
        let all = all.iter().map(move |it| (&**it, event));
        all.chain(some.iter().map(|(it, event)| (*it, event)))
    }

    /// The event for which this handler is called, if it is called.
    pub(super) fn event_of<'a>(
        &'a self,
        handler: HandlerId,
        event: &'a AnyEvent,
    ) -> Option<&'a AnyEvent> {
        let recipient = self.iter(event).find(|(it, _)| it.id == handler);
        recipient.map(|(_, event)| event)
    }
}

// === impl Turn ===

impl Turn<'_> {
    async fn run(
        &self,
        guard: &mut LaneGuard<QueuedEvent, RepeatableCall>,
    ) -> Result<Moment, Stopped> {
        let began = guard.since();
        let Work::Event { offer, .. } = guard.work() else {
            return self.repeat(guard).await;
        };
        let recipients = self.recipients(&offer.event);
        let called = |id| recipients.event_of(id, &offer.event.event).is_some();
        let forgotten = (self.shared).forget_dead_letters(guard.key(), &offer.event, called);
        if forgotten.is_some() {
            guard.take_new_pendings();
        }
        let mut carried = supersede(self, guard, &recipients);
        if let Work::Event { offer, .. } = guard.work() {
            let event = &offer.event;
            for entry in forgotten.into_iter().flatten() {
                let (handler, action) = (entry.letter.handler, entry.letter.action);
                if let Some(state) = entry.call.state.as_deref()
                    && entry.call.is_same_object(event)
                {
                    carried.add_exhausted(handler, action, state.clone(), &event.event);
                }
            }
        }
        self.dispatch(guard, &recipients, carried, began).await
    }

    /// The handlers whose predicates accept the event.
    fn recipients(&self, queued: &QueuedEvent) -> Recipients<'_> {
        let QueuedEvent {
            event, resynced, ..
        } = queued;
        // Each predicate is called once.
        let filtered = (self.chain.iter()).position(|it| !work::wants(it, event));
        let Some(filtered) = filtered else {
            return Recipients::All(self.chain);
        };
        let some = self.chain.iter().enumerate().filter_map(|(at, handler)| {
            let event = match at.cmp(&filtered) {
                Ordering::Less => Some(event.clone()),
                Ordering::Equal => work::resync_instead(handler, event, *resynced),
                Ordering::Greater => work::event_for(handler, event, *resynced),
            };
            Some((&**handler, event?))
        });
        Recipients::Some(some.collect())
    }

    /// Whether `event` shows that another writer removed the finalizer of the handler of `pending`.
    /// The handler then adds it again at once, even in backoff.
    pub(super) fn is_finalizer_removed(
        &self,
        pending: &Pending<RepeatableCall>,
        event: &AnyEvent,
    ) -> bool {
        let finalizer = self.finalizer(pending.handler);
        let has = |object: &Arc<dyn ErasedObject>| {
            let metadata = object.metadata();
            let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
            finalizers.iter().any(|it| Some(&**it) == finalizer)
        };
        let objects = pending.call.event.object().zip(event.object());
        finalizer.is_some() && objects.is_some_and(|(old, new)| has(old) && !has(new))
    }

    /// The finalizer of `handler`, if it has one.
    pub(super) fn finalizer(&self, handler: HandlerId) -> Option<&str> {
        let handler = self.chain.iter().find(|it| it.id == handler);
        handler.and_then(|handler| handler.code.finalizer())
    }

    /// Calls the recipients, without those that were called before an interruption. Returns the
    /// time of the end.
    async fn dispatch(
        &self,
        guard: &mut LaneGuard<QueuedEvent, RepeatableCall>,
        recipients: &Recipients<'_>,
        mut carried: CarryOver,
        mut now: Moment,
    ) -> Result<Moment, Stopped> {
        let (lane, work, later) = guard.parts();
        let Work::Event { offer, .. } = work else {
            return Ok(now);
        };
        let QueuedEvent {
            event,
            last_called,
            reasons,
            ..
        } = &mut offer.event;
        let reasons = *reasons;
        for (handler, event) in recipients.iter(event) {
            let Some(action) = Action::of(event) else {
                return Ok(now);
            };
            let position = HandlerPosition::of(handler.position());
            if last_called.is_some_and(|last_called| position <= last_called)
                || handler.is_removed()
                || carried.waits(handler.id)
            {
                continue;
            }
            let PreviousCalls {
                attempt,
                state,
                object,
                backoff,
            } = carried.take(handler.id);
            let from = object.and_then(|old| updated_from(old, event));
            let event = from.as_ref().unwrap_or(event);
            let attempt = Attempt {
                number: attempt,
                is_last: self.is_last(attempt),
                is_repeated: false,
                is_stale: false,
                reasons,
                state,
            };
            let invocation = Invocation {
                handler,
                key: &lane.object,
                action,
                event,
            };
            let called = self.call(&invocation, attempt, backoff, &mut now).await?;
            // No `await` from here to the end: the call and its results are noted together.
            match called {
                Called::Done => {}
                Called::Pending(pending) => later.push(*pending),
                Called::Declined => {
                    let latest = self.shared.settings.retry_object == RetryObject::Latest;
                    later.extend(carried.take_cancelled(handler.id, invocation.event, latest));
                }
            }
            *last_called = Some(position);
        }
        if let Some(object) = event.object() {
            object.release_decoded();
        }
        Ok(now)
    }

    /// Repeats one call. Returns the time of the end.
    async fn repeat(
        &self,
        guard: &mut LaneGuard<QueuedEvent, RepeatableCall>,
    ) -> Result<Moment, Stopped> {
        let mut now = guard.since();
        let key = &guard.key().object;
        let Work::Retry(pending) = guard.work() else {
            return Ok(now);
        };
        let handler = self.chain.iter().find(|it| it.id == pending.handler);
        let Some(handler) = handler.filter(|it| !it.is_removed()) else {
            return Ok(now);
        };
        let attempt = Attempt {
            number: pending.call.attempt,
            is_last: self.is_last(pending.call.attempt),
            is_repeated: true,
            is_stale: false,
            reasons: match pending.reason {
                Reason::Failed => Reasons::RETRY,
                Reason::Requeued => Reasons::REQUEUE,
            },
            state: pending.call.state.as_deref().cloned(),
        };
        let invocation = Invocation {
            handler,
            key,
            action: pending.action,
            event: &pending.call.event,
        };
        let backoff = Backoff {
            ended: 0,
            ..pending.call.backoff()
        };
        let called = self.call(&invocation, attempt, backoff, &mut now).await?;
        if let Some(object) = invocation.event.object() {
            object.release_decoded();
        }
        if let Called::Pending(pending) = called {
            guard.add_pending(*pending);
        }
        Ok(now)
    }

    /// Calls a handler, and advances `now` to the end of the call.
    async fn call(
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

    /// The repetition of a failed call, and the delay until it. `None` if it is not repeated: then it
    /// is a dead letter. Without a delay from the policy, `now` advances to the end of the hook.
    async fn failed(
        &self,
        invocation: &Invocation<'_>,
        (attempt, state): (u32, Option<State>),
        backoff: Backoff,
        is_fenced: bool,
        failed: CallFailure,
        now: &mut Moment,
    ) -> Option<(Duration, RepeatableCall)> {
        // An early call keeps the schedule.
        let kept = backoff.kept_due.filter(|due| *due > *now);
        let left = kept.map(|due| due - *now);
        let (delay, attempt) = if is_fenced {
            // It did not fail: the lease ended. Its repetition waits for the next lease.
            (Some(Duration::ZERO), attempt)
        } else {
            self.next_attempt(invocation, attempt, left, &failed)
        };
        let backoff = backoff.after_failure(*now, kept, attempt, delay);
        self.warn_of_ended_backoffs(invocation, backoff.ended);
        let call = RepeatableCall {
            event: invocation.event.clone(),
            attempt,
            state: failed.state.or(state).map(Box::new),
            failed: Some(Box::new(FailedCall {
                error: Arc::new(failed.error),
                object: None,
                backoff,
            })),
            origin: self.origin.clone(),
        };
        let Some(delay) = delay else {
            self.add_exhausted(invocation, call).await;
            *now = self.shared.engine.now();
            return None;
        };
        if !is_fenced && kept.is_none() {
            self.metrics.retried();
        }
        Some((delay, call))
    }

    /// The delay until the retry of a failed call, if there is one, and its attempt number. `kept` is
    /// the time left that an early call keeps.
    fn next_attempt(
        &self,
        invocation: &Invocation<'_>,
        attempt: u32,
        kept: Option<Duration>,
        failed: &CallFailure,
    ) -> (Option<Duration>, u32) {
        if failed.is_conflict {
            return (self.conflict_delay(invocation, failed), attempt);
        }
        let delay = self.retry_delay(invocation, attempt, kept, failed);
        (delay, attempt.saturating_add(u32::from(kept.is_none())))
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

    /// Logs that calls of a handler fail without a backoff, because its object changes each time.
    fn warn_of_ended_backoffs(&self, invocation: &Invocation<'_>, ended: u32) {
        /// How many backoffs in a row are ended before it is logged.
        const ROUNDS: u32 = 10;
        if ended == ROUNDS {
            log::warn!(
                component = "InformerController",
                kind = %self.metrics.kind,
                key = %invocation.key,
                handler = invocation.handler.id.0,
                handler_type = invocation.handler.code.type_name(),
                rounds = ROUNDS,
                "calls fail without backoff because the object changes after each failure; if the \
                 handler writes it, write only what differs, and after all other steps"
            );
        }
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

    /// Returns the delay until the retry of a failed call, if there is one, and reports the
    /// failure. `kept` is the delay that an early call keeps; then the policy is not asked.
    fn retry_delay(
        &self,
        invocation: &Invocation<'_>,
        attempt: u32,
        kept: Option<Duration>,
        failed: &CallFailure,
    ) -> Option<Duration> {
        let settings = &self.shared.settings;
        let policy = || kept.or_else(|| self.policy(invocation, attempt, failed));
        let retry_in = match failed.retry {
            Retry::Never => None,
            Retry::Policy => {
                let asked = failed.error.retry_after().unwrap_or_default();
                policy().map(|delay| delay.max(asked))
            }
            Retry::After(asked) => policy().map(|_| asked.max(kept.unwrap_or_default())),
        };
        let report = self.report(invocation, attempt, &failed.error, retry_in);
        call_user_code("on_error", || (settings.on_error)(&report));
        retry_in
    }

    /// Returns the delay after a conflict with another writer, if the policy repeats the call, and logs
    /// it: the delay of a first failure.
    fn conflict_delay(
        &self,
        invocation: &Invocation<'_>,
        failed: &CallFailure,
    ) -> Option<Duration> {
        let asked = failed.error.retry_after().unwrap_or_default();
        let delay = self.policy(invocation, 0, failed)?.max(asked);
        log::info!(
            component = "InformerController",
            kind = &*self.metrics.kind,
            object = %invocation.key,
            retry_in = ?delay,
            error = %ErrorChain::new(&failed.error),
            "another writer was faster, retrying"
        );
        Some(delay)
    }

    fn report<'a>(
        &'a self,
        invocation: &'a Invocation<'_>,
        attempt: u32,
        error: &'a HandlerError,
        retry_in: Option<Duration>,
    ) -> ErrorReport<'a> {
        ErrorReport {
            kind: &self.metrics.kind,
            key: invocation.key,
            handler: invocation.handler.id,
            handler_type: invocation.handler.code.type_name(),
            role: invocation.handler.role,
            action: invocation.action,
            attempt,
            error,
            retry_in,
        }
    }

    /// Adds a dead letter for a call that is not repeated any more, and calls the hook.
    async fn add_exhausted(&self, invocation: &Invocation<'_>, call: RepeatableCall) {
        let Some(error) = call.failed.as_ref().map(|failed| Arc::clone(&failed.error)) else {
            return;
        };
        let lane = LaneKey {
            kind: self.kind,
            object: invocation.key.clone(),
        };
        let (kind, handler) = (&self.metrics.kind, invocation.handler);
        let entry = DeadLetterEntry::new(lane, kind, handler, invocation.action, error, call);
        self.metrics.retries_exhausted();
        let letter = self.shared.add_dead_letter(entry);
        // After the dead letter was added: the hook may redrive it.
        let settings = &self.shared.settings;
        if let Some(hook) = &settings.on_exhausted {
            // As for a handler, because the hook may write a status. After a stop, no hook waits for
            // the lease.
            let permit = tokio::select! {
                biased;
                permit = self.shared.permit() => permit,
                () = self.stop.cancelled() => return,
            };
            let called = exhausted::call(hook, letter, settings.call_timeout);
            match &permit {
                Some(permit) => permit.within(called).await,
                None => called.await,
            }
        }
    }

    /// Returns the decision of the retry policy; of the default policy if it panics.
    fn policy(
        &self,
        invocation: &Invocation<'_>,
        attempt: u32,
        failed: &CallFailure,
    ) -> Option<Duration> {
        let random = self.shared.random();
        let policy = &self.shared.settings.retry;
        let report = self.report(invocation, attempt, &failed.error, None);
        call_user_code("retry_policy", || policy.delay(&report, random))
            .unwrap_or_else(|| ExponentialBackoff::DEFAULT.delay_after(attempt, random))
    }

    fn is_last(&self, attempt: u32) -> bool {
        let max = self.shared.max_attempts;
        max.is_some_and(|max| attempt >= max)
    }
}

// === impl ObservedCall ===

impl ObservedCall<'_> {
    fn begin(&self) {
        if let Some(observer) = observer() {
            observer.began(&self.turn.metrics.kind, self.invocation.key);
        }
    }

    /// Does not report a call that did not take place.
    fn discard(&mut self) {
        self.began = None;
        if let Some(observer) = observer() {
            observer.ended(&self.turn.metrics.kind, self.invocation.key, None);
        }
    }

    fn ended(&mut self, now: Moment, ended: &Result<Outcome, CallFailure>) {
        let outcome = match ended {
            Ok(outcome) => match outcome.delay() {
                Some(delay) => CallOutcome::Requeued(delay),
                None => CallOutcome::Succeeded,
            },
            Err(failed) if failed.is_conflict => CallOutcome::Conflict(&failed.error),
            Err(failed) => CallOutcome::Failed(&failed.error),
        };
        self.report(now, outcome);
    }

    fn report(&mut self, now: Moment, outcome: CallOutcome<'_>) {
        let (hook, observer) = (&self.turn.shared.settings.on_call, observer());
        let Some(began) = self.began.take() else {
            return;
        };
        if hook.is_none() && observer.is_none() {
            return;
        }
        let report = CallReport {
            kind: &self.turn.metrics.kind,
            key: self.invocation.key,
            handler: self.invocation.handler.id,
            role: self.invocation.handler.role,
            action: self.invocation.action,
            attempt: self.attempt,
            outcome,
            duration: now - began,
        };
        if let Some(hook) = hook {
            call_user_code("on_call", || hook(&report));
        }
        if let Some(observer) = observer {
            observer.ended(report.kind, report.key, Some(&report));
        }
    }
}

impl Drop for ObservedCall<'_> {
    fn drop(&mut self) {
        if self.began.is_some() {
            let now = self.turn.shared.engine.now();
            self.report(now, CallOutcome::Abandoned);
        }
    }
}
