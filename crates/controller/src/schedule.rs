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

// Events and pending calls.
mod lane;
mod moment;
mod pending;

// The order of lanes.
mod lanes;
mod ready;
mod rings;

#[cfg(test)]
mod script;

pub use self::ready::Priority;
pub(crate) use self::{
    lane::{Coalesced, LaneId, LaneKey, Offer, ScheduleItem},
    moment::Moment,
    pending::{Pending, Reason},
};
use self::{
    lane::{Lane, Phase},
    lanes::Lanes,
    pending::PendingCalls,
};

/// All lanes: events of type `E`, and pending calls of type `P`.
#[derive(Debug)]
pub(crate) struct Schedule<E, P> {
    lanes: Lanes<E, P>,
    calls: PendingCalls<P>,

    /// What ends the retries of a failed delete.
    delete_retry: DeleteRetry,

    /// Coalesced events, to be dropped without a lock.
    dropped: Vec<E>,

    /// Pending deletes that were dropped because their kind had too many.
    evicted: Vec<(LaneKey, Pending<P>)>,
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

// === impl Schedule ===

impl<E, P> Default for Schedule<E, P> {
    fn default() -> Self {
        Self {
            lanes: Lanes::default(),
            calls: PendingCalls::default(),
            delete_retry: DeleteRetry::default(),
            dropped: Vec::new(),
            evicted: Vec::new(),
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
        let mut coalesced = Vec::new();
        for (at, (key, offer)) in offers.into_iter().enumerate() {
            let (lane, dropped) = (self.lanes.enter(key), &mut self.dropped);
            if (self.lanes).change(lane, |lane| lane.offer(offer, &mut coalesce, dropped)) {
                coalesced.push(at);
            }
        }
        coalesced
    }

    /// Takes the next ready lane and its work.
    ///
    /// Events precede retries, because they may cancel them. A retry that was due when an event
    /// went first, and was kept, precedes the next event.
    pub(crate) fn take(&mut self, now: Moment) -> Option<TakenLane<E, P>> {
        self.advance(now);
        let id = self.lanes.take()?;
        let lane = self.lanes.get_mut(id);
        let calls = &mut self.calls;
        let work = if let Some(pending) = lane.take_due(calls, true) {
            Work::Retry(pending)
        } else if let Some(offer) = lane.pop() {
            let mut pendings = Vec::new();
            if !offer.pendings_checked {
                pendings = lane.take_pendings_of(calls, &offer.event, now);
                // An event does not affect calls of another uid with this name. Exception: for
                // handlers that are keyed by name, a delete is obsolete once the next object
                // exists.
                if self.delete_retry == DeleteRetry::UntilSuccessor
                    && offer.event.action() == Some(Action::Created)
                {
                    lane.cancel(calls, |pending| pending.action == Action::Deleted);
                }
            }
            Work::Event { offer, pendings }
        } else {
            let pending = lane.take_due(calls, false);
            Work::Retry(pending.expect("a ready lane has an event or a due call"))
        };
        Some(TakenLane {
            lane: id,
            key: self.lanes.key(id),
            work,
        })
    }

    /// Takes the pending calls for the object of `event` out of a lane that a worker has.
    pub(crate) fn take_pendings(
        &mut self,
        lane: LaneId,
        event: &E,
        now: Moment,
    ) -> Vec<Pending<P>> {
        let calls = &mut self.calls;
        let take = |lane: &mut Lane<E, P>| lane.take_pendings_of(calls, event, now);
        self.lanes.change(lane, take)
    }

    /// Returns a lane after its turn, and adds the calls that the turn has made pending.
    pub(crate) fn finish(
        &mut self,
        lane: LaneId,
        new_pendings: impl IntoIterator<Item = Pending<P>>,
    ) {
        self.release(lane, None, new_pendings);
    }

    /// Returns a lane whose turn was interrupted: queues its work again, and adds the calls that the
    /// turn has made pending.
    pub(crate) fn return_unfinished(
        &mut self,
        turn: TakenLane<E, P>,
        new_pendings: impl IntoIterator<Item = Pending<P>>,
    ) {
        let (offer, pendings) = match turn.work {
            Work::Event { offer, pendings } => (Some(offer), pendings),
            Work::Retry(pending) => (None, vec![pending]),
        };
        self.release(turn.lane, offer, pendings.into_iter().chain(new_pendings));
    }

    /// Adds a pending call outside of a turn.
    pub(crate) fn add_pending(&mut self, key: LaneKey, pending: Pending<P>) {
        let (lane, calls) = (self.lanes.enter(key), &mut self.calls);
        self.lanes
            .change(lane, |lane| lane.add_pending(calls, pending));
        self.evict();
    }

    /// Makes the lanes of due calls ready.
    pub(crate) fn advance(&mut self, now: Moment) {
        while let Some((lane, number)) = self.calls.expire(now) {
            self.lanes.change(lane, |lane| lane.come_due(number));
        }
    }

    /// Allows `handler` to have pending calls.
    pub(crate) fn admit(&mut self, handler: HandlerId) {
        self.calls.admit(handler);
    }

    /// Cancels all pending calls of `handler`, now and of active turns. Reads all lanes. Returns
    /// the number of cancelled calls.
    pub(crate) fn cancel(&mut self, handler: HandlerId) -> usize {
        self.cancel_those(handler, |_| true)
    }

    fn cancel_those(
        &mut self,
        handler: HandlerId,
        unwanted: impl Fn(&Pending<P>) -> bool,
    ) -> usize {
        self.calls.dismiss(handler);
        let mut cancelled = 0;
        for lane in self.lanes.ids_where(|lane| lane.has_pending(handler)) {
            let calls = &mut self.calls;
            cancelled += self.lanes.change(lane, |lane| {
                lane.cancel(calls, |pending| {
                    pending.handler == handler && unwanted(pending)
                })
            });
        }
        cancelled
    }

    /// Cancels all pending calls except deferred deletes, which become due, and allows no further ones.
    pub(crate) fn cancel_all(&mut self) {
        self.advance(Moment::NEVER);
        while let Some(handler) = self.calls.handler() {
            self.cancel_those(handler, |pending| !pending.is_deferred_delete());
        }
    }

    /// Removes the events of `kind` and returns them, and cancels its pending calls. Reads all
    /// lanes.
    pub(crate) fn purge(&mut self, kind: KindId) -> Vec<Offer<E>> {
        let mut events = Vec::new();
        for lane in self.lanes.ids_where(|lane| lane.kind == kind) {
            let calls = &mut self.calls;
            self.lanes.change(lane, |lane| {
                events.extend(std::iter::from_fn(|| lane.pop()));
                lane.cancel(calls, |_| true);
            });
        }
        events
    }

    /// Opens or closes the gate of `kind`, or of all kinds without a closed gate of their own.
    /// Reads all groups, and no lane.
    pub(crate) fn set_gate(&mut self, kind: Option<KindId>, open: bool) {
        self.lanes.set_gate(kind, open);
    }

    /// Sets what ends the retries of a failed delete.
    pub(crate) fn set_delete_retry(&mut self, delete_retry: DeleteRetry) {
        self.delete_retry = delete_retry;
    }

    /// Takes the coalesced events.
    pub(crate) fn take_dropped(&mut self) -> Vec<E> {
        std::mem::take(&mut self.dropped)
    }

    /// Takes the replaced and cancelled calls.
    pub(crate) fn take_discarded(&mut self) -> Vec<Pending<P>> {
        self.calls.take_discarded()
    }

    /// Whether pending deletes were dropped because their kind had too many.
    pub(crate) const fn has_evicted(&self) -> bool {
        !self.evicted.is_empty()
    }

    /// Takes the deletes that were dropped because their kind had too many.
    pub(crate) fn take_evicted(&mut self) -> Vec<(LaneKey, Pending<P>)> {
        std::mem::take(&mut self.evicted)
    }

    /// The due time of the next pending call.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.calls.next_due()
    }

    /// Whether a lane can be taken.
    pub(crate) fn has_ready(&self) -> bool {
        self.lanes.has_ready()
    }

    /// The number of ready lanes. Reads all groups.
    pub(crate) fn ready(&self) -> usize {
        self.lanes.ready()
    }

    /// The number of pending calls.
    pub(crate) const fn pending(&self) -> usize {
        self.calls.len()
    }

    /// Returns a lane after a turn, with the event that was not dispatched, and pending calls.
    fn release(
        &mut self,
        lane: LaneId,
        offer: Option<Offer<E>>,
        pendings: impl IntoIterator<Item = Pending<P>>,
    ) {
        let calls = &mut self.calls;
        self.lanes.change(lane, |lane| {
            debug_assert_eq!(
                lane.phase,
                Phase::Processing,
                "released a lane that no worker holds"
            );
            lane.phase = Phase::Idle;
            if let Some(offer) = offer {
                lane.push_front(offer);
            }
            for pending in pendings {
                lane.add_pending(calls, pending);
            }
        });
        self.evict();
    }

    /// Drops the oldest pending deletes of kinds that have too many.
    fn evict(&mut self) {
        for (lane, number) in self.calls.take_excess() {
            let (key, calls) = (self.lanes.key(lane), &mut self.calls);
            let take = |lane: &mut Lane<E, P>| lane.take_number(calls, number);
            let pending = self.lanes.change(lane, take);
            self.evicted.extend(pending.map(|pending| (key, pending)));
        }
    }
}
