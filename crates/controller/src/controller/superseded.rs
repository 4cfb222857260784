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
//! | failed, not due | a resync that a mapper requested; in a level-triggered controller any event | an early call: cancelled or kept, as the policy says |
//! | of a wrapper with a finalizer | the finalizer was removed | cancelled or kept, as the policy says |
//! | failed, not due | of the same generation, not newly marked for deletion | kept with the newest object; the event is not dispatched to its handler |
//! | any | any | cancelled or kept, as the policy says |
//!
//! For an event of the same generation, with [`RetryObject::AsReceived`](crate::RetryObject), a failed
//! call that is not due is replaced by a call for the event at the same due time if the policy drops it;
//! otherwise it is kept, and the event is dispatched at once.
//!
//! A wrapper with a finalizer only knows after its requests whether its inner handler is called for
//! an event. If it is not, because a predicate rejects the event, the calls that the event has
//! cancelled stay pending, and the dead letters that it has removed are added again. A `Deleted` cancels
//! and removes them anyway.
//!
//! An *early call* repeats a failed call before its retry is due. A resync that a mapper requested, in
//! a level-triggered controller any event, causes one, because the cause of the failure may no longer
//! exist, but at most once in the first delay of the policy. An early call that fails keeps the due time
//! of the retry and the number of failures. Calls of another uid with the same name are not affected.
//!
//! The attempt number and the state of a cancelled call pass to the call that replaces it. They do
//! not pass from another action to the first `Deleted`, nor from a `Deleted` to a call for an
//! object that exists again. Exception: the state of a handler with a finalizer passes to the first
//! `Deleted`, because such a handler may have begun its clean-up before.

mod carry_over;

use windlass_informer::{ErasedObject, Event, ObjectKey};

pub(super) use self::carry_over::{CarryOver, PreviousCalls, PreviousFailure};
use super::{
    engine::LaneGuard,
    queued::{QueuedEvent, RepeatableCall, RetrySchedule},
    turn::{Recipients, Turn, updated_from},
};
use crate::{
    Action, NewEvent, PendingCall, RetryObject,
    event::AnyEvent,
    schedule::{Moment, Pending, Reason, Work},
    work::call_user_code,
};

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

/// An event that is about to be dispatched, and what decides about the pending calls of its object.
struct Superseding<'a> {
    turn: &'a Turn<'a>,
    recipients: &'a Recipients<'a>,
    key: &'a ObjectKey,
    event: &'a AnyEvent,
    now: Moment,
    /// Whether it causes early calls.
    is_wake: bool,
    /// Whether pending calls get the newest object.
    latest: bool,
}

/// Decides about each pending call of the object of an event, before the event is dispatched. Those
/// that stay pending are added to the schedule when `guard` is returned.
pub(super) fn supersede(
    turn: &Turn<'_>,
    guard: &mut LaneGuard<QueuedEvent, RepeatableCall>,
    recipients: &Recipients<'_>,
) -> CarryOver {
    let now = guard.since();
    let (lane, work, new_pendings) = guard.parts();
    let mut carried = CarryOver::default();
    let Work::Event { offer, pendings } = work else {
        return carried;
    };
    offer.pendings_checked = true;
    if pendings.is_empty() {
        return carried;
    }
    let settings = &turn.shared.settings;
    let superseding = Superseding {
        turn,
        recipients,
        key: &lane.object,
        event: &offer.event.event,
        now,
        // A level-triggered handler is called for any change of its object as for a resync.
        is_wake: offer.event.requested_by_mapper || settings.level_triggered,
        latest: settings.retry_object == RetryObject::Latest,
    };
    let decisions: Vec<_> = (pendings.iter())
        .map(|pending| superseding.decide(pending))
        .collect();
    let waiting = pendings.iter().zip(&decisions);
    let waiting = waiting.filter(|(_, decision)| decision.waits());
    carried.waiting = waiting.map(|(pending, _)| pending.handler).collect();
    for (pending, decision) in pendings.drain(..).zip(decisions) {
        new_pendings.extend(superseding.apply(decision, pending, &mut carried));
    }
    carried
}

// === impl Decision ===

impl Decision {
    /// Whether the call replaces the call of its handler for the event.
    const fn waits(self) -> bool {
        matches!(self, Self::TakeOver | Self::Replace)
    }
}

// === impl Superseding ===

impl Superseding<'_> {
    /// Decides about `pending`, as the table says.
    fn decide(&self, pending: &Pending<RepeatableCall>) -> Decision {
        if matches!(self.event, Event::Deleted { .. }) {
            return Decision::Cancel;
        }
        let Some(event) = self.recipients.event_of(pending.handler, self.event) else {
            return Decision::Keep;
        };
        if pending.action == Action::Deleted {
            // The handler receives that the object exists again.
            return Decision::Cancel;
        }
        let dequeued = is_dequeued(self.turn, self.key, pending, event);
        let is_early = self.is_wake && pending.call.backoff().early_from() <= self.now;
        let waits = !is_early
            && is_in_backoff(pending, self.now, event)
            && !self.turn.is_finalizer_removed(pending, event);
        match (waits, dequeued) {
            (true, _) if self.latest => Decision::TakeOver,
            (true, true) => Decision::Replace,
            (false, true) => Decision::Cancel,
            (_, false) => Decision::Keep,
        }
    }

    /// Applies the decision. Returns the call if it stays pending.
    fn apply(
        &self,
        decision: Decision,
        mut pending: Pending<RepeatableCall>,
        carried: &mut CarryOver,
    ) -> Option<Pending<RepeatableCall>> {
        // Its handler is not called for the event, so nothing passes to that call.
        let waits = carried.waits(pending.handler);
        let backoff = next_schedule(&pending, self.now, self.event, self.is_wake);
        match decision {
            Decision::Cancel if !waits => {
                let has_finalizer = self.turn.finalizer(pending.handler).is_some();
                carried.add(&pending, self.event, backoff, has_finalizer);
                if has_finalizer && !matches!(self.event, Event::Deleted { .. }) {
                    carried.cancelled.push(pending);
                }
                return None;
            }
            Decision::Keep if !waits => {
                carried.add_count(&pending, self.event, backoff);
                // The handler receives the event in a separate call.
                if let Some(failed) = &mut pending.call.failed {
                    failed.object = self.event.object().cloned();
                }
            }
            _ => {}
        }
        if decision == Decision::Replace {
            replace(&mut pending.call, self.event);
        } else if self.latest {
            pending.call.refresh(self.event);
        }
        if decision.waits() && self.is_wake {
            hasten(&mut pending);
        }
        adopt_action(&mut pending);
        Some(pending)
    }
}

/// Makes of `call` a call for `event`: from the last state that its handler received.
fn replace(call: &mut RepeatableCall, event: &AnyEvent) {
    let object = call.event.object().cloned();
    let mut old = None;
    if let Some(failed) = &mut call.failed {
        failed.object = failed.object.take().or(object);
        old.clone_from(&failed.object);
    }
    let from = old.and_then(|old| updated_from(old, event));
    call.event = from.unwrap_or_else(|| event.clone());
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
fn next_schedule(
    pending: &Pending<RepeatableCall>,
    now: Moment,
    event: &AnyEvent,
    is_wake: bool,
) -> RetrySchedule {
    let backoff = pending.call.backoff();
    let objects = pending.call.event.object().zip(event.object());
    let is_urgent = objects.is_none_or(|(old, new)| has_changed(&**old, &**new));
    let is_waiting = pending.reason == Reason::Failed && pending.due > now;
    let kept = backoff.kept_due.unwrap_or(pending.due);
    RetrySchedule {
        kept_due: (is_wake && is_waiting && !is_urgent).then_some(kept),
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
