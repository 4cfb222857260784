//! The lane of one object: its events and pending calls, in order. *(pure)*
//!
//! ```text
//!            offer, due            take                finish
//! (absent) ────────────▶ Ready ───────────▶ Processing ───────▶ (absent)
//!                          ▲                  │
//!                 due,     │                  │ finish, with something pending
//!                 offer    │                  ▼
//!                          └──────────────── Idle
//! ```
//!
//! A lane is identified by kind, namespace and name. The uid is a property of each event and call.
//! So the delete of an object is always dispatched before an object that was created again with its
//! name, and never concurrently.

use std::{collections::VecDeque, sync::Arc};

use windlass_informer::ObjectKey;

use super::{pending::PendingSlot, ready::Priority};
use crate::{Action, route::KindId};

/// The key of a lane: the kind, and the key of the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaneKey {
    pub(crate) kind: KindId,
    pub(crate) object: ObjectKey,
}

/// The id of a lane, as long as the lane exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneId(pub(super) u32);

/// The id of a group: the lanes of one kind and namespace, which share turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupId(pub(super) u32);

/// An event or call of one object. The schedule itself stores no uids.
pub(crate) trait ScheduleItem {
    fn uid(&self) -> Option<&str>;

    /// The action, if it is an event.
    fn action(&self) -> Option<Action> {
        None
    }

    /// Whether it is a call that was made, and did nothing yet.
    fn is_deferred(&self) -> bool {
        false
    }

    /// The address of the object, if it is shared. Two items with the same address have the same
    /// object.
    fn address(&self) -> Option<usize> {
        None
    }

    /// Whether both have the same uid. Compares the addresses first, because they are usually
    /// equal, and reading the uid may access uncached memory.
    fn is_same_object(&self, other: &impl ScheduleItem) -> bool {
        let (own, others) = (self.address(), other.address());
        (own.is_some() && own == others) || self.uid() == other.uid()
    }
}

/// An event that is offered to the schedule. It waits in its lane until a worker takes it.
#[derive(Debug)]
pub(crate) struct Offer<E> {
    pub(crate) priority: Priority,

    /// Whether the pending calls were checked against this event. Calls that became pending later
    /// follow from this event itself.
    pub(crate) pendings_checked: bool,

    pub(crate) event: E,
}

/// The result of coalescing a new event into an undispatched one.
#[derive(Debug)]
pub(crate) enum Coalesced<E> {
    /// Both are dispatched.
    Separate(E),
    /// The older one represents both. Contains what is obsolete.
    Merged(E),
    /// Neither is dispatched.
    Cancelled(E),
}

/// The events and pending calls of one object.
#[derive(Debug)]
pub(super) struct Lane<E, P> {
    pub(super) id: LaneId,
    pub(super) kind: KindId,
    pub(super) group: GroupId,
    pub(super) name: Arc<str>,
    pub(super) phase: Phase,
    /// The number of its last ticket in a queue of ready lanes.
    pub(super) ticket: u32,

    /// The first undispatched event.
    first: Option<Offer<E>>,

    /// The events after the first one.
    #[expect(
        clippy::box_collection,
        reason = "there can be one lane for each object, and most have one event at most"
    )]
    rest: Option<Box<VecDeque<Offer<E>>>>,

    /// The pending calls.
    pub(super) pendings: Vec<PendingSlot<P>>,
}

/// The phase of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A call is pending and not due.
    Idle,
    /// Waits for a worker.
    Ready(Priority),
    /// Taken by a worker.
    Processing,
}

// === impl LaneId ===

impl LaneId {
    /// The id of the entry at `index` of a slab.
    pub(super) fn at(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2^32 objects have work"))
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

// === impl GroupId ===

impl GroupId {
    /// The id of the entry at `index` of a slab.
    pub(super) fn at(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2^32 namespaces have work"))
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

// === impl Offer ===

impl<E> Offer<E> {
    /// An event that no turn has seen yet.
    pub(crate) const fn new(priority: Priority, event: E) -> Self {
        Self {
            priority,
            pendings_checked: false,
            event,
        }
    }
}

// === impl Coalesced ===

#[cfg(test)]
impl<E> Coalesced<E> {
    pub(crate) const fn is_separate(&self) -> bool {
        matches!(self, Self::Separate(_))
    }
}

// === impl Lane ===

impl<E, P> Lane<E, P> {
    pub(super) const fn new(id: LaneId, kind: KindId, group: GroupId, name: Arc<str>) -> Self {
        Self {
            id,
            kind,
            group,
            name,
            phase: Phase::Idle,
            ticket: 0,
            first: None,
            rest: None,
            pendings: Vec::new(),
        }
    }

    /// Whether it has no events and no pending calls, and no worker has taken it.
    pub(super) fn is_unused(&self) -> bool {
        self.phase == Phase::Idle && self.first.is_none() && self.pendings.is_empty()
    }

    /// Updates the phase after the work has changed.
    pub(super) fn update_phase(&mut self) {
        if self.phase != Phase::Processing {
            self.phase = self.priority().map_or(Phase::Idle, Phase::Ready);
        }
    }

    /// The highest priority of its work, if it has work now.
    fn priority(&self) -> Option<Priority> {
        let is_due = self.pendings.iter().any(PendingSlot::is_due);
        let first = self.first.as_ref().map(|offer| offer.priority);
        let rest = self.rest.as_deref();
        Priority::ALL.into_iter().find(|priority| {
            first == Some(*priority)
                || (*priority == Priority::Retry && is_due)
                || rest.is_some_and(|rest| rest.iter().any(|it| it.priority == *priority))
        })
    }

    /// Adds an event after the others.
    pub(super) fn push(&mut self, offer: Offer<E>) {
        if self.first.is_none() {
            self.first = Some(offer);
        } else {
            self.rest.get_or_insert_default().push_back(offer);
        }
    }

    /// Returns an event that was taken and not dispatched.
    pub(super) fn push_front(&mut self, offer: Offer<E>) {
        if let Some(second) = self.first.replace(offer) {
            self.rest.get_or_insert_default().push_front(second);
        }
    }

    /// Removes the oldest undispatched event.
    pub(super) fn pop(&mut self) -> Option<Offer<E>> {
        let next = self.rest.as_mut().and_then(|rest| rest.pop_front());
        self.rest.take_if(|rest| rest.is_empty());
        std::mem::replace(&mut self.first, next)
    }

    /// Removes the newest undispatched event.
    fn pop_newest(&mut self) -> Option<Offer<E>> {
        let newest = self.rest.as_mut().and_then(|rest| rest.pop_back());
        self.rest.take_if(|rest| rest.is_empty());
        newest.or_else(|| self.first.take())
    }

    /// The newest undispatched event.
    fn newest(&mut self) -> Option<&mut Offer<E>> {
        let newest = self.rest.as_mut().and_then(|rest| rest.back_mut());
        newest.or(self.first.as_mut())
    }
}

impl<E: ScheduleItem, P> Lane<E, P> {
    /// Adds an event, or coalesces it into the newest undispatched event of the same object, as
    /// `coalesce` decides. A merged event has the higher priority of the two. Moves obsolete events
    /// into `dropped`. Returns whether the event was coalesced.
    pub(super) fn offer(
        &mut self,
        offer: Offer<E>,
        coalesce: impl FnOnce(&mut E, E) -> Coalesced<E>,
        dropped: &mut Vec<E>,
    ) -> bool {
        let newest = self.newest();
        let Some(newest) = newest.filter(|it| it.event.is_same_object(&offer.event)) else {
            self.push(offer);
            return false;
        };
        match coalesce(&mut newest.event, offer.event) {
            Coalesced::Separate(event) => {
                self.push(Offer { event, ..offer });
                return false;
            }
            Coalesced::Merged(obsolete) => {
                newest.priority = newest.priority.min(offer.priority);
                dropped.push(obsolete);
            }
            Coalesced::Cancelled(obsolete) => {
                dropped.push(obsolete);
                dropped.extend(self.pop_newest().map(|it| it.event));
            }
        }
        true
    }
}
