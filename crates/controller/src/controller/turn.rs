//! One turn of a worker: one event for all its handlers, or one repeated call.
//!
//! A worker of `run` takes a lane from the engine and calls [`run`] here.

mod call;
mod failure;
mod observed_call;
mod recipients;

use std::{pin::pin, sync::Arc};

use tokio_util::sync::CancellationToken;

use self::call::{Called, Invocation, Stopped};
pub(super) use self::recipients::{Recipients, updated_from};
use super::{
    Shared,
    engine::LaneGuard,
    queued::{HandlerPosition, QueuedEvent, RepeatableCall},
    snapshot::RouteSnapshot,
    superseded::{CarryOver, PreviousCalls, PreviousFailure, supersede},
};
use crate::{
    Action, ErasedObject, HandlerId, Reasons, RetryObject,
    event::AnyEvent,
    metrics::KindMetrics,
    reconciler::Attempt,
    route::{Chain, KindId, KindSnapshot},
    schedule::{Moment, Pending, Reason, ScheduleItem as _, Work},
    trace::{self, TraceParent},
};

/// One turn: its kind, handlers and span.
pub(super) struct Turn<'a> {
    pub(super) shared: &'a Shared,
    /// Cancelled when calls end: at the stop, or with `OnStop::Drain` when all feeds have ended. After
    /// that no call begins; with `OnStop::Drain` the queued calls still begin, but none waits for the
    /// fence.
    end: &'a CancellationToken,
    kind: KindId,
    chain: &'a Chain,
    pub(super) metrics: &'a KindMetrics,
    /// The span of the turn, for calls that follow from it.
    origin: TraceParent,
}

/// Processes the work of `guard`. Returns the time of its end; then return the lane with `finish` or
/// `next`. Returns `None` if `end` was cancelled before the last call; then drop the guard, so
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
    end: &CancellationToken,
) -> Option<Moment> {
    let kind = guard.key().kind;
    let began = guard.since();
    let Some(KindSnapshot { chain, metrics }) = routes.of(kind, shared) else {
        // The kind was removed with all its handlers.
        return Some(began);
    };
    let mut turn = Turn {
        shared,
        end,
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
            let span = trace::event(
                &shared.settings.name,
                &metrics.kind,
                key,
                action,
                &queued.event,
                &queued.origin,
            );
            turn.origin = TraceParent::of(&span);
            (ongoing, span)
        }
        Work::Retry(pending) => {
            let ongoing = metrics.retry(pending.action, began - pending.due);
            let (key, call) = (&guard.key().object, &pending.call);
            let (uid, action) = (call.uid(), pending.action);
            let span = trace::retry(
                &shared.settings.name,
                &metrics.kind,
                key,
                uid,
                action,
                call.attempt,
            );
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
    let done = span.within(pin!(turn.run(guard))).await.ok()?;
    ongoing.done(done - began);
    Some(done)
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
            guard.take_concurrent_pendings();
        }
        let mut carried = supersede(self, guard, &recipients);
        if let (Work::Event { offer, .. }, Some(forgotten)) = (guard.work(), forgotten) {
            for entry in forgotten {
                carried.add_forgotten(entry, &offer.event);
            }
        }
        self.dispatch(guard, &recipients, carried, began).await
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
        Some(handler?.code.finalizer()?.name().as_str())
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
        let (lane, work, new_pendings) = guard.parts();
        let Work::Event { offer, .. } = work else {
            return Ok(now);
        };
        let QueuedEvent {
            event,
            last_called,
            reasons,
            resynced,
            ..
        } = &mut offer.event;
        let (reasons, is_resynced) = (*reasons, *resynced);
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
                failed,
                reasons: deferred,
            } = carried.take(handler.id);
            let from = object.and_then(|old| updated_from(old, event));
            let event = from.as_ref().unwrap_or(event);
            let attempt = Attempt {
                number: attempt,
                is_last: self.is_last(attempt),
                is_resynced,
                reasons: reasons | deferred,
                state,
                ..Attempt::default()
            };
            let invocation = Invocation {
                handler,
                key: &lane.object,
                action,
                event,
            };
            let called = self.call(&invocation, attempt, failed, &mut now).await?;
            // No `await` from here to the end: the call and its results are noted together.
            match called {
                Called::Done => {}
                Called::Pending(pending) => new_pendings.push(*pending),
                Called::Declined => {
                    let latest = self.shared.settings.retry_object == RetryObject::Latest;
                    new_pendings.extend(carried.take_cancelled(
                        handler.id,
                        invocation.event,
                        latest,
                    ));
                    let letters = carried.take_forgotten(handler.id);
                    self.shared.put_back_dead_letters(letters);
                }
            }
            *last_called = Some(position);
        }
        event.release_decoded();
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
        let is_delete = pending.action == Action::Deleted;
        if !is_delete && self.shared.is_orphaned(guard.key(), &pending.call.event) {
            return Ok(now);
        }
        let attempt = Attempt {
            number: pending.call.attempt,
            is_last: self.is_last(pending.call.attempt),
            is_repeated: true,
            reasons: match pending.reason {
                _ if pending.call.reasons != Reasons::default() => {
                    pending.call.reasons | Reasons::REQUEUE
                }
                Reason::Failed => Reasons::RETRY,
                Reason::Requeued => Reasons::REQUEUE,
            },
            state: pending.call.state.as_deref().cloned(),
            ..Attempt::default()
        };
        let invocation = Invocation {
            handler,
            key,
            action: pending.action,
            event: &pending.call.event,
        };
        let mut failed = PreviousFailure::of(&pending.call);
        failed.backoff.ended = 0;
        let called = self.call(&invocation, attempt, failed, &mut now).await?;
        invocation.event.release_decoded();
        if let Called::Pending(pending) = called {
            guard.add_pending(*pending);
        }
        Ok(now)
    }
}
