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

mod pending;

use std::{collections::VecDeque, sync::Arc};

use windlass_informer::ObjectKey;

pub(super) use self::pending::PendingCalls;
pub(crate) use self::pending::{Pending, Reason};
use super::{
    groups::Group,
    ready::{GroupId, Priority},
    small_list::SmallList,
};
use crate::{Action, route::KindId};

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

// === impl Coalesced ===

#[cfg(test)]
impl<E> Coalesced<E> {
    pub(crate) const fn is_separate(&self) -> bool {
        matches!(self, Self::Separate(_))
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
