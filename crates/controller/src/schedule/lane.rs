//! One object's lane: what is owed to it, in order.
//!
//! ```text
//!            offer, due            take              finish
//! (absent) ────────────▶ Ready ───────────▶ Held ─────────────▶ (absent)
//!                          ▲                  │
//!                 due,     │                  │ finish, with something pending
//!                 offer    │                  ▼
//!                          └──────────────── Idle
//! ```
//!
//! A lane is (kind, namespace, name). The uid is not part of it, but a tag on what is owed:
//! so the deletion of an object is always told before the object that was made again under
//! its name, and never beside it.

use std::collections::VecDeque;

use windlass_informer::{ObjectKey, Uid};

use super::{
    agenda::{Agenda, Appointment, Moment},
    ready::{Class, GroupId, LaneId},
};
use crate::{Action, HandlerId, route::KindId};

/// Which lane: the object, and the name under which its kind was added.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaneKey {
    pub(crate) kind: KindId,
    pub(crate) object: ObjectKey,
}

/// Something that happened to the lane's object, to be told to all its handlers.
#[derive(Debug)]
pub(crate) struct Offer<E> {
    pub(crate) uid: Option<Uid>,
    pub(crate) class: Class,

    /// The pending calls have been asked about; what is pending since is of its own making.
    pub(crate) asked: bool,

    pub(crate) event: E,
}

/// A call that one handler is owed later.
#[derive(Debug)]
pub(crate) struct Pending<P> {
    pub(crate) uid: Option<Uid>,
    pub(crate) handler: HandlerId,
    pub(crate) action: Action,
    pub(crate) reason: Reason,
    pub(crate) due: Moment,

    /// It was due when a newer event went first, and was kept: now it is its turn.
    pub(crate) overtaken: bool,

    /// What the call needs, which is no matter of the schedule.
    pub(crate) call: P,
}

/// Why a call is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    /// The handler failed.
    Failed,
    /// The handler asked to be called again.
    Requeued,
}

/// What is owed to one object.
#[derive(Debug)]
pub(super) struct Lane<E, P> {
    pub(super) key: LaneKey,
    pub(super) group: GroupId,
    pub(super) phase: Phase,

    /// What has not been told, oldest first.
    events: VecDeque<Offer<E>>,

    /// How many of the events are of each class: the lane is as urgent as the most urgent.
    classes: [u32; 4],

    slots: Vec<Slot<P>>,
}

/// What is being done about a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing now: something is pending, and not due.
    Idle,
    /// It waits for a worker.
    Ready(Class),
    /// A worker has it.
    Held,
}

#[derive(Debug)]
struct Slot<P> {
    pending: Pending<P>,
    when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Later(Appointment),
    Now,
}

// === impl Pending ===

impl<P> Pending<P> {
    /// Whether only one of the two can be pending: failures have a slot for each action, and
    /// a handler that asks to be called again is called again once, whatever it was called
    /// for.
    fn same_slot<Q>(&self, other: &Pending<Q>) -> bool {
        self.handler == other.handler
            && self.uid == other.uid
            && self.reason == other.reason
            && (self.reason == Reason::Requeued || self.action == other.action)
    }
}

// === impl Lane ===

impl<E, P> Lane<E, P> {
    pub(super) fn new(key: LaneKey, group: GroupId) -> Self {
        Self {
            key,
            group,
            phase: Phase::Idle,
            events: VecDeque::new(),
            classes: [0; 4],
            slots: Vec::new(),
        }
    }

    /// How urgent the lane is, if there is something to do now.
    pub(super) fn urgency(&self) -> Option<Class> {
        let owed = |class: Class| self.classes[class as usize] > 0;
        if owed(Class::Live) {
            Some(Class::Live)
        } else if self.slots.iter().any(|slot| slot.when == When::Now) {
            Some(Class::Retry)
        } else if owed(Class::FirstList) {
            Some(Class::FirstList)
        } else if owed(Class::Resync) {
            Some(Class::Resync)
        } else {
            None
        }
    }

    /// Whether nothing is owed, now or later.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.slots.is_empty()
    }

    pub(super) fn push(&mut self, offer: Offer<E>) {
        if self.events.capacity() == 0 {
            // Most lanes hold one event at a time, and there may be a lane for each object.
            self.events.reserve_exact(1);
        }
        self.classes[offer.class as usize] += 1;
        self.events.push_back(offer);
    }

    /// Puts back what was taken and not told.
    pub(super) fn push_front(&mut self, offer: Offer<E>) {
        self.classes[offer.class as usize] += 1;
        self.events.push_front(offer);
    }

    /// Tells the newest undelivered event of the same object to `fold`, which may take the
    /// offer in; the merged event is as urgent as the more urgent of the two.
    pub(super) fn fold(
        &mut self,
        offer: Offer<E>,
        fold: impl FnOnce(&mut E, E) -> Option<E>,
    ) -> Option<Offer<E>> {
        let Some(last) = self.events.back_mut().filter(|it| it.uid == offer.uid) else {
            return Some(offer);
        };
        let class = offer.class;
        if let Some(event) = fold(&mut last.event, offer.event) {
            return Some(Offer { event, ..offer });
        }
        if class < last.class {
            self.classes[last.class as usize] -= 1;
            self.classes[class as usize] += 1;
            last.class = class;
        }
        None
    }

    /// Takes the oldest undelivered event.
    pub(super) fn pop(&mut self) -> Option<Offer<E>> {
        let offer = self.events.pop_front()?;
        self.classes[offer.class as usize] -= 1;
        Some(offer)
    }

    /// How many calls are pending.
    pub(super) fn pendings(&self) -> usize {
        self.slots.len()
    }

    /// Takes every pending call out, to be asked about.
    pub(super) fn take_pendings(&mut self, agenda: &mut Agenda) -> Vec<Pending<P>> {
        if self.slots.is_empty() {
            return Vec::new();
        }
        let slots = std::mem::take(&mut self.slots);
        slots.into_iter().map(|slot| slot.release(agenda)).collect()
    }

    /// Takes the due call whose turn it is: of those that were overtaken, or of all.
    pub(super) fn take_due(&mut self, only_overtaken: bool) -> Option<Pending<P>> {
        let (at, _) = (self.slots.iter().enumerate())
            .filter(|(_, slot)| slot.when == When::Now)
            .filter(|(_, slot)| slot.pending.overtaken || !only_overtaken)
            .min_by_key(|(_, slot)| slot.pending.due)?;
        Some(self.slots.remove(at).pending)
    }

    /// Makes `pending` pending. What is pending in the same slot is replaced; where both are
    /// requeues the sooner due time wins. Returns what was replaced.
    pub(super) fn set(
        &mut self,
        mut pending: Pending<P>,
        agenda: &mut Agenda,
        lane: LaneId,
    ) -> Option<Pending<P>> {
        let same = (self.slots.iter()).position(|it| it.pending.same_slot(&pending));
        let replaced = same.map(|at| self.slots.remove(at).release(agenda));
        if let Some(replaced) = &replaced
            && pending.reason == Reason::Requeued
        {
            pending.due = pending.due.min(replaced.due);
        }
        let when = When::Later(agenda.set(pending.due, lane));
        self.slots.push(Slot { pending, when });
        replaced
    }

    /// Notes that the time of `appointment` has come.
    pub(super) fn come_due(&mut self, appointment: Appointment) {
        let due = (self.slots.iter_mut()).find(|slot| slot.when == When::Later(appointment));
        if let Some(slot) = due {
            slot.when = When::Now;
        }
    }

    /// Forgets whatever `handler` is owed, into `discarded`.
    pub(super) fn cancel(
        &mut self,
        handler: HandlerId,
        agenda: &mut Agenda,
        discarded: &mut Vec<Pending<P>>,
    ) {
        let gone = (self.slots).extract_if(.., |slot| slot.pending.handler == handler);
        discarded.extend(gone.map(|slot| slot.release(agenda)));
    }
}

// === impl Slot ===

impl<P> Slot<P> {
    fn release(self, agenda: &mut Agenda) -> Pending<P> {
        if let When::Later(appointment) = self.when {
            agenda.cancel(appointment);
        }
        self.pending
    }
}
