//! Attempts, states and retry schedules that pending calls pass to the calls that follow them.

use std::sync::Arc;

use windlass_informer::{ErasedObject, Event};

use super::{adopt_action, has_changed};
use crate::{
    Action, HandlerError, HandlerId, Reasons, State,
    controller::{
        dead_letters::DeadLetterEntry,
        queued::{LastFailure, QueuedEvent, RepeatableCall, RetrySchedule},
    },
    event::AnyEvent,
    schedule::{Pending, ScheduleItem as _},
};

/// What the pending calls pass to the calls for an event.
#[derive(Default)]
pub(in crate::controller) struct CarryOver {
    /// The handlers with a pending call that replaces the call for the event.
    pub(super) waiting: Vec<HandlerId>,

    calls: Vec<(HandlerId, PreviousCalls)>,

    /// The cancelled calls of wrappers. They stay pending if the wrapper does not call its inner
    /// handler for the event.
    pub(super) cancelled: Vec<Pending<RepeatableCall>>,

    /// The dead letters that were removed because their handlers are called for the event. Those of a
    /// wrapper are added again if it does not call its inner handler.
    forgotten: Vec<DeadLetterEntry>,
}

/// What the previous calls of a handler for this uid pass to the next one.
#[derive(Default)]
pub(in crate::controller) struct PreviousCalls {
    /// The number of failed calls in a row.
    pub(in crate::controller) attempt: u32,
    pub(in crate::controller) state: Option<State>,
    /// The object of the last call, if the pending call has got newer ones since.
    pub(in crate::controller) object: Option<Arc<dyn ErasedObject>>,
    pub(in crate::controller) failed: PreviousFailure,
    /// Why a deferred call had been queued.
    pub(in crate::controller) reasons: Reasons,
}

/// The failure of an earlier call: its error, and the schedule of its retry.
#[derive(Default)]
pub(in crate::controller) struct PreviousFailure {
    error: Option<Arc<HandlerError>>,
    pub(in crate::controller) backoff: RetrySchedule,
}

// === impl PreviousFailure ===

impl PreviousFailure {
    pub(in crate::controller) fn of(call: &RepeatableCall) -> Self {
        let failed = call.failed.as_ref();
        Self {
            error: failed.map(|failed| Arc::clone(&failed.error)),
            backoff: call.backoff(),
        }
    }

    /// The same failure with another schedule.
    fn scheduled(self, backoff: RetrySchedule) -> Self {
        Self { backoff, ..self }
    }

    /// The failure, for a call that was deferred after it.
    pub(in crate::controller) fn error(self) -> Option<Box<LastFailure>> {
        let failed = LastFailure {
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
    pub(in crate::controller) fn waits(&self, handler: HandlerId) -> bool {
        self.waiting.contains(&handler)
    }

    /// Takes what the previous calls of `handler` pass on.
    pub(in crate::controller) fn take(&mut self, handler: HandlerId) -> PreviousCalls {
        let at = self.calls.iter().position(|(it, _)| *it == handler);
        at.map_or_else(PreviousCalls::default, |at| self.calls.swap_remove(at).1)
    }

    /// Notes the attempt number of `pending`, which is kept.
    pub(super) fn add_count(
        &mut self,
        pending: &Pending<RepeatableCall>,
        event: &AnyEvent,
        backoff: RetrySchedule,
    ) {
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
    pub(super) fn add(
        &mut self,
        pending: &Pending<RepeatableCall>,
        event: &AnyEvent,
        backoff: RetrySchedule,
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

    /// Notes a dead letter that was removed because of `event`. Its state is for the call that follows.
    pub(in crate::controller) fn add_forgotten(
        &mut self,
        entry: DeadLetterEntry,
        event: &QueuedEvent,
    ) {
        if !entry.call.is_same_object(event) {
            return;
        }
        let state = entry.call.state.as_deref();
        if let Some(state) = state.filter(|_| is_continued(entry.action, &event.event)) {
            self.note(
                entry.letter.handler,
                PreviousCalls {
                    state: Some(state.clone()),
                    ..PreviousCalls::default()
                },
            );
        }
        if !matches!(event.event, Event::Deleted { .. }) {
            self.forgotten.push(entry);
        }
    }

    /// Takes the dead letters of `handler` that were removed.
    pub(in crate::controller) fn take_forgotten(
        &mut self,
        handler: HandlerId,
    ) -> Vec<DeadLetterEntry> {
        let theirs = |it: &mut DeadLetterEntry| it.letter.handler == handler;
        self.forgotten.extract_if(.., theirs).collect()
    }

    /// Takes the cancelled calls of `handler`, with the object of `event` if retries get the newest.
    pub(in crate::controller) fn take_cancelled(
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
