//! The effect of a new event on the pending calls of its object.
//!
//! A turn calls [`supersede`] before it dispatches an event. The first row that applies decides.
//! *The policy* is the [`RetryDequeuePolicy`](crate::RetryDequeuePolicy).
//!
//! | pending call | event | result |
//! |--|--|--|
//! | any | `Deleted` of its uid | cancelled, whatever the policy says |
//! | of a handler whose predicate rejects the event | any | kept, with the newest object |
//! | a `Deleted` | `Added` of its uid, which exists again | cancelled |
//! | failed, not due | a resync that a mapper requested | an early call: cancelled or kept, as the policy says |
//! | of a wrapper with a finalizer | the finalizer was removed | cancelled or kept, as the policy says |
//! | failed, not due | of the same generation, not newly marked for deletion | kept with the newest object; the event is not dispatched to its handler |
//! | any | any | cancelled or kept, as the policy says |
//!
//! A wrapper with a finalizer only knows after its requests whether its inner handler is called for
//! an event. If it is not, because a predicate rejects the event, the calls that the event has
//! cancelled stay pending. A `Deleted` cancels them anyway.
//!
//! A resync that a mapper requested causes an early call, because the cause of the failure may no
//! longer exist, but at most once in the first delay of the policy. An early call that fails keeps
//! the due time of the retry and the number of failures. Calls of another uid with the same name are
//! not affected.
//!
//! The attempt number and the state of a cancelled call pass to the call that replaces it. They do
//! not pass from another action to the first `Deleted`, nor from a `Deleted` to a call for an
//! object that exists again. Exception: the state of a handler with a finalizer passes to the first
//! `Deleted`, because such a handler may have begun its clean-up before.

use std::sync::Arc;

use windlass_informer::{ErasedObject, Event, ObjectKey};

use super::{
    engine::LaneGuard,
    queued::{Backoff, FailedCall, QueuedEvent, RepeatableCall},
    turn::{Recipients, Turn, updated_from},
};
use crate::{
    Action, HandlerError, HandlerId, NewEvent, PendingCall, Reasons, RetryObject, State,
    event::AnyEvent,
    schedule::{Moment, Pending, Reason, Work},
    work::call_user_code,
};

/// What the pending calls pass to the calls for an event.
#[derive(Default)]
pub(super) struct CarryOver {
    /// The handlers with a pending call that replaces the call for the event.
    waiting: Vec<HandlerId>,

    calls: Vec<(HandlerId, PreviousCalls)>,

    /// The cancelled calls of wrappers. They stay pending if the wrapper does not call its inner
    /// handler for the event.
    cancelled: Vec<Pending<RepeatableCall>>,
}

/// What the previous calls of a handler for this uid pass to the next one.
#[derive(Default)]
pub(super) struct PreviousCalls {
    /// The number of failed calls in a row.
    pub(super) attempt: u32,
    pub(super) state: Option<State>,
    /// The object of the last call, if the pending call has got newer ones since.
    pub(super) object: Option<Arc<dyn ErasedObject>>,
    pub(super) failed: PreviousFailure,
    /// Why a deferred call had been queued.
    pub(super) reasons: Reasons,
}

/// The failure of an earlier call: its error, and the schedule of its retry.
#[derive(Default)]
pub(super) struct PreviousFailure {
    error: Option<Arc<HandlerError>>,
    pub(super) backoff: Backoff,
}

/// What happens to one pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Cancel,
    Keep,
    /// Kept, and gets the object of the event. Its handler is not called for the event.
    TakeOver,
    /// Replaced by a call for the event at the same due time. Its handler is not called for the event
    /// before.
    Replace,
}

/// Decides about each pending call of the object of an event, before the event is dispatched.
pub(super) fn supersede(
    turn: &Turn<'_>,
    guard: &mut LaneGuard<QueuedEvent, RepeatableCall>,
    recipients: &Recipients<'_>,
) -> CarryOver {
    let now = guard.since();
    let (lane, work, later) = guard.parts();
    let Work::Event { offer, pendings } = work else {
        return CarryOver::default();
    };
    offer.pendings_checked = true;
    if pendings.is_empty() {
        return CarryOver::default();
    }
    let event = &offer.event.event;
    let latest = turn.shared.settings.retry_object == RetryObject::Latest;
    let is_dequeued = |pending: &_, event: &_| is_dequeued(turn, &lane.object, pending, event);

    // A level-triggered handler is called for any change of its object as for a resync.
    let is_wake = offer.event.requested_by_mapper || turn.shared.settings.level_triggered;
    let mut carried = CarryOver::default();
    let decisions: Vec<_> = (pendings.iter())
        .map(|pending| {
            if matches!(event, Event::Deleted { .. }) {
                return Decision::Cancel;
            }
            let Some(event) = recipients.event_of(pending.handler, event) else {
                return Decision::Keep;
            };
            if pending.action == Action::Deleted {
                // The handler receives that the object exists again.
                return Decision::Cancel;
            }
            let dequeued = is_dequeued(pending, event);
            let is_early = is_wake && pending.call.backoff().early_from() <= now;
            let waits = !is_early
                && is_in_backoff(pending, now, event)
                && !turn.is_finalizer_removed(pending, event);
            let decision = match (waits, dequeued) {
                (true, _) if latest => Decision::TakeOver,
                (true, true) => Decision::Replace,
                (false, true) => Decision::Cancel,
                (_, false) => Decision::Keep,
            };
            if matches!(decision, Decision::TakeOver | Decision::Replace) {
                carried.waiting.push(pending.handler);
            }
            decision
        })
        .collect();
    for (mut pending, decision) in pendings.drain(..).zip(decisions) {
        let waits = carried.waits(pending.handler);
        let backoff = next_backoff(&pending, now, event, is_wake);
        if decision == Decision::Cancel && !waits {
            let has_finalizer = turn.finalizer(pending.handler).is_some();
            carried.add(&pending, event, backoff, has_finalizer);
            if has_finalizer && !matches!(event, Event::Deleted { .. }) {
                carried.cancelled.push(pending);
            }
            continue;
        }
        if decision == Decision::Keep && !waits {
            carried.add_count(&pending, event, backoff);
            // The handler receives the event in a separate call.
            if let Some(failed) = &mut pending.call.failed {
                failed.object = event.object().cloned();
            }
        }
        if decision == Decision::Replace {
            let object = pending.call.event.object().cloned();
            if let Some(failed) = &mut pending.call.failed {
                failed.object = failed.object.take().or(object);
            }
            // From the last state that the handler received.
            let failed = pending.call.failed.as_ref();
            let old = failed.and_then(|failed| failed.object.clone());
            let from = old.and_then(|old| updated_from(old, event));
            pending.call.event = from.unwrap_or_else(|| event.clone());
        } else if latest {
            pending.call.refresh(event);
        }
        if matches!(decision, Decision::TakeOver | Decision::Replace) && is_wake {
            hasten(&mut pending);
        }
        adopt_action(&mut pending);
        later.push(pending);
    }
    carried
}

/// Gives `pending` the action of its event, which may have replaced an earlier one.
fn adopt_action(pending: &mut Pending<RepeatableCall>) {
    if let Some(action) = Action::of(&pending.call.event)
        && pending.action != Action::Deleted
    {
        pending.action = action;
    }
}

/// Whether the dequeue policy drops `pending` because of `event`.
fn is_dequeued(
    turn: &Turn<'_>,
    key: &ObjectKey,
    pending: &Pending<RepeatableCall>,
    event: &AnyEvent,
) -> bool {
    let new_event = Action::of(event).zip(event.object());
    let retry = pending.call.event.object();
    let Some(((action, object), retry)) = new_event.zip(retry) else {
        return true;
    };
    let new_event = NewEvent {
        kind: &turn.metrics.kind,
        key,
        action,
        object,
    };
    let retry = PendingCall {
        handler: pending.handler,
        action: pending.action,
        object: retry,
        error: pending.call.failed.as_deref().map(|failed| &*failed.error),
        attempt: pending.call.attempt,
    };
    let policy = &turn.shared.settings.dequeue;
    // If the policy panics, the default applies: yes.
    call_user_code("retry_dequeue_policy", || {
        policy.dequeue(&new_event, &retry)
    })
    .unwrap_or(true)
}

/// Whether `pending` failed and is not due, and `event` does not end the backoff: it has the same
/// generation and no new deletion mark.
fn is_in_backoff(pending: &Pending<RepeatableCall>, now: Moment, event: &AnyEvent) -> bool {
    let objects = pending.call.event.object().zip(event.object());
    pending.reason == Reason::Failed
        && pending.due > now
        && objects.is_some_and(|(old, new)| {
            !is_newly_marked(&**old, &**new) && !has_changed(&**old, &**new)
        })
}

/// The retry schedule of a call for `event` that replaces `pending`.
fn next_backoff(
    pending: &Pending<RepeatableCall>,
    now: Moment,
    event: &AnyEvent,
    requested_by_mapper: bool,
) -> Backoff {
    let backoff = pending.call.backoff();
    let objects = pending.call.event.object().zip(event.object());
    let is_urgent = objects.is_none_or(|(old, new)| has_changed(&**old, &**new));
    let is_waiting = pending.reason == Reason::Failed && pending.due > now;
    let kept = backoff.kept_due.unwrap_or(pending.due);
    Backoff {
        kept_due: (requested_by_mapper && is_waiting && !is_urgent).then_some(kept),
        ended: if is_waiting && is_urgent {
            backoff.ended.saturating_add(1)
        } else {
            0
        },
        ..backoff
    }
}

/// Makes `pending`, which failed, due as soon as an early call is allowed.
fn hasten(pending: &mut Pending<RepeatableCall>) {
    let due = pending.due;
    let Some(failed) = &mut pending.call.failed else {
        return;
    };
    let early = failed.backoff.early_from();
    if early < due {
        failed.backoff.kept_due.get_or_insert(due);
        pending.due = early;
    }
}

/// Whether `new` is marked for deletion and `old` is not.
fn is_newly_marked(old: &dyn ErasedObject, new: &dyn ErasedObject) -> bool {
    let is_terminating = |object: &dyn ErasedObject| object.metadata().deletion_timestamp.is_some();
    is_terminating(new) && !is_terminating(old)
}

/// Whether the generation differs, or the content for kinds without a generation.
fn has_changed(old: &dyn ErasedObject, new: &dyn ErasedObject) -> bool {
    match (old.generation(), new.generation()) {
        (Some(old), Some(new)) => old != new,
        _ => crate::content::differs(old, new),
    }
}

// === impl PreviousFailure ===

impl PreviousFailure {
    pub(super) fn of(call: &RepeatableCall) -> Self {
        let failed = call.failed.as_ref();
        Self {
            error: failed.map(|failed| Arc::clone(&failed.error)),
            backoff: call.backoff(),
        }
    }

    /// The same failure with another schedule.
    fn scheduled(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// The failure, for a call that was deferred after it.
    pub(super) fn error(self) -> Option<Box<FailedCall>> {
        let failed = FailedCall {
            error: self.error?,
            object: None,
            backoff: self.backoff,
        };
        Some(Box::new(failed))
    }
}

// === impl CarryOver ===

impl CarryOver {
    /// Whether a pending call of `handler` replaces the call for the event.
    pub(super) fn waits(&self, handler: HandlerId) -> bool {
        self.waiting.contains(&handler)
    }

    /// Takes what the previous calls of `handler` pass on.
    pub(super) fn take(&mut self, handler: HandlerId) -> PreviousCalls {
        let at = self.calls.iter().position(|(it, _)| *it == handler);
        at.map_or_else(PreviousCalls::default, |at| self.calls.swap_remove(at).1)
    }

    /// Notes the attempt number of `pending`, which is kept.
    fn add_count(&mut self, pending: &Pending<RepeatableCall>, event: &AnyEvent, backoff: Backoff) {
        let attempt = failures(pending, event);
        let failed = pending.call.failed.as_ref();
        self.note(
            pending.handler,
            PreviousCalls {
                attempt,
                state: None,
                object: failed.and_then(|failed| failed.object.clone()),
                failed: PreviousFailure::of(&pending.call).scheduled(backoff),
                reasons: Reasons::default(),
            },
        );
    }

    /// Notes the attempt number and the state of `pending`, which is cancelled. A handler with a
    /// finalizer may have begun its clean-up before the `Deleted`.
    fn add(
        &mut self,
        pending: &Pending<RepeatableCall>,
        event: &AnyEvent,
        backoff: Backoff,
        has_finalizer: bool,
    ) {
        let attempt = failures(pending, event);
        let keeps_state = is_continued(pending.action, event)
            || (has_finalizer && matches!(event, Event::Deleted { .. }));
        let RepeatableCall { state, failed, .. } = &pending.call;
        self.note(
            pending.handler,
            PreviousCalls {
                attempt,
                state: state.as_deref().filter(|_| keeps_state).cloned(),
                object: failed.as_ref().and_then(|failed| failed.object.clone()),
                failed: PreviousFailure::of(&pending.call).scheduled(backoff),
                reasons: pending.call.reasons,
            },
        );
    }

    /// Notes the state of a call whose retries are exhausted, for the call that follows.
    pub(super) fn add_exhausted(
        &mut self,
        handler: HandlerId,
        action: Action,
        state: State,
        event: &AnyEvent,
    ) {
        if is_continued(action, event) {
            let state = Some(state);
            self.note(
                handler,
                PreviousCalls {
                    state,
                    ..PreviousCalls::default()
                },
            );
        }
    }

    /// Takes the cancelled calls of `handler`, with the object of `event` if retries get the newest.
    pub(super) fn take_cancelled(
        &mut self,
        handler: HandlerId,
        event: &AnyEvent,
        latest: bool,
    ) -> Vec<Pending<RepeatableCall>> {
        let mut taken = Vec::new();
        for mut pending in self.cancelled.extract_if(.., |it| it.handler == handler) {
            if latest {
                pending.call.refresh(event);
                adopt_action(&mut pending);
            }
            taken.push(pending);
        }
        taken
    }

    fn note(&mut self, handler: HandlerId, previous: PreviousCalls) {
        let Some((_, known)) = self.calls.iter_mut().find(|(it, _)| *it == handler) else {
            self.calls.push((handler, previous));
            return;
        };
        if previous.attempt > known.attempt {
            known.failed = previous.failed;
        }
        known.reasons |= previous.reasons;
        known.attempt = previous.attempt.max(known.attempt);
        known.state = known.state.take().or(previous.state);
        known.object = known.object.take().or(previous.object);
    }
}

/// Whether a call for `event` continues the work of a call with `action`: both are for the delete of the
/// object, or neither is.
fn is_continued(action: Action, event: &AnyEvent) -> bool {
    (action == Action::Deleted) == matches!(event, Event::Deleted { .. })
}

/// The number of failures of `pending` that count for a call for `event`: those with the same
/// generation.
fn failures(pending: &Pending<RepeatableCall>, event: &AnyEvent) -> u32 {
    if pending.call.attempt == 0 || !is_continued(pending.action, event) {
        // Without failures the states are not compared, which may parse their JSON.
        return 0;
    }
    let objects = pending.call.event.object().zip(event.object());
    let is_new = objects.is_none_or(|(old, new)| has_changed(&**old, &**new));
    if is_new { 0 } else { pending.call.attempt }
}
