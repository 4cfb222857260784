//! The pending calls that a new event of their object replaces.
//!
//! | pending call | event | becomes |
//! |--|--|--|
//! | any | `Deleted` of its uid | cancelled, whatever the policy says |
//! | a `Deleted` | `Added` of its uid, which is back | cancelled |
//! | of a handler whose predicate refuses the event | any | kept, with the newest object |
//! | failed, not due | of the same generation | kept with the newest object; the event is not dispatched to its handler |
//! | failed and due, or of an older generation, or a requeue | any | cancelled or kept, as the policy says |
//! | any | a resync that a mapper asked for | cancelled or kept, as the policy says |
//! | of a wrapper with a finalizer | without that finalizer, which was there | cancelled or kept, as the policy says |
//!
//! A resync that a mapper asked for ends the wait, because what the call waits for may have come;
//! the count of failures goes on. Calls about another uid of the same name are not touched.
//!
//! What a cancelled call counted and carried goes over to the call that takes its place, but not
//! from another action to the first `Deleted`, nor from a `Deleted` to the call for an object that
//! is back. The state of a handler with a finalizer does go over to the first `Deleted`, because
//! such a handler may have begun its clean-up before.

use std::sync::Arc;

use windlass_informer::{ErasedObject, Event};

use super::{
    engine::LaneGuard,
    queued::{PendingCall, QueuedEvent},
    turn::{Recipients, Turn, updated_from},
};
use crate::{
    Action, HandlerId, NewEvent, PendingRetry, RetryObject, State,
    event::AnyEvent,
    schedule::{Moment, Pending, Reason, Work},
    work::call_user_code,
};

/// What pending calls leave to the calls that an event makes.
#[derive(Default)]
pub(super) struct CarryOver {
    /// Handlers with a pending call that has taken the event over.
    waiting: Vec<HandlerId>,

    calls: Vec<(HandlerId, PreviousCalls)>,
}

/// What the previous calls of a handler for this uid leave to the next one.
#[derive(Default)]
pub(super) struct PreviousCalls {
    /// How many failed, one after the other.
    pub(super) attempt: u32,
    pub(super) state: Option<State>,
    /// The object of the last call, if the pending call has taken events over since.
    pub(super) object: Option<Arc<dyn ErasedObject>>,
}

/// What becomes of one pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Cancel,
    Keep,
    /// It is kept, and stands for the event.
    TakeOver,
    /// It is replaced by the event, which waits in its place.
    Replace,
}

/// Decides about each pending call of the object of an event, before the event is dispatched.
pub(super) fn supersede(
    turn: &Turn<'_>,
    held: &mut LaneGuard<QueuedEvent, PendingCall>,
    recipients: &Recipients<'_>,
) -> CarryOver {
    let now = held.since();
    let (lane, work, later) = held.parts();
    let Work::Event { offer, pendings } = work else {
        return CarryOver::default();
    };
    offer.pendings_checked = true;
    if pendings.is_empty() {
        return CarryOver::default();
    }
    let event = &offer.event.event;
    let latest = turn.shared.settings.retry_object == RetryObject::Latest;
    let is_dequeued = |pending: &Pending<PendingCall>, event: &AnyEvent| {
        let arrival = Action::of(event).zip(event.object());
        let retry = pending.call.event.object();
        let Some(((action, object), retry)) = arrival.zip(retry) else {
            return true;
        };
        let arrival = NewEvent {
            kind: &turn.metrics.kind,
            key: &lane.object,
            action,
            object,
        };
        let retry = PendingRetry {
            handler: pending.handler,
            action: pending.action,
            object: retry,
            error: pending.call.failed.as_deref().map(|failed| &*failed.error),
            attempt: pending.call.attempt,
        };
        let policy = &turn.shared.settings.dequeue;
        // A policy that panics is taken to have said yes, as the default does.
        call_user_code("retry_dequeue_policy", || policy.dequeue(&arrival, &retry)).unwrap_or(true)
    };

    let mut carried = CarryOver::default();
    let verdicts: Vec<_> = (pendings.iter())
        .map(|pending| {
            if matches!(event, Event::Deleted { .. }) {
                return Decision::Cancel;
            }
            let Some(event) = recipients.event_of(pending.handler, event) else {
                return Decision::Keep;
            };
            if pending.action == Action::Deleted {
                // The handler is given that the object is back.
                return Decision::Cancel;
            }
            let dequeued = is_dequeued(pending, event);
            let waits = !offer.event.requested_by_mapper
                && is_in_backoff(pending, now, event)
                && !turn.is_finalizer_removed(pending, event);
            let verdict = match (waits, dequeued) {
                (true, _) if latest => Decision::TakeOver,
                (true, true) => Decision::Replace,
                (false, true) => Decision::Cancel,
                (_, false) => Decision::Keep,
            };
            if matches!(verdict, Decision::TakeOver | Decision::Replace) {
                carried.waiting.push(pending.handler);
            }
            verdict
        })
        .collect();
    for (mut pending, verdict) in pendings.drain(..).zip(verdicts) {
        let waits = carried.waits(pending.handler);
        if verdict == Decision::Cancel && !waits {
            let has_finalizer = turn.finalizer(pending.handler).is_some();
            carried.add(pending, event, has_finalizer);
            continue;
        }
        if verdict == Decision::Keep && !waits {
            carried.add_count(&pending, event);
            // The handler gets the event by itself.
            if let Some(failed) = &mut pending.call.failed {
                failed.object = event.object().cloned();
            }
        }
        if verdict == Decision::Replace {
            let object = pending.call.event.object().cloned();
            if let Some(failed) = &mut pending.call.failed {
                failed.object = failed.object.take().or(object);
            }
            // From the state that the handler got last.
            let failed = pending.call.failed.as_ref();
            let old = failed.and_then(|failed| failed.object.clone());
            let from = old.and_then(|old| updated_from(old, event));
            pending.call.event = from.unwrap_or_else(|| event.clone());
        } else if latest {
            pending.call.refresh(event);
        }
        if let Some(action) = Action::of(&pending.call.event)
            && pending.action != Action::Deleted
        {
            pending.action = action;
        }
        later.push(pending);
    }
    carried
}

/// Whether `pending` failed and is not due, and `event` is no reason to call sooner: it has
/// neither another generation nor a new deletion mark.
fn is_in_backoff(pending: &Pending<PendingCall>, now: Moment, event: &AnyEvent) -> bool {
    let objects = pending.call.event.object().zip(event.object());
    pending.reason == Reason::Failed
        && pending.due > now
        && objects
            .is_some_and(|(old, new)| !is_marked(&**old, &**new) && !has_changed(&**old, &**new))
}

/// Whether `new` is marked for deletion and `old` is not.
fn is_marked(old: &dyn ErasedObject, new: &dyn ErasedObject) -> bool {
    let is_terminating = |object: &dyn ErasedObject| object.metadata().deletion_timestamp.is_some();
    is_terminating(new) && !is_terminating(old)
}

/// Whether `new` has another generation than `old`, or, for kinds without one, other content.
fn has_changed(old: &dyn ErasedObject, new: &dyn ErasedObject) -> bool {
    match (old.generation(), new.generation()) {
        (Some(old), Some(new)) => old != new,
        _ => crate::content::differs(old, new),
    }
}

// === impl PreviousCalls ===

impl PreviousCalls {
    const fn is_empty(&self) -> bool {
        self.attempt == 0 && self.state.is_none() && self.object.is_none()
    }
}

// === impl CarryOver ===

impl CarryOver {
    /// Whether the event waits in a pending call of `handler`.
    pub(super) fn waits(&self, handler: HandlerId) -> bool {
        self.waiting.contains(&handler)
    }

    /// What the previous calls of `handler` leave.
    pub(super) fn take(&mut self, handler: HandlerId) -> PreviousCalls {
        let at = self.calls.iter().position(|(it, _)| *it == handler);
        at.map_or_else(PreviousCalls::default, |at| self.calls.swap_remove(at).1)
    }

    /// Notes what `pending`, which stays, has counted.
    fn add_count(&mut self, pending: &Pending<PendingCall>, event: &AnyEvent) {
        let attempt = failures(pending, event);
        let failed = pending.call.failed.as_ref();
        self.note(
            pending.handler,
            PreviousCalls {
                attempt,
                state: None,
                object: failed.and_then(|failed| failed.object.clone()),
            },
        );
    }

    /// Notes what `pending`, which goes, has counted and carried. The handler of it may have a
    /// finalizer, and then the clean-up may have begun before the `Deleted`.
    fn add(&mut self, pending: Pending<PendingCall>, event: &AnyEvent, has_finalizer: bool) {
        let attempt = failures(&pending, event);
        let keeps_state = is_continued(&pending, event)
            || (has_finalizer && matches!(event, Event::Deleted { .. }));
        let PendingCall { state, failed, .. } = pending.call;
        self.note(
            pending.handler,
            PreviousCalls {
                attempt,
                state: state.filter(|_| keeps_state).map(|state| *state),
                object: failed.and_then(|failed| failed.object),
            },
        );
    }

    fn note(&mut self, handler: HandlerId, previous: PreviousCalls) {
        if previous.is_empty() {
            return;
        }
        let Some((_, known)) = self.calls.iter_mut().find(|(it, _)| *it == handler) else {
            self.calls.push((handler, previous));
            return;
        };
        known.attempt = previous.attempt.max(known.attempt);
        known.state = known.state.take().or(previous.state);
        known.object = known.object.take().or(previous.object);
    }
}

/// Whether a call about `event` goes on with what `pending` did: either both are about the delete
/// of the object, or neither is.
fn is_continued(pending: &Pending<PendingCall>, event: &AnyEvent) -> bool {
    (pending.action == Action::Deleted) == matches!(event, Event::Deleted { .. })
}

/// How many failures of `pending` count for a call about `event`: those of its generation.
fn failures(pending: &Pending<PendingCall>, event: &AnyEvent) -> u32 {
    if pending.call.attempt == 0 || !is_continued(pending, event) {
        // Nothing to count: the states, whose JSON would be read for it, are not compared.
        return 0;
    }
    let objects = pending.call.event.object().zip(event.object());
    let is_new = objects.is_none_or(|(old, new)| has_changed(&**old, &**new));
    if is_new { 0 } else { pending.call.attempt }
}
