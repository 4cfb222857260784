//! The schedule: the events and calls that each object waits for, and which object is next.
//!
//! The part of the engine that can be wrong, so it is kept apart from whatever makes that
//! hard to see: it has no clock, no lock, no randomness and no `async`, and it never calls
//! anybody's code. The engine of [`InformerController`](crate::InformerController) adds the
//! lock and the waiting.
//!
//! # Contract
//!
//! - **One hand.** A lane is taken by one worker at a time.
//! - **In order.** The events of an object are taken in the order in which they were offered.
//! - **Nothing lost, nothing doubled.** What was offered is taken once; what was taken and
//!   given back is taken again.
//! - **One slot.** For each object, handler and action at most one failed call is pending,
//!   and for each object and handler at most one requeue.
//! - **Fair.** Whatever is ready is taken within a bounded number of turns.
//! - **Bounded.** A lane without events and pending calls does not exist.

use std::{hash::BuildHasher, hint::black_box, sync::Arc};

use hashbrown::DefaultHashBuilder;

use crate::{Action, HandlerId, retry::DeleteRetry, route::KindId};

// Where events and pending calls are kept.
mod lane;
mod slab;
mod small_list;

// Which lane is whose.
mod groups;
mod index;

// Whose turn it is, and when.
mod gates;
mod pending_deletes;
mod ready;
mod timer_queue;

#[cfg(test)]
mod script;

use self::{
    gates::Gates,
    groups::Groups,
    index::LaneIndex,
    lane::{Lane, PendingCalls, Phase},
    pending_deletes::PendingDeletes,
    ready::{GroupId, Ready},
    slab::Slab,
};
pub(crate) use self::{
    lane::{Fold, LaneKey, Offer, Pending, Reason, ScheduleItem},
    ready::{LaneId, Priority},
    timer_queue::Moment,
};

/// The work of every object: events of type `E`, and pending calls of type `P`.
#[derive(Debug)]
pub(crate) struct Schedule<E, P> {
    lanes: Slab<Lane<E>>,
    /// The lanes by their key, which is kept in the lane and its group alone.
    index: LaneIndex,
    hasher: DefaultHashBuilder,
    groups: Groups,

    ready: Ready,
    later: PendingCalls<P>,

    /// The handlers that may have pending calls, in order.
    handlers: Vec<HandlerId>,

    held: usize,
    pending: usize,

    /// For how many turns what they will change has been read.
    prefetched: usize,

    /// Cancelled calls, to be dropped where no lock is held.
    discarded: Vec<Pending<P>>,

    /// Events that cancelled each other, to be dropped where no lock is held.
    dropped: Vec<E>,

    /// Which kinds are worked on.
    gates: Gates,

    /// The pending deletes of each kind, which outlive their objects and so have a bound.
    deletes: PendingDeletes,

    /// Deletes that were dropped because their kind had too many.
    evicted: Vec<(LaneKey, Pending<P>)>,

    /// What ends a pending delete.
    delete_retry: DeleteRetry,

    /// What is being offered, for as long as that takes.
    located: Vec<LocatedOffer<E>>,

    /// Memory for the pending calls that the next turn asks about, so that it is not allocated for
    /// each.
    spare: Vec<Pending<P>>,
}

/// One lane in a worker's hands, and what to do for it.
///
/// It must be given back with [`Schedule::finish`] or [`Schedule::give_back`].
#[derive(Debug)]
pub(crate) struct TakenLane<E, P> {
    pub(crate) lane: LaneId,
    pub(crate) key: LaneKey,
    pub(crate) work: Work<E, P>,
}

/// What to do for a lane.
#[derive(Debug)]
pub(crate) enum Work<E, P> {
    /// Tell this to all handlers; but first ask of each pending call whether it is still
    /// wanted.
    Event {
        offer: Offer<E>,
        pendings: Vec<Pending<P>>,
    },

    /// Make this call.
    Retry(Pending<P>),
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfferOutcome {
    /// It will be told.
    Queued,
    /// Another event, not told yet, tells it too.
    Folded,
}

/// What is being offered, and where the lane for it is, if there is one.
#[derive(Debug)]
struct LocatedOffer<E> {
    name: Arc<str>,
    group: GroupId,
    hash: u32,
    /// One of this hash, which mostly is it.
    lane: Option<LaneId>,
    offer: Offer<E>,
}

// === impl Schedule ===

impl<E, P> Default for Schedule<E, P> {
    fn default() -> Self {
        Self {
            lanes: Slab::default(),
            index: LaneIndex::default(),
            hasher: DefaultHashBuilder::default(),
            groups: Groups::default(),
            ready: Ready::default(),
            later: PendingCalls::default(),
            handlers: Vec::new(),
            held: 0,
            pending: 0,
            prefetched: 0,
            discarded: Vec::new(),
            dropped: Vec::new(),
            gates: Gates::default(),
            deletes: PendingDeletes::default(),
            evicted: Vec::new(),
            delete_retry: DeleteRetry::default(),
            located: Vec::new(),
            spare: Vec::new(),
        }
    }
}

impl<E: ScheduleItem, P: ScheduleItem> Schedule<E, P> {
    /// Notes what happened to objects, one after the other. Returns the places of those events
    /// which another one, not told yet, tells too.
    ///
    /// Where the newest event that was not told yet is about the same object (of the same
    /// uid), `fold` may make one of the two, or give the newer one back.
    pub(crate) fn offer(
        &mut self,
        offers: impl IntoIterator<Item = (LaneKey, Offer<E>)>,
        mut fold: impl FnMut(&mut E, E) -> Fold<E>,
    ) -> Vec<usize> {
        // Not later: the groups that are looked up below must stay until their lanes are made.
        self.groups.trim();
        let mut located = std::mem::take(&mut self.located);
        located.extend(offers.into_iter().map(|(key, offer)| {
            let (namespace, name) = key.object.into_parts();
            let group = self.groups.of(key.kind, namespace);
            LocatedOffer {
                hash: self.hash(group, &name),
                name,
                group,
                lane: None,
                offer,
            }
        }));
        self.locate(&mut located);
        let mut folded = Vec::new();
        for (at, it) in located.drain(..).enumerate() {
            let id = self.lane(it.name, it.group, it.hash, it.lane);
            if self.put(id, it.offer, &mut fold) == OfferOutcome::Folded {
                folded.push(at);
            }
        }
        self.located = located;
        folded
    }

    /// Puts an offer into lane `id`.
    fn put(
        &mut self,
        id: LaneId,
        offer: Offer<E>,
        fold: impl FnOnce(&mut E, E) -> Fold<E>,
    ) -> OfferOutcome {
        let lane = &mut self.lanes[id];
        let offered = match lane.fold(offer, fold, &mut self.dropped) {
            Some(offer) => {
                lane.push(offer);
                OfferOutcome::Queued
            }
            None => OfferOutcome::Folded,
        };
        self.settle(id);
        offered
    }

    /// Takes the next ready lane, with its work.
    ///
    /// Events come before retries, because they may make them needless. A retry that was due
    /// when an event went first, and is still wanted, comes before the next event.
    pub(crate) fn take(&mut self, now: Moment) -> Option<TakenLane<E, P>> {
        self.advance(now);
        self.look_ahead();
        let id = self.ready.pop()?;
        let lane = &mut self.lanes[id];
        lane.phase = Phase::Held;
        self.held += 1;

        let work = if let Some(pending) = self.take_due(id, true) {
            Work::Retry(pending)
        } else if let Some(offer) = self.lanes[id].pop() {
            let mut pendings = Vec::new();
            if self.lanes[id].has_pendings() && !offer.pendings_checked {
                pendings = std::mem::take(&mut self.spare);
                self.take_pendings(id, &offer.event, now, &mut pendings);
                // Calls about another uid of this name are not this event's business; but a
                // handler that is keyed by name has nothing left to delete once its successor
                // is there.
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
            Work::Retry(pending.expect("a ready lane has an event or a call that is due"))
        };
        let lane = &self.lanes[id];
        Some(TakenLane {
            lane: id,
            key: lane.key(&self.groups[lane.group]),
            work,
        })
    }

    /// Takes the pending calls of lane `id` that are about the object of `event` into `pendings`.
    pub(crate) fn take_pendings(
        &mut self,
        id: LaneId,
        event: &E,
        now: Moment,
        pendings: &mut Vec<Pending<P>>,
    ) {
        let same = |pending: &Pending<P>| pending.call.is_same_object(event);
        while let Some(mut pending) = self.take_pending(id, same) {
            pending.overtaken = pending.due <= now;
            pendings.push(pending);
        }
    }

    /// Takes the first pending call of lane `id` that is `wanted`.
    fn take_pending(
        &mut self,
        id: LaneId,
        wanted: impl Fn(&Pending<P>) -> bool,
    ) -> Option<Pending<P>> {
        let pending = self.lanes[id].take_pending(&mut self.later, wanted)?;
        self.note_taken(id, &pending);
        Some(pending)
    }

    /// Takes the due call of lane `id` whose turn it is: of those that were overtaken, or of all.
    fn take_due(&mut self, id: LaneId, only_overtaken: bool) -> Option<Pending<P>> {
        let pending = self.lanes[id].take_due(&mut self.later, only_overtaken)?;
        self.note_taken(id, &pending);
        Some(pending)
    }

    /// Notes that `pending` of lane `id` is not pending any more.
    fn note_taken(&mut self, id: LaneId, pending: &Pending<P>) {
        self.pending -= 1;
        if pending.action == Action::Deleted {
            let kind = self.lanes[id].kind(&self.groups);
            self.deletes.remove(kind, id, pending.handler);
        }
    }

    /// Gives a lane back whose turn is over. `later` are the calls that are to be made later.
    pub(crate) fn finish(&mut self, lane: LaneId, later: impl IntoIterator<Item = Pending<P>>) {
        for pending in later {
            self.set(lane, pending);
        }
        self.release(lane);
    }

    /// Gives a lane back whose turn broke off: its work is queued again, and so are the
    /// calls in `later`.
    pub(crate) fn give_back(
        &mut self,
        turn: TakenLane<E, P>,
        later: impl IntoIterator<Item = Pending<P>>,
    ) {
        let lane = turn.lane;
        match turn.work {
            Work::Event { offer, pendings } => {
                self.lanes[lane].push_front(offer);
                for pending in pendings {
                    self.set(lane, pending);
                }
            }
            Work::Retry(pending) => self.set(lane, pending),
        }
        self.finish(lane, later);
    }

    /// Adds a pending call that no turn asked for.
    pub(crate) fn add_pending(&mut self, key: LaneKey, pending: Pending<P>) {
        let (namespace, name) = key.object.into_parts();
        let group = self.groups.of(key.kind, namespace);
        let hash = self.hash(group, &name);
        let lane = self.lane(name, group, hash, None);
        self.set(lane, pending);
        self.settle(lane);
    }

    /// Makes ready what has come due.
    pub(crate) fn advance(&mut self, now: Moment) {
        while let Some((timer, id)) = self.later.timers.take_due(now) {
            self.lanes[id].come_due(&mut self.later, timer);
            self.settle(id);
        }
    }

    /// Allows `handler` to have pending calls.
    pub(crate) fn admit(&mut self, handler: HandlerId) {
        if let Err(at) = self.handlers.binary_search(&handler) {
            self.handlers.insert(at, handler);
        }
    }

    /// Drops every pending call of `handler`, now and in turns that are not over. Looks at every
    /// lane. Returns how many pending calls were forgotten.
    pub(crate) fn cancel(&mut self, handler: HandlerId) -> usize {
        self.handlers.retain(|it| *it != handler);
        let ids: Vec<_> = (self.lanes.iter())
            .filter(|(_, lane)| lane.has_pendings())
            .map(|(id, _)| id)
            .collect();
        let mut gone = 0;
        for id in ids {
            let before = self.discarded.len();
            let kind = self.lanes[id].kind(&self.groups);
            (self.lanes[id]).cancel(handler, &mut self.later, &mut self.discarded);
            self.deletes.remove_all(kind, id, handler);
            gone += self.discarded.len() - before;
            self.settle(id);
        }
        self.pending -= gone;
        gone
    }

    /// Takes back the memory in which a turn had the pending calls that it asked about.
    pub(crate) fn reuse(&mut self, room: Vec<Pending<P>>) {
        if room.is_empty() && room.capacity() > self.spare.capacity() {
            self.spare = room;
        }
    }

    /// The events that cancelled each other since this was last asked.
    pub(crate) fn take_dropped(&mut self) -> Vec<E> {
        std::mem::take(&mut self.dropped)
    }

    /// What was replaced or forgotten since this was last asked.
    pub(crate) fn take_discarded(&mut self) -> Vec<Pending<P>> {
        std::mem::take(&mut self.discarded)
    }

    /// When the next pending call is due.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.later.timers.next_due()
    }

    /// How many objects wait for a worker.
    pub(crate) const fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many calls are pending.
    pub(crate) const fn pending(&self) -> usize {
        self.pending
    }

    /// The number of objects that have work.
    #[cfg(test)]
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Finds out where the lanes are for what is `located`, and reads what is there. That is one
    /// thing behind the other, each in a place of its own: where there are many, step by step for
    /// all of them is to wait for the memory once a step, and not once a step for each.
    fn locate(&self, located: &mut [LocatedOffer<E>]) {
        for it in &mut *located {
            it.lane = self.index.find(it.hash, |_| true);
        }
        let lanes = || located.iter().filter_map(|it| it.lane);
        black_box(lanes().map(|id| self.lanes[id].hash).max());
        black_box((lanes().map(|id| self.later.look_ahead(self.lanes[id].pendings()))).max());
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "half of the bits of a hash are a hash"
    )]
    fn hash(&self, group: GroupId, name: &str) -> u32 {
        self.hasher.hash_one((group, name)) as u32
    }

    /// The lane of this name in `group`, created if there is none. It is `likely`, or may be
    /// another one.
    fn lane(
        &mut self,
        name: Arc<str>,
        group: GroupId,
        hash: u32,
        likely: Option<LaneId>,
    ) -> LaneId {
        let its = |id: LaneId| {
            let lane = self.lanes.get(id);
            lane.is_some_and(|lane| lane.group == group && lane.name == name)
        };
        // An event of the same batch may have made the lane since, or removed it.
        let known = (likely.filter(|id| its(*id))).or_else(|| self.index.find(hash, its));
        known.unwrap_or_else(|| {
            self.groups.enter(group);
            let id = self.lanes.insert(Lane::new(name, hash, group));
            self.index.insert(hash, id);
            id
        })
    }

    /// Makes `pending` pending, unless its handler is gone.
    fn set(&mut self, lane: LaneId, pending: Pending<P>) {
        if self.handlers.binary_search(&pending.handler).is_err() {
            self.discarded.push(pending);
            return;
        }
        let delete = (pending.action == Action::Deleted).then_some(pending.handler);
        if let Some(replaced) = self.lanes[lane].set(pending, &mut self.later, lane) {
            self.discarded.push(replaced);
            return;
        }
        self.pending += 1;
        if let Some(handler) = delete {
            let kind = self.lanes[lane].kind(&self.groups);
            let oldest = self.deletes.insert(kind, lane, handler);
            if let Some((lane, handler)) = oldest {
                self.evict(lane, handler);
            }
        }
    }

    /// Drops the pending delete of `handler` in lane `id`, which has waited longest of its kind.
    fn evict(&mut self, id: LaneId, handler: HandlerId) {
        let lane = &mut self.lanes[id];
        let its =
            |pending: &Pending<P>| pending.handler == handler && pending.action == Action::Deleted;
        if let Some(pending) = lane.take_pending(&mut self.later, its) {
            self.pending -= 1;
            let key = lane.key(&self.groups[lane.group]);
            self.evicted.push((key, pending));
            self.settle(id);
        }
    }

    /// Whether deletes were dropped because their kind had too many.
    pub(crate) const fn has_evicted(&self) -> bool {
        !self.evicted.is_empty()
    }

    /// The deletes that were dropped since this was last asked, because their kind had too many.
    pub(crate) fn take_evicted(&mut self) -> Vec<(LaneKey, Pending<P>)> {
        std::mem::take(&mut self.evicted)
    }

    /// Sets what ends a pending delete.
    pub(crate) fn set_delete_retry(&mut self, delete_retry: DeleteRetry) {
        self.delete_retry = delete_retry;
    }

    /// Starts or stops work on `kind`, or on all kinds that were not closed by themselves. Looks
    /// at every group, and at no lane.
    pub(crate) fn set_gate(&mut self, kind: Option<KindId>, open: bool) {
        if self.gates.set(kind, open) {
            for (group, kind) in self.groups.kinds() {
                self.ready.set_open(group, self.gates.is_open(kind));
            }
        }
    }

    /// Takes out whatever is queued for `kind`, and drops its pending calls. Looks at every lane.
    pub(crate) fn purge(&mut self, kind: KindId) -> Vec<Offer<E>> {
        let ids: Vec<_> = (self.lanes.iter())
            .filter(|(_, lane)| lane.kind(&self.groups) == kind)
            .map(|(id, _)| id)
            .collect();
        let mut events = Vec::new();
        for id in ids {
            let lane = &mut self.lanes[id];
            events.extend(std::iter::from_fn(|| lane.pop()));
            while let Some(pending) = lane.take_pending(&mut self.later, |_| true) {
                self.pending -= 1;
                self.discarded.push(pending);
            }
            self.settle(id);
        }
        self.deletes.forget(kind);
        events
    }

    fn release(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id];
        debug_assert_eq!(
            lane.phase,
            Phase::Held,
            "released a lane that no worker holds"
        );
        lane.phase = Phase::Idle;
        self.held -= 1;
        self.settle(id);
    }

    /// Reads what the next turns will change. Each thing lies in a place of its own: where there
    /// are many, to read it in its turn is to wait for the memory each time, and to read that of
    /// several turns side by side is to wait once.
    fn look_ahead(&mut self) {
        /// So many reads as a processor has under way at once, of three or four for each.
        const TURNS: usize = 8;
        // What is alone has just come.
        if self.prefetched > 0 || self.ready.len() < 2 {
            self.prefetched = self.prefetched.saturating_sub(1);
            return;
        }
        let mut located = [None; TURNS];
        for (at, id) in located.iter_mut().zip(self.ready.upcoming(TURNS)) {
            *at = Some(id);
            self.prefetched += 1;
        }
        let lanes = || located.iter().flatten().map(|id| (*id, &self.lanes[*id]));
        black_box(lanes().map(|(_, lane)| lane.hash).max());
        black_box(lanes().map(|(_, lane)| lane.look_ahead()).max());
        black_box((lanes().map(|(id, lane)| self.index.find(lane.hash, |it| it == id))).max());
        self.prefetched -= 1;
    }

    /// Puts a lane where it belongs, after its work changed.
    fn settle(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id];
        let phase = match (lane.phase, lane.urgency()) {
            (Phase::Held, _) => Phase::Held,
            (_, Some(priority)) => Phase::Ready(priority),
            (_, None) => Phase::Idle,
        };
        if phase != lane.phase {
            if let Phase::Ready(priority) = lane.phase {
                self.ready.remove(id, priority, lane.group);
            }
            if let Phase::Ready(priority) = phase {
                let gates = &self.gates;
                let open = gates.all_open() || gates.is_open(lane.kind(&self.groups));
                self.ready.push(id, priority, lane.group, open);
            }
            lane.phase = phase;
        }
        if phase == Phase::Idle && lane.is_empty() {
            let (hash, group) = (lane.hash, lane.group);
            self.index.remove(hash, id);
            self.groups.leave(group);
            self.lanes.remove(id);
        }
    }
}
