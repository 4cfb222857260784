//! Queued events, pending calls, and how events of one object are coalesced.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use windlass_informer::{Event, ObjectIdentity};

use super::permit::Permit;
use crate::{
    Action, ErasedObject, HandlerError, HandlerId, Reasons, Role, State,
    event::AnyEvent,
    schedule::{Coalesced, Moment, ScheduleItem},
    trace::TraceParent,
};

/// When undispatched events of one object are coalesced: combined into one event, from the oldest to
/// the newest state.
///
/// | queued | newer | coalesced |
/// |--|--|--|
/// | `Added(a)` | `Updated { a, b }` | `Added(b)` |
/// | `Updated { a, b }` | `Updated { b, c }` | `Updated { a, c }` |
/// | `Resynced(a)` | `Updated { a, b }` | `Updated { a, b }` |
/// | `Resynced(a)` | `Added(b)` | `Added(b)` |
/// | `Added` of an object that a handler may know, `Updated`, `Resynced` | `Deleted` | `Deleted` |
/// | `Added` of another object | `Deleted` | nothing |
/// | anything | of another uid | both |
///
/// An event for which a handler was called is never coalesced. A `Resynced` is always coalesced into
/// an undispatched event of its object. A handler whose [`Predicate`](crate::Predicate) rejects that
/// event gets the resync instead. The `Deleted` of an object is dispatched, even if its `Added` was not,
/// if a handler may know the object: it came from a list, so that an earlier process may have processed
/// it; a resync of it was queued before; or the controller is level-triggered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Coalescing {
    /// Each event is dispatched by itself while fewer events than
    /// [`queue`](crate::InformerControllerBuilder::queue) are undispatched. Beyond that, the events
    /// of one object are coalesced. A slow handler never stops the watch. The queue is bounded by that
    /// number, plus the number of existing objects, plus the number of deleted objects whose delete
    /// was not dispatched. The default.
    #[default]
    WhenFull,

    /// Undispatched events of one object are always coalesced, as in the work queue of client-go. So
    /// an object that changes constantly needs no more space in the queue than any other.
    Always,
}

/// An event that waits for its dispatch.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub(crate) struct QueuedEvent {
    pub(crate) event: AnyEvent,

    /// Whether a resync was coalesced into it.
    pub(crate) resynced: bool,

    /// Whether it is a resync that a mapper requested.
    pub(crate) requested_by_mapper: bool,

    /// Why it was queued, and the events that were coalesced into it.
    pub(crate) reasons: Reasons,

    /// Whether the informer's event comes from a list.
    pub(crate) from_list: bool,

    /// Whether a handler may know its object: an earlier process may have processed it, or a
    /// handler was called for it before its `Added`. Then its `Deleted` is dispatched in any case.
    pub(crate) may_be_known: bool,

    /// The span of the informer's event.
    pub(crate) origin: TraceParent,

    /// When it was queued; of coalesced events, when the oldest was queued.
    pub(crate) received: Moment,

    /// The last handler that was called for it, if the dispatch was interrupted.
    pub(crate) last_called: Option<HandlerPosition>,

    /// Its permit, returned when all handlers were called. `None` beyond the bound.
    pub(crate) permit: Option<Permit>,
}

/// A handler's position in its chain. Four bytes, because each queued event has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HandlerPosition(NonZeroU32);

/// A call that can be repeated: the data of a pending call, or of the call of a dead letter.
pub(crate) struct RepeatableCall {
    /// The event for which the handler is called.
    pub(crate) event: AnyEvent,

    /// Whether the last call did nothing yet.
    pub(crate) is_deferred: bool,

    /// The number of failed calls of this handler for this uid, in a row.
    pub(crate) attempt: u32,

    /// The state of the request. Boxed, because most calls have none.
    pub(crate) state: Option<Box<State>>,

    /// The last call, if it failed. Calls that were deferred since do not count.
    pub(crate) failed: Option<Box<LastFailure>>,

    /// Why a call that was deferred had been queued. Empty for other calls.
    pub(crate) reasons: Reasons,

    /// The span of the call that it follows from.
    pub(crate) origin: TraceParent,
}

/// A call that failed.
pub(crate) struct LastFailure {
    pub(crate) error: Arc<HandlerError>,

    /// The object of that call, if the pending call has got a newer one since: see
    /// [`RepeatableCall::refresh`].
    pub(crate) object: Option<Arc<dyn ErasedObject>>,

    pub(crate) backoff: RetrySchedule,
}

/// The retry schedule of a handler for one uid, while its calls fail.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RetrySchedule {
    /// When the last early call failed.
    pub(crate) early: Option<Moment>,

    /// The delay after the first failure in a row: the least time between two early calls.
    pub(crate) first_delay: Duration,

    /// When the retry is due, if the pending call is an early one. A failure of an early call keeps
    /// this time and the attempt.
    pub(crate) kept_due: Option<Moment>,

    /// How often in a row a new state of the object has ended the backoff.
    pub(crate) ended: u32,

    /// How often in a row a finalizer could not be written. These failures have delays of their own.
    pub(crate) finalizer_failures: u32,
}

// === impl Coalescing ===

impl Coalescing {
    /// Coalesces `newer` into `older` of the same object, if that is allowed.
    pub(crate) fn coalesce(
        self,
        older: &mut QueuedEvent,
        mut newer: QueuedEvent,
    ) -> Coalesced<QueuedEvent> {
        // A handler was already called for the older event.
        if older.last_called.is_some() {
            return Coalesced::Separate(newer);
        }
        let all = self == Self::Always || newer.permit.is_none();
        let is_resync = |event: &AnyEvent| matches!(event, Event::Resynced(_));
        let resynced = is_resync(&older.event) || is_resync(&newer.event);
        match (&mut older.event, &mut newer.event) {
            (Event::Added(_) | Event::Updated { .. } | Event::Resynced(_), Event::Resynced(_)) => {}
            (
                Event::Added(object) | Event::Updated { new: object, .. },
                Event::Updated { new, .. },
            ) if all => std::mem::swap(object, new),
            (Event::Added(_), Event::Deleted { .. }) if all && !older.may_be_known => {
                return Coalesced::Cancelled(newer);
            }
            (
                older @ Event::Resynced(_),
                newer @ (Event::Added(_) | Event::Updated { .. } | Event::Deleted { .. }),
            )
            | (older @ (Event::Added(_) | Event::Updated { .. }), newer @ Event::Deleted { .. })
                if all =>
            {
                std::mem::swap(older, newer);
            }
            _ => return Coalesced::Separate(newer),
        }
        // A deleted object has no state to resync.
        older.requested_by_mapper |= newer.requested_by_mapper;
        older.reasons |= newer.reasons;
        older.resynced =
            (older.resynced || resynced) && !matches!(older.event, Event::Deleted { .. });
        Coalesced::Merged(newer)
    }
}

// === impl QueuedEvent ===

impl QueuedEvent {
    /// A live event of an object that a handler may know.
    pub(crate) fn new(event: AnyEvent, reasons: Reasons, received: Moment) -> Self {
        Self {
            event,
            resynced: false,
            requested_by_mapper: false,
            reasons,
            from_list: false,
            may_be_known: true,
            origin: TraceParent::default(),
            received,
            last_called: None,
            permit: None,
        }
    }
}

impl ScheduleItem for QueuedEvent {
    fn uid(&self) -> Option<&str> {
        uid(&self.event)
    }

    fn action(&self) -> Option<Action> {
        Action::of(&self.event)
    }

    fn address(&self) -> Option<usize> {
        address(&self.event)
    }
}

// === impl RetrySchedule ===

impl RetrySchedule {
    /// The time from which the next early call is allowed.
    pub(crate) fn early_from(&self) -> Moment {
        self.early
            .map_or_else(Moment::default, |early| early + self.first_delay)
    }

    /// The due time that a failure at `now` keeps, if the call was an early one. A handler does not keep
    /// that of a finalizer that could not be written. `is_finalizer` says whether the failure is one of
    /// these.
    pub(crate) fn kept_by_failure(self, now: Moment, is_finalizer: bool) -> Option<Moment> {
        let kept = self.kept_due.filter(|due| *due > now);
        kept.filter(|_| is_finalizer || self.finalizer_failures == 0)
    }

    /// The schedule after a failure at `now`, whose retry has `attempt` and comes after `delay`. `kept`
    /// is the due time that an early call keeps. `is_finalizer` says whether a finalizer could not be
    /// written.
    pub(crate) fn after_failure(
        self,
        now: Moment,
        kept: Option<Moment>,
        (attempt, is_finalizer): (u32, bool),
        delay: Option<Duration>,
    ) -> Self {
        let finalizer_failures = match (is_finalizer, kept) {
            (false, _) => 0,
            (true, Some(_)) => self.finalizer_failures,
            (true, None) => self.finalizer_failures.saturating_add(1),
        };
        // Of the handler, or of its finalizer.
        let is_first = if is_finalizer {
            finalizer_failures == 1
        } else {
            attempt == 1 || self.finalizer_failures > 0
        };
        Self {
            early: kept.map_or(self.early, |_| Some(now)),
            first_delay: match delay {
                Some(delay) if is_first && kept.is_none() => delay,
                _ => self.first_delay,
            },
            kept_due: None,
            ended: self.ended,
            finalizer_failures,
        }
    }

    /// The schedule after a call that did not fail, although it has to be repeated.
    pub(crate) fn without_early_call(self) -> Self {
        Self {
            kept_due: None,
            ..self
        }
    }
}

// === impl RepeatableCall ===

impl RepeatableCall {
    /// The retry schedule, if the last call failed.
    pub(crate) fn backoff(&self) -> RetrySchedule {
        let failed = self.failed.as_ref();
        failed.map_or_else(RetrySchedule::default, |failed| failed.backoff)
    }

    /// Replaces the object by that of `newer`, an event of the same uid, so that a later call gets
    /// the newest dispatched state. An update keeps the old state with which the call failed; a
    /// resync becomes the update that followed it.
    pub(crate) fn refresh(&mut self, newer: &AnyEvent) {
        let Some(object) = newer.object() else {
            return;
        };
        if let Some(failed) = &mut self.failed
            && failed.object.is_none()
        {
            failed.object = self.event.object().cloned();
        }
        match (&mut self.event, newer) {
            (Event::Added(queued) | Event::Updated { new: queued, .. }, _) => {
                *queued = Arc::clone(object);
            }
            (event @ Event::Resynced(_), _) => *event = newer.clone(),
            _ => {}
        }
    }
}

impl ScheduleItem for RepeatableCall {
    fn is_deferred(&self) -> bool {
        self.is_deferred
    }

    fn uid(&self) -> Option<&str> {
        uid(&self.event)
    }

    fn address(&self) -> Option<usize> {
        address(&self.event)
    }
}

/// The uid of the object of `event`.
pub(super) fn uid(event: &AnyEvent) -> Option<&str> {
    ObjectIdentity::uid(&**event.object()?)
}

fn address(event: &AnyEvent) -> Option<usize> {
    Some(Arc::as_ptr(event.object()?).addr())
}

// === impl HandlerPosition ===

impl HandlerPosition {
    pub(crate) fn of((role, id): (Role, HandlerId)) -> Self {
        /// The number of bits of the handler's number. The role is above them.
        const NUMBERS: u32 = 30;
        let number = u32::try_from(id.0).expect("a program has few handlers");
        debug_assert!(number < 1 << NUMBERS, "a program has few handlers");
        Self(NonZeroU32::MIN.saturating_add(((role as u32) << NUMBERS) + number))
    }
}

#[cfg(test)]
mod tests;
