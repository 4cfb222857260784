//! The lane of one object: its events and pending calls, in order.
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

use super::{
    groups::Group,
    ready::{GroupId, LaneId, Priority},
    small_list::{ListNodes, SmallList},
    timer_queue::{Moment, TimerKey, TimerQueue},
};
use crate::{Action, HandlerId, route::KindId};

/// The key of a lane: the kind, and the key of the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaneKey {
    pub(crate) kind: KindId,
    pub(crate) object: ObjectKey,
}

/// An event or call of one object. The schedule itself stores no uids.
pub(crate) trait ScheduleItem {
    fn uid(&self) -> Option<&str>;

    /// The action, if it is an event.
    fn action(&self) -> Option<Action> {
        None
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

    /// The reference count of the object, which a worker changes first. Reading it prefetches it.
    fn owners(&self) -> usize {
        0
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
    /// The older one represents both.
    Merged,
    /// Neither is dispatched.
    Cancelled,
}

/// A call of a handler that is made later.
#[derive(Debug)]
pub(crate) struct Pending<P> {
    pub(crate) handler: HandlerId,
    pub(crate) action: Action,
    pub(crate) reason: Reason,
    pub(crate) due: Moment,

    /// Whether it was due when a newer event went first, and was kept: it goes next.
    pub(crate) overtaken: bool,

    /// The data of the call.
    pub(crate) call: P,
}

/// Why a call is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    /// The handler failed.
    Failed,
    /// The handler requested a requeue.
    Requeued,
}

/// The events and pending calls of one object.
///
/// There can be one lane for each object, and most lanes have one event or one pending call. So the
/// first event is stored inline, further events are boxed, and pending calls are stored in one
/// place for all lanes. The kind and the namespace are stored in the group.
#[derive(Debug)]
pub(super) struct Lane<E> {
    pub(super) name: Arc<str>,
    pub(super) group: GroupId,
    /// The hash of its name for the index.
    pub(super) hash: u32,
    pub(super) phase: Phase,

    /// The first undispatched event, with its priority and whether its pending calls were checked.
    /// Further events are in `backlog`.
    first: Option<E>,
    priority: Priority,
    pendings_checked: bool,
    backlog: Option<Box<Backlog<E>>>,

    /// Its pending calls.
    slots: SmallList,
    /// Whether one of the pending calls is due. Stored here, because it is read often.
    due: bool,
}

/// The events after the first one.
#[derive(Debug)]
struct Backlog<E> {
    events: VecDeque<Offer<E>>,

    /// The number of events of each priority. The lane has the highest one.
    priorities: [u32; 4],
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

/// The pending calls of all lanes, and their timers.
#[derive(Debug)]
pub(super) struct PendingCalls<P> {
    slots: ListNodes<PendingSlot<P>>,
    pub(super) timers: TimerQueue,
}

/// A pending call and its timer.
#[derive(Debug)]
pub(super) struct PendingSlot<P> {
    pending: Pending<P>,
    when: TimerState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimerState {
    Waiting(TimerKey),
    Due,
}

// === impl Coalesced ===

#[cfg(test)]
impl<E> Coalesced<E> {
    pub(crate) const fn is_separate(&self) -> bool {
        matches!(self, Self::Separate(_))
    }
}

// === impl Pending ===

impl<P: ScheduleItem> Pending<P> {
    /// Whether the two share a slot: failed calls have a slot for each action, and requeues have
    /// one for all actions.
    fn same_slot(&self, other: &Self) -> bool {
        self.handler == other.handler
            && self.reason == other.reason
            && (self.reason == Reason::Requeued || self.action == other.action)
            && self.call.is_same_object(&other.call)
    }
}

// === impl Lane ===

impl<E: ScheduleItem> Lane<E> {
    pub(super) fn new(name: Arc<str>, hash: u32, group: GroupId) -> Self {
        Self {
            name,
            group,
            hash,
            phase: Phase::Idle,
            first: None,
            priority: Priority::Live,
            pendings_checked: false,
            backlog: None,
            slots: SmallList::new(),
            due: false,
        }
    }

    /// The key, from the group and the name.
    pub(super) fn key(&self, group: &Group) -> LaneKey {
        let object = ObjectKey::new(Arc::clone(&self.name));
        LaneKey {
            kind: group.kind,
            object: match &group.namespace {
                Some(namespace) => object.within(Arc::clone(namespace)),
                None => object,
            },
        }
    }

    /// The list of its pending calls.
    pub(super) const fn pendings(&self) -> &SmallList {
        &self.slots
    }

    /// The first undispatched event.
    pub(super) const fn first(&self) -> Option<&E> {
        self.first.as_ref()
    }

    /// The priority of the lane, if it has work now.
    pub(super) fn current_priority(&self) -> Option<Priority> {
        let event = self.first.as_ref().map(|_| match &self.backlog {
            Some(backlog) => backlog
                .highest_priority()
                .map_or(self.priority, |it| it.min(self.priority)),
            None => self.priority,
        });
        match event {
            Some(Priority::Live) => event,
            _ if self.due => Some(Priority::Retry),
            _ => event,
        }
    }

    /// Whether it has no events and no pending calls.
    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none() && self.slots.is_empty()
    }

    pub(super) fn push(&mut self, offer: Offer<E>) {
        if self.first.is_none() {
            self.put_first(offer);
        } else {
            let backlog = self.backlog.get_or_insert_default();
            backlog.priorities[offer.priority as usize] += 1;
            backlog.events.push_back(offer);
        }
    }

    /// Returns an event that was taken and not dispatched.
    pub(super) fn push_front(&mut self, offer: Offer<E>) {
        if let Some(second) = self.take_first() {
            let backlog = self.backlog.get_or_insert_default();
            backlog.priorities[second.priority as usize] += 1;
            backlog.events.push_front(second);
        }
        self.put_first(offer);
    }

    /// Coalesces `offer` into the newest undispatched event of the same object, as `coalesce`
    /// decides. The merged event has the higher priority of the two. Moves obsolete events into
    /// `dropped`. Returns the offer if it has to be queued separately.
    pub(super) fn coalesce(
        &mut self,
        offer: Offer<E>,
        coalesce: impl FnOnce(&mut E, E) -> Coalesced<E>,
        dropped: &mut Vec<E>,
    ) -> Option<Offer<E>> {
        let backlog = self.backlog.as_mut().and_then(|backlog| {
            let last = backlog.events.back_mut()?;
            Some((&mut last.event, &mut last.priority, &mut backlog.priorities))
        });
        let (last, last_priority, priorities) = match (backlog, &mut self.first) {
            (Some((last, last_priority, priorities)), _) => (last, last_priority, Some(priorities)),
            (None, Some(first)) => (first, &mut self.priority, None),
            (None, None) => return Some(offer),
        };
        if !last.is_same_object(&offer.event) {
            return Some(offer);
        }
        let priority = offer.priority;
        match coalesce(last, offer.event) {
            Coalesced::Separate(event) => return Some(Offer { event, ..offer }),
            Coalesced::Merged => {
                let highest = priority.min(*last_priority);
                if let Some(priorities) = priorities {
                    priorities[*last_priority as usize] -= 1;
                    priorities[highest as usize] += 1;
                }
                *last_priority = highest;
            }
            Coalesced::Cancelled => dropped.extend(self.pop_newest()),
        }
        None
    }

    /// Removes the newest undispatched event.
    fn pop_newest(&mut self) -> Option<E> {
        let Some(backlog) = &mut self.backlog else {
            return self.first.take();
        };
        let newest = backlog.events.pop_back();
        if let Some(newest) = &newest {
            backlog.priorities[newest.priority as usize] -= 1;
        }
        if backlog.events.is_empty() {
            self.backlog = None;
        }
        newest.map(|offer| offer.event)
    }

    /// Removes the oldest undispatched event.
    pub(super) fn pop(&mut self) -> Option<Offer<E>> {
        let offer = self.take_first()?;
        if let Some(backlog) = &mut self.backlog {
            let next = backlog.events.pop_front();
            if backlog.events.is_empty() {
                self.backlog = None;
            } else if let Some(next) = &next {
                backlog.priorities[next.priority as usize] -= 1;
            }
            if let Some(next) = next {
                self.put_first(next);
            }
        }
        Some(offer)
    }

    /// Removes the first pending call that is `wanted`.
    pub(super) fn take_pending<P>(
        &mut self,
        later: &mut PendingCalls<P>,
        wanted: impl Fn(&Pending<P>) -> bool,
    ) -> Option<Pending<P>> {
        let PendingCalls { slots, timers } = later;
        let slot = self.slots.take(slots, |slot| wanted(&slot.pending))?;
        let pending = slot.release(timers);
        self.update_due(later);
        Some(pending)
    }

    /// Removes the due call that is due longest: of the overtaken ones, or of all.
    pub(super) fn take_due<P>(
        &mut self,
        later: &mut PendingCalls<P>,
        only_overtaken: bool,
    ) -> Option<Pending<P>> {
        if !self.due {
            return None;
        }
        let due = |slot: &PendingSlot<P>| {
            slot.when == TimerState::Due && (slot.pending.overtaken || !only_overtaken)
        };
        let first = (self.slots.iter(&later.slots))
            .filter(|slot| due(slot))
            .map(|slot| slot.pending.due)
            .min()?;
        let wanted = |slot: &PendingSlot<P>| due(slot) && slot.pending.due == first;
        let slot = self.slots.take(&mut later.slots, wanted);
        self.update_due(later);
        slot.map(|slot| slot.pending)
    }

    /// Adds a pending call. Replaces the pending call in the same slot, and returns it. Of two
    /// requeues the earlier due time is kept.
    pub(super) fn set<P: ScheduleItem>(
        &mut self,
        mut pending: Pending<P>,
        later: &mut PendingCalls<P>,
        lane: LaneId,
    ) -> Option<Pending<P>> {
        let PendingCalls { slots, timers } = later;
        let same = (self.slots).take(slots, |it| it.pending.same_slot(&pending));
        let replaced = same.map(|slot| slot.release(timers));
        if let Some(replaced) = &replaced
            && pending.reason == Reason::Requeued
        {
            pending.due = pending.due.min(replaced.due);
        }
        let when = TimerState::Waiting(timers.set(pending.due, lane));
        self.slots.push(slots, PendingSlot { pending, when });
        if self.due {
            self.update_due(later);
        }
        replaced
    }

    /// Marks the call of `timer` as due.
    pub(super) fn come_due<P>(&mut self, later: &mut PendingCalls<P>, timer: TimerKey) {
        let wanted = |slot: &PendingSlot<P>| slot.when == TimerState::Waiting(timer);
        let due = self.slots.find_mut(&mut later.slots, wanted);
        if let Some(slot) = due {
            slot.when = TimerState::Due;
            self.due = true;
        }
    }

    /// Moves all pending calls of `handler` into `discarded`.
    pub(super) fn cancel<P>(
        &mut self,
        handler: HandlerId,
        later: &mut PendingCalls<P>,
        discarded: &mut Vec<Pending<P>>,
    ) {
        let PendingCalls { slots, timers } = later;
        let theirs = |slot: &PendingSlot<P>| slot.pending.handler == handler;
        while let Some(slot) = self.slots.take(slots, theirs) {
            discarded.push(slot.release(timers));
        }
        self.update_due(later);
    }

    /// Updates `due` after a pending call was removed.
    fn update_due<P>(&mut self, later: &PendingCalls<P>) {
        let mut slots = self.slots.iter(&later.slots);
        self.due = slots.any(|slot| slot.when == TimerState::Due);
    }

    fn put_first(&mut self, offer: Offer<E>) {
        self.priority = offer.priority;
        self.pendings_checked = offer.pendings_checked;
        self.first = Some(offer.event);
    }

    fn take_first(&mut self) -> Option<Offer<E>> {
        Some(Offer {
            event: self.first.take()?,
            priority: self.priority,
            pendings_checked: self.pendings_checked,
        })
    }
}

// === impl Backlog ===

impl<E> Backlog<E> {
    fn highest_priority(&self) -> Option<Priority> {
        let mut priorities = Priority::ALL.into_iter();
        priorities.find(|priority| self.priorities[*priority as usize] > 0)
    }
}

impl<E> Default for Backlog<E> {
    fn default() -> Self {
        Self {
            // A second event needs one allocation.
            events: VecDeque::with_capacity(1),
            priorities: [0; 4],
        }
    }
}

// === impl PendingCalls ===

impl<P> PendingCalls<P> {
    /// The due time of the first pending call in `slots`. Reading it prefetches the call.
    pub(super) fn look_ahead(&self, slots: &SmallList) -> Option<Moment> {
        let slot = slots.iter(&self.slots).next();
        slot.map(|slot| slot.pending.due)
    }
}

impl<P> Default for PendingCalls<P> {
    fn default() -> Self {
        Self {
            slots: ListNodes::default(),
            timers: TimerQueue::default(),
        }
    }
}

// === impl PendingSlot ===

impl<P> PendingSlot<P> {
    fn release(self, timers: &mut TimerQueue) -> Pending<P> {
        if let TimerState::Waiting(timer) = self.when {
            timers.cancel(timer);
        }
        self.pending
    }
}
