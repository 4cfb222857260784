//! Pending calls: the retries and requeues of all lanes, and their due times. *(pure)*

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    lane::{Lane, LaneId, ScheduleItem},
    moment::Moment,
};
use crate::{Action, HandlerId, route::KindId};

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

/// A pending call in its lane.
#[derive(Debug)]
pub(super) struct PendingSlot<P> {
    pending: Pending<P>,
    /// Its number among all pending calls that were ever added.
    number: u64,
    /// Whether its due time has passed. Before, it has a timer.
    is_due: bool,
}

/// What the schedule knows about the pending calls of all lanes. The calls are in their lanes.
#[derive(Debug)]
pub(super) struct PendingCalls<P> {
    /// The handlers that may have pending calls.
    handlers: BTreeSet<HandlerId>,

    /// The calls that are not due, by due time and number.
    timers: BTreeMap<(Moment, u64), LaneId>,

    /// The pending deletes of each kind, oldest first. Other pending calls belong to existing
    /// objects, so their number is bounded by the number of objects. A delete outlives its object:
    /// without a bound, a handler that always fails would keep all objects that were ever deleted.
    deletes: HashMap<KindId, BTreeMap<u64, LaneId>>,

    /// The oldest deletes of kinds that have too many, to be removed from their lanes.
    excess: Vec<(LaneId, u64)>,

    /// The replaced and cancelled calls, to be dropped without a lock.
    discarded: Vec<Pending<P>>,

    /// The number of pending calls.
    len: usize,

    /// The number of pending calls that were ever added.
    added: u64,
}

// === impl Pending ===

impl<P: ScheduleItem> Pending<P> {
    /// Whether it is a call for a delete that was deferred.
    pub(crate) fn is_deferred_delete(&self) -> bool {
        self.action == Action::Deleted && self.call.is_deferred()
    }

    /// Whether the two share a slot: failed calls have a slot for each action, and requeues have
    /// one for all actions.
    fn same_slot(&self, other: &Self) -> bool {
        self.handler == other.handler
            && self.reason == other.reason
            && (self.reason == Reason::Requeued || self.action == other.action)
            && self.call.is_same_object(&other.call)
    }
}

// === impl PendingSlot ===

impl<P> PendingSlot<P> {
    /// Whether its due time has passed.
    pub(super) const fn is_due(&self) -> bool {
        self.is_due
    }
}

// === impl PendingCalls ===

impl<P> PendingCalls<P> {
    /// The maximum number of pending deletes of one kind. Each holds the last state of an object,
    /// so this bounds memory to some tens of megabytes.
    pub(super) const MAX_DELETES: usize = 10_000;

    /// The number of pending calls.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The due time of the next call that is not due.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.timers.first_key_value().map(|((due, _), _)| *due)
    }

    /// Removes the timer of the next call that is due at `now`. Returns its lane and its number.
    pub(super) fn expire(&mut self, now: Moment) -> Option<(LaneId, u64)> {
        let timer = self.timers.first_entry()?;
        let (due, number) = *timer.key();
        (due <= now).then(|| (timer.remove(), number))
    }

    /// Allows `handler` to have pending calls.
    pub(super) fn admit(&mut self, handler: HandlerId) {
        self.handlers.insert(handler);
    }

    /// Allows `handler` no further pending calls.
    pub(super) fn dismiss(&mut self, handler: HandlerId) {
        self.handlers.remove(&handler);
    }

    /// A handler that may have pending calls.
    pub(super) fn handler(&self) -> Option<HandlerId> {
        self.handlers.first().copied()
    }

    /// Takes the replaced and cancelled calls.
    pub(super) fn take_discarded(&mut self) -> Vec<Pending<P>> {
        std::mem::take(&mut self.discarded)
    }

    /// Takes the oldest deletes of kinds that have too many: their lanes and numbers.
    pub(super) fn take_excess(&mut self) -> Vec<(LaneId, u64)> {
        std::mem::take(&mut self.excess)
    }

    /// Forgets a call that was removed from a lane of `kind`.
    fn remove(&mut self, kind: KindId, slot: PendingSlot<P>) -> Pending<P> {
        let PendingSlot {
            pending,
            number,
            is_due,
        } = slot;
        if !is_due {
            self.timers.remove(&(pending.due, number));
        }
        if pending.action == Action::Deleted
            && let Some(deletes) = self.deletes.get_mut(&kind)
        {
            deletes.remove(&number);
        }
        self.len -= 1;
        pending
    }

    /// The handlers that may have pending calls.
    #[cfg(test)]
    pub(super) const fn handlers(&self) -> &BTreeSet<HandlerId> {
        &self.handlers
    }

    /// The number of pending deletes.
    #[cfg(test)]
    pub(super) fn deletes(&self) -> usize {
        self.deletes.values().map(BTreeMap::len).sum()
    }
}

impl<P> Default for PendingCalls<P> {
    fn default() -> Self {
        Self {
            handlers: BTreeSet::new(),
            timers: BTreeMap::new(),
            deletes: HashMap::new(),
            excess: Vec::new(),
            discarded: Vec::new(),
            len: 0,
            added: 0,
        }
    }
}

// === impl Lane ===

impl<E, P: ScheduleItem> Lane<E, P> {
    /// Adds a pending call, unless its handler was removed. The call replaces that in the same slot.
    /// Of two requeues the earlier due time is kept.
    pub(super) fn add_pending(&mut self, calls: &mut PendingCalls<P>, mut pending: Pending<P>) {
        if !calls.handlers.contains(&pending.handler) {
            calls.discarded.push(pending);
            return;
        }
        let same = |it: &PendingSlot<P>| it.pending.same_slot(&pending);
        if let Some(at) = self.pendings.iter().position(same) {
            let replaced = calls.remove(self.kind, self.pendings.remove(at));
            if pending.reason == Reason::Requeued {
                pending.due = pending.due.min(replaced.due);
            }
            calls.discarded.push(replaced);
        }
        let number = calls.added;
        calls.added += 1;
        calls.len += 1;
        calls.timers.insert((pending.due, number), self.id);
        if pending.action == Action::Deleted {
            let deletes = calls.deletes.entry(self.kind).or_default();
            deletes.insert(number, self.id);
            if deletes.len() > PendingCalls::<P>::MAX_DELETES {
                let oldest = deletes.pop_first();
                calls
                    .excess
                    .extend(oldest.map(|(number, lane)| (lane, number)));
            }
        }
        if self.pendings.is_empty() {
            // Most lanes have one pending call at most. A `Vec` would reserve memory for four.
            self.pendings.reserve_exact(1);
        }
        self.pendings.push(PendingSlot {
            pending,
            number,
            is_due: false,
        });
    }

    /// Marks the call with this number as due.
    pub(super) fn come_due(&mut self, number: u64) {
        if let Some(slot) = self.pendings.iter_mut().find(|it| it.number == number) {
            slot.is_due = true;
        }
    }

    /// Takes the call with this number.
    pub(super) fn take_number(
        &mut self,
        calls: &mut PendingCalls<P>,
        number: u64,
    ) -> Option<Pending<P>> {
        let at = self.pendings.iter().position(|it| it.number == number)?;
        Some(calls.remove(self.kind, self.pendings.remove(at)))
    }

    /// Takes the call that has been due longest: of the overtaken ones, or of all.
    pub(super) fn take_due(
        &mut self,
        calls: &mut PendingCalls<P>,
        only_overtaken: bool,
    ) -> Option<Pending<P>> {
        let slots = self.pendings.iter();
        let due = slots.filter(|it| it.is_due && (it.pending.overtaken || !only_overtaken));
        let number = due.min_by_key(|it| it.pending.due)?.number;
        self.take_number(calls, number)
    }

    /// Takes the pending calls for the object of `event`, in the order in which they were added, and
    /// notes which are due.
    pub(super) fn take_pendings_of(
        &mut self,
        calls: &mut PendingCalls<P>,
        event: &E,
        now: Moment,
    ) -> Vec<Pending<P>>
    where
        E: ScheduleItem,
    {
        let same = |pending: &Pending<P>| pending.call.is_same_object(event);
        let mut pendings = self.take_pendings(calls, same);
        for pending in &mut pendings {
            pending.overtaken = pending.due <= now;
        }
        pendings
    }

    fn take_pendings(
        &mut self,
        calls: &mut PendingCalls<P>,
        wanted: impl Fn(&Pending<P>) -> bool,
    ) -> Vec<Pending<P>> {
        if self.pendings.is_empty() {
            return Vec::new();
        }
        let kind = self.kind;
        let taken = self.pendings.extract_if(.., |it| wanted(&it.pending));
        taken.map(|slot| calls.remove(kind, slot)).collect()
    }

    /// Cancels the pending calls that are `unwanted`. Returns their number.
    pub(super) fn cancel(
        &mut self,
        calls: &mut PendingCalls<P>,
        unwanted: impl Fn(&Pending<P>) -> bool,
    ) -> usize {
        let cancelled = self.take_pendings(calls, unwanted);
        let count = cancelled.len();
        calls.discarded.extend(cancelled);
        count
    }

    /// Whether it has a pending call of `handler`.
    pub(super) fn has_pending(&self, handler: HandlerId) -> bool {
        self.pendings.iter().any(|it| it.pending.handler == handler)
    }
}
