//! Pending calls: the retries and requeues of all lanes, and their timers. *(pure)*

use super::Lane;
use crate::{
    Action, HandlerId,
    schedule::{
        ScheduleItem,
        ready::LaneId,
        small_list::{ListNodes, SmallList},
        timer_queue::{Moment, TimerKey, TimerQueue},
    },
};

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

/// The pending calls of all lanes, and their timers.
#[derive(Debug)]
pub(in crate::schedule) struct PendingCalls<P> {
    slots: ListNodes<PendingSlot<P>>,
    pub(in crate::schedule) timers: TimerQueue,
}

/// A pending call and its timer.
#[derive(Debug)]
pub(in crate::schedule) struct PendingSlot<P> {
    pending: Pending<P>,
    when: TimerState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimerState {
    Waiting(TimerKey),
    Due,
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
    /// Removes the first pending call that is `wanted`.
    pub(in crate::schedule) fn take_pending<P>(
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
    pub(in crate::schedule) fn take_due<P>(
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
    pub(in crate::schedule) fn set<P: ScheduleItem>(
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
    pub(in crate::schedule) fn come_due<P>(
        &mut self,
        later: &mut PendingCalls<P>,
        timer: TimerKey,
    ) {
        let wanted = |slot: &PendingSlot<P>| slot.when == TimerState::Waiting(timer);
        let due = self.slots.find_mut(&mut later.slots, wanted);
        if let Some(slot) = due {
            slot.when = TimerState::Due;
            self.due = true;
        }
    }

    /// Moves all pending calls of `handler` into `discarded`.
    pub(in crate::schedule) fn cancel<P>(
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
}

// === impl PendingCalls ===

impl<P> PendingCalls<P> {
    /// The due time of the first pending call in `slots`. Reading it prefetches the call.
    pub(in crate::schedule) fn look_ahead(&self, slots: &SmallList) -> Option<Moment> {
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
