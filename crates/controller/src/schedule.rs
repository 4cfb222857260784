//! The schedule: the events and pending calls of each object, and which lane is next. *(pure)*
//!
//! It has no clock, no lock, no randomness and no `async`, and calls no user code. The engine of
//! [`InformerController`](crate::InformerController) adds the lock and the timers.
//!
//! # Contract
//!
//! - **Exclusive.** A lane is taken by one worker at a time.
//! - **In order.** The events of an object are taken in the order in which they were offered.
//! - **Exactly once.** An offered event is taken once. Work that was taken and returned unfinished
//!   is taken again.
//! - **One pending call.** For each object, handler and action at most one failed call is pending,
//!   and for each object and handler at most one requeue.
//! - **Fair.** A ready lane is taken within a bounded number of turns.
//! - **Bounded.** A lane exists only while it has events or pending calls.

use crate::{Action, HandlerId, retry::DeleteRetry, route::KindId};

// Storage of events and pending calls.
mod lane;
mod slab;
mod small_list;

// Lookup of lanes.
mod groups;
mod index;
mod lanes;
mod prefetch;

// Order and timing.
mod gates;
mod pending_deletes;
mod ready;
mod repeat;
mod timer_queue;

#[cfg(test)]
mod script;

pub use self::ready::Priority;
use self::{
    gates::Gates,
    lane::{PendingCalls, Phase},
    lanes::{Lanes, LocatedLane},
    pending_deletes::PendingDeletes,
    ready::ReadyQueue,
};
pub(crate) use self::{
    lane::{Coalesced, LaneKey, Offer, Pending, Reason, ScheduleItem},
    ready::LaneId,
    timer_queue::Moment,
};

/// All lanes: events of type `E`, and pending calls of type `P`.
#[derive(Debug)]
pub(crate) struct Schedule<E, P> {
    lanes: Lanes<E>,
    ready: ReadyQueue,
    /// The pending calls of all lanes.
    later: PendingCalls<P>,

    /// The handlers that may have pending calls, sorted.
    handlers: Vec<HandlerId>,

    /// The number of pending calls.
    pending: usize,

    /// The number of turns whose data has been prefetched.
    prefetched: usize,

    /// Cancelled calls, to be dropped without a lock.
    discarded: Vec<Pending<P>>,

    /// Coalesced events, to be dropped without a lock.
    dropped: Vec<E>,

    /// The gates of the kinds.
    gates: Gates,

    /// The pending deletes of each kind. They outlive their objects, so they have a bound.
    deletes: PendingDeletes,

    /// Pending deletes that were dropped because their kind had too many.
    evicted: Vec<(LaneKey, Pending<P>)>,

    /// What ends the retries of a failed delete.
    delete_retry: DeleteRetry,

    /// The offers of the current call of `offer`. Empty between calls, to reuse the memory.
    located: Vec<(LocatedLane, Offer<E>)>,
}

/// A lane that a worker has taken, with its work.
///
/// Return it with [`Schedule::finish`] or [`Schedule::return_unfinished`].
#[derive(Debug)]
pub(crate) struct TakenLane<E, P> {
    pub(crate) lane: LaneId,
    pub(crate) key: LaneKey,
    pub(crate) work: Work<E, P>,
}

/// The work of a turn. A turn is the work of one worker on one lane.
#[derive(Debug)]
pub(crate) enum Work<E, P> {
    /// Dispatch this event to all handlers. Before that, decide about each pending call.
    Event {
        offer: Offer<E>,
        pendings: Vec<Pending<P>>,
    },

    /// Repeat this call.
    Retry(Pending<P>),
}

/// The result of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfferOutcome {
    /// The event was queued.
    Queued,
    /// The event was coalesced into an undispatched one.
    Coalesced,
}

// === impl Schedule ===

impl<E, P> Default for Schedule<E, P> {
    fn default() -> Self {
        Self {
            lanes: Lanes::default(),
            ready: ReadyQueue::default(),
            later: PendingCalls::default(),
            handlers: Vec::new(),
            pending: 0,
            prefetched: 0,
            discarded: Vec::new(),
            dropped: Vec::new(),
            gates: Gates::default(),
            deletes: PendingDeletes::default(),
            evicted: Vec::new(),
            delete_retry: DeleteRetry::default(),
            located: Vec::new(),
        }
    }
}

impl<E: ScheduleItem, P: ScheduleItem> Schedule<E, P> {
    /// Queues events in order. Returns the positions of the events that were coalesced into earlier
    /// ones.
    ///
    /// If the newest undispatched event of the lane has the same uid, `coalesce` can merge the two,
    /// or return the newer one to queue it separately.
    pub(crate) fn offer(
        &mut self,
        offers: impl IntoIterator<Item = (LaneKey, Offer<E>)>,
        mut coalesce: impl FnMut(&mut E, E) -> Coalesced<E>,
    ) -> Vec<usize> {
        // Before the lookup: the groups that are found below must exist until their lanes are
        // created.
        self.lanes.trim();
        let mut located = std::mem::take(&mut self.located);
        located.extend((offers.into_iter()).map(|(key, offer)| (self.lanes.locate(key), offer)));
        self.find_likely(&mut located);
        let mut coalesced = Vec::new();
        for (at, (lane, offer)) in located.drain(..).enumerate() {
            let id = self.lanes.enter(lane);
            if self.put(id, offer, &mut coalesce) == OfferOutcome::Coalesced {
                coalesced.push(at);
            }
        }
        self.located = located;
        coalesced
    }

    /// Adds an offer to lane `id`.
    fn put(
        &mut self,
        id: LaneId,
        offer: Offer<E>,
        coalesce: impl FnOnce(&mut E, E) -> Coalesced<E>,
    ) -> OfferOutcome {
        let lane = &mut self.lanes[id];
        let offered = match lane.coalesce(offer, coalesce, &mut self.dropped) {
            Some(offer) => {
                lane.push(offer);
                OfferOutcome::Queued
            }
            None => OfferOutcome::Coalesced,
        };
        self.update_phase(id);
        offered
    }

    /// Takes the next ready lane and its work.
    ///
    /// Events precede retries, because they may cancel them. A retry that was due when an event
    /// went first, and was kept, precedes the next event.
    pub(crate) fn take(&mut self, now: Moment) -> Option<TakenLane<E, P>> {
        self.advance(now);
        self.look_ahead();
        let id = self.ready.pop()?;
        let lane = &mut self.lanes[id];
        lane.phase = Phase::Processing;

        let work = if let Some(pending) = self.take_due(id, true) {
            Work::Retry(pending)
        } else if let Some(offer) = self.lanes[id].pop() {
            let mut pendings = Vec::new();
            if !offer.pendings_checked {
                self.take_pendings(id, &offer.event, now, &mut pendings);
                // An event does not affect calls of another uid with this name. Exception: for
                // handlers that are keyed by name, a delete is obsolete once the next object
                // exists.
                if self.delete_retry == DeleteRetry::UntilSuccessor
                    && offer.event.action() == Some(Action::Created)
                {
                    let delete = |pending: &Pending<P>| pending.action == Action::Deleted;
                    while let Some(pending) = self.take_pending(id, delete) {
                        self.discarded.push(pending);
                    }
                }
            }
            Work::Event { offer, pendings }
        } else {
            let pending = self.take_due(id, false);
            Work::Retry(pending.expect("a ready lane has an event or a due call"))
        };
        Some(TakenLane {
            lane: id,
            key: self.lanes.key(id),
            work,
        })
    }

    /// Returns a lane after its turn, and adds the pending calls in `later`.
    pub(crate) fn finish(&mut self, lane: LaneId, later: impl IntoIterator<Item = Pending<P>>) {
        for pending in later {
            self.insert_pending(lane, pending);
        }
        self.release(lane);
    }

    /// Returns a lane whose turn was interrupted: queues its work again, and adds the pending calls
    /// in `later`.
    pub(crate) fn return_unfinished(
        &mut self,
        turn: TakenLane<E, P>,
        later: impl IntoIterator<Item = Pending<P>>,
    ) {
        let lane = turn.lane;
        match turn.work {
            Work::Event { offer, pendings } => {
                self.lanes[lane].push_front(offer);
                for pending in pendings {
                    self.insert_pending(lane, pending);
                }
            }
            Work::Retry(pending) => self.insert_pending(lane, pending),
        }
        self.finish(lane, later);
    }

    /// Makes the lanes of due calls ready.
    pub(crate) fn advance(&mut self, now: Moment) {
        while let Some((timer, id)) = self.later.timers.take_due(now) {
            self.lanes[id].come_due(&mut self.later, timer);
            self.update_phase(id);
        }
    }

    /// Allows `handler` to have pending calls.
    pub(crate) fn admit(&mut self, handler: HandlerId) {
        if let Err(at) = self.handlers.binary_search(&handler) {
            self.handlers.insert(at, handler);
        }
    }

    /// Takes the coalesced events.
    pub(crate) fn take_dropped(&mut self) -> Vec<E> {
        std::mem::take(&mut self.dropped)
    }

    /// Takes the replaced and cancelled calls.
    pub(crate) fn take_discarded(&mut self) -> Vec<Pending<P>> {
        std::mem::take(&mut self.discarded)
    }

    /// The due time of the next pending call.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.later.timers.next_due()
    }

    /// The number of ready lanes.
    pub(crate) const fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The number of pending calls.
    pub(crate) const fn pending(&self) -> usize {
        self.pending
    }

    /// Whether pending deletes were dropped because their kind had too many.
    pub(crate) const fn has_evicted(&self) -> bool {
        !self.evicted.is_empty()
    }

    /// Opens or closes the gate of `kind`, or of all kinds without a closed gate of their own.
    /// Reads all groups, and no lane.
    pub(crate) fn set_gate(&mut self, kind: Option<KindId>, open: bool) {
        if self.gates.set(kind, open) {
            for (group, kind) in self.lanes.groups() {
                self.ready.set_open(group, self.gates.is_open(kind));
            }
        }
    }

    /// Removes the events of `kind` and returns them, and cancels its pending calls. Reads all
    /// lanes.
    pub(crate) fn purge(&mut self, kind: KindId) -> Vec<Offer<E>> {
        let mut events = Vec::new();
        for id in self.lanes.ids_where(|_, of| of == kind) {
            let lane = &mut self.lanes[id];
            events.extend(std::iter::from_fn(|| lane.pop()));
            while let Some(pending) = lane.take_pending(&mut self.later, |_| true) {
                self.pending -= 1;
                self.discarded.push(pending);
            }
            self.update_phase(id);
        }
        self.deletes.forget(kind);
        events
    }

    fn release(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id];
        debug_assert_eq!(
            lane.phase,
            Phase::Processing,
            "released a lane that no worker holds"
        );
        lane.phase = Phase::Idle;
        self.update_phase(id);
    }

    /// Updates the phase of a lane after its work has changed, and removes it if it is empty.
    fn update_phase(&mut self, id: LaneId) {
        let lane = &self.lanes[id];
        let phase = match (lane.phase, lane.current_priority()) {
            (Phase::Processing, _) => Phase::Processing,
            (_, Some(priority)) => Phase::Ready(priority),
            (_, None) => Phase::Idle,
        };
        if phase != lane.phase {
            if let Phase::Ready(priority) = lane.phase {
                self.ready.remove(id, priority, lane.group);
            }
            if let Phase::Ready(priority) = phase {
                let gates = &self.gates;
                let open = gates.all_open() || gates.is_open(self.lanes.kind(id));
                self.ready.push(id, priority, lane.group, open);
            }
            self.lanes[id].phase = phase;
        }
        if phase == Phase::Idle && self.lanes[id].is_empty() {
            self.lanes.remove(id);
        }
    }
}
