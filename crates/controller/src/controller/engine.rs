//! The engine: the schedule behind a lock, and the waiting.
//!
//! No user code runs under the lock. Workers wait for a signal that something is ready;
//! one task waits for the next due time, exactly, and nothing ticks.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

// From this folder, not from the crate: the model test puts others in their places.
use super::{clock::Clock, sync::Mutex};
use crate::{
    HandlerId,
    retry::DeleteRetry,
    route::KindId,
    schedule::{Fold, LaneKey, Moment, Offer, Pending, Schedule, ScheduleItem, TakenLane, Work},
};

/// The schedule, shared by any number of workers.
#[derive(Debug)]
pub(crate) struct Engine<E, P> {
    schedule: Mutex<Schedule<E, P>>,

    /// Notified when something may be ready. Remembers one call at most, so a worker that takes
    /// passes it on while more is ready.
    ready: Notify,

    /// Told when the next due time may be sooner than it was.
    sooner: Notify,

    /// Whether pending deletes were dropped and are not taken yet.
    evicted: AtomicBool,

    pub(super) clock: Clock,
}

/// One object in this worker's hands, and in no other's.
///
/// Dropping it gives the work back, as it is: what was not done is later again.
#[derive(Debug)]
#[must_use = "dropping this gives the work back at once"]
pub(crate) struct LaneGuard<E: ScheduleItem, P: ScheduleItem> {
    engine: Arc<Engine<E, P>>,
    /// When it was taken.
    since: Moment,
    /// None once it was given back.
    turn: Option<TakenLane<E, P>>,
    later: Vec<Pending<P>>,
}

// === impl Engine ===

impl<E: ScheduleItem, P: ScheduleItem> Engine<E, P> {
    /// Notes what happened to objects, one after the other, under one lock. Returns the places
    /// of those events which another one, not told yet, tells too.
    pub(crate) fn offer(
        &self,
        offers: impl IntoIterator<Item = (LaneKey, Offer<E>)>,
        fold: impl FnMut(&mut E, E) -> Fold<E>,
    ) -> Vec<usize> {
        // Dropped where no lock is held: it may be the last of an object.
        let (folded, ready, _dropped) = {
            let mut schedule = self.schedule.lock();
            let folded = schedule.offer(offers, fold);
            (folded, schedule.ready() > 0, schedule.take_dropped())
        };
        if ready {
            self.ready.notify_one();
        }
        folded
    }

    /// Adds a call that is to be made later, for an object that no worker may have. Returns what
    /// it replaced.
    pub(crate) fn add_pending(&self, key: LaneKey, pending: Pending<P>) -> Vec<Pending<P>> {
        self.change(|schedule| {
            schedule.add_pending(key, pending);
            schedule.take_discarded()
        })
    }

    /// Waits for something to do.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready takes nothing, and wakes another worker if it
    /// was woken itself.
    pub(crate) async fn take(self: &Arc<Self>) -> LaneGuard<E, P> {
        loop {
            if let Some(held) = self.try_take() {
                return held;
            }
            self.ready.notified().await;
        }
    }

    /// Takes something to do, if there is.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<LaneGuard<E, P>> {
        let since = self.now();
        let turn = self.change(|schedule| schedule.take(since))?;
        Some(LaneGuard {
            engine: Arc::clone(self),
            since,
            turn: Some(turn),
            later: Vec::new(),
        })
    }

    /// Wakes workers when what is pending comes due, for ever.
    pub(crate) async fn keep_time(&self) {
        loop {
            let next = self.schedule.lock().next_due();
            let Some(due) = next else {
                self.sooner.notified().await;
                continue;
            };
            if due <= self.now() {
                let ready = {
                    let mut schedule = self.schedule.lock();
                    schedule.advance(self.now());
                    schedule.ready() > 0
                };
                if ready {
                    self.ready.notify_one();
                }
                continue;
            }
            tokio::select! {
                biased;
                () = self.clock.until(due) => {}
                () = self.sooner.notified() => {}
            }
        }
    }

    /// Lets `handler` be later calls.
    pub(crate) fn admit(&self, handler: HandlerId) {
        self.schedule.lock().admit(handler);
    }

    /// Forgets whatever `handler` is later. Returns how many pending calls that was.
    pub(crate) fn cancel(&self, handler: HandlerId) -> usize {
        let (gone, _discarded) = {
            let mut schedule = self.schedule.lock();
            (schedule.cancel(handler), schedule.take_discarded())
        };
        gone
    }

    /// Starts or stops work on `kind`, or on all kinds.
    pub(crate) fn set_gate(&self, kind: Option<KindId>, open: bool) {
        self.change(|schedule| schedule.set_gate(kind, open));
    }

    /// Drops whatever is queued or pending for `kind`, which was removed.
    pub(crate) fn purge(&self, kind: KindId) {
        // Dropped where no lock is held.
        let _dropped = self.change(|schedule| schedule.purge(kind));
    }

    /// Sets what ends a pending delete.
    pub(crate) fn set_delete_retry(&self, delete_retry: DeleteRetry) {
        self.schedule.lock().set_delete_retry(delete_retry);
    }

    /// The pending deletes that were dropped because their kind had too many.
    pub(crate) fn take_evicted(&self) -> Vec<(LaneKey, Pending<P>)> {
        self.evicted.store(false, Ordering::Relaxed);
        self.schedule.lock().take_evicted()
    }

    /// Whether there are any: asked after each turn, without the lock.
    pub(crate) fn has_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Waits until `due`.
    pub(crate) async fn until(&self, due: Moment) {
        self.clock.until(due).await;
    }

    /// How many objects wait for a worker.
    pub(crate) fn depth(&self) -> usize {
        self.schedule.lock().ready()
    }

    /// How many calls are pending.
    pub(crate) fn pending(&self) -> usize {
        self.schedule.lock().pending()
    }

    /// The time.
    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Changes the schedule under its lock, and notifies those that have something to do for it:
    /// the timer, if something is due sooner, and a worker, if something is ready.
    fn change<T>(&self, change: impl FnOnce(&mut Schedule<E, P>) -> T) -> T {
        let mut schedule = self.schedule.lock();
        let before = schedule.next_due().unwrap_or(Moment::NEVER);
        let changed = change(&mut schedule);
        let after = schedule.next_due().unwrap_or(Moment::NEVER);
        let (sooner, ready) = (after < before, schedule.ready() > 0);
        if schedule.has_evicted() {
            self.evicted.store(true, Ordering::Relaxed);
        }
        // What is discarded is dropped outside of the lock: it may be the last of an object.
        let _discarded = schedule.take_discarded();
        drop(schedule);
        if sooner {
            self.sooner.notify_one();
        }
        if ready {
            self.ready.notify_one();
        }
        changed
    }
}

impl<E: ScheduleItem, P: ScheduleItem> Default for Engine<E, P> {
    fn default() -> Self {
        Self {
            schedule: Mutex::default(),
            ready: Notify::new(),
            sooner: Notify::new(),
            evicted: AtomicBool::new(false),
            clock: Clock::default(),
        }
    }
}

// === impl LaneGuard ===

impl<E: ScheduleItem, P: ScheduleItem> LaneGuard<E, P> {
    /// Whose turn it is.
    pub(crate) fn key(&self) -> &LaneKey {
        &self.turn().key
    }

    /// When it was taken.
    pub(crate) const fn since(&self) -> Moment {
        self.since
    }

    /// The work of this turn.
    pub(crate) fn work(&self) -> &Work<E, P> {
        &self.turn().work
    }

    /// The lane that is held; the work, to note how far it came; and the calls that are to
    /// be made later, to note another.
    pub(crate) fn parts(&mut self) -> (&LaneKey, &mut Work<E, P>, &mut Vec<Pending<P>>) {
        let turn = self.turn.as_mut();
        let turn = turn.expect("a turn is there until it is given back");
        (&turn.key, &mut turn.work, &mut self.later)
    }

    /// Adds a call that is to be made later.
    pub(crate) fn add_pending(&mut self, pending: Pending<P>) {
        self.later.push(pending);
    }

    /// Takes the calls about the object of the event that became pending since the event was
    /// taken, to those that were pending before.
    pub(crate) fn take_new_pendings(&mut self) {
        let since = self.since;
        if let Some(turn) = &mut self.turn
            && let Work::Event { offer, pendings } = &mut turn.work
        {
            self.engine.change(|schedule| {
                schedule.take_pendings(turn.lane, &offer.event, since, pendings);
            });
        }
    }

    /// Gives the object back: everything has been done, but for what is later.
    pub(crate) fn finish(mut self) {
        if let Some(turn) = self.turn.take() {
            let later = std::mem::take(&mut self.later);
            self.engine
                .change(|schedule| schedule.finish(turn.lane, later));
        }
    }

    /// Gives the object back, as [`finish`](Self::finish) does, and takes the next work,
    /// next, if there is something: under one lock. Without anything to do nothing is held.
    pub(crate) fn next(&mut self, now: Moment) -> bool {
        let Self {
            engine,
            since,
            turn,
            later,
        } = self;
        // What was done is dropped where no lock is held.
        let Some(mut done) = turn.take() else {
            return false;
        };
        let room = match &mut done.work {
            Work::Event { pendings, .. } => std::mem::take(pendings),
            Work::Retry(_) => Vec::new(),
        };
        *since = now;
        engine.change(|schedule| {
            schedule.finish(done.lane, later.drain(..));
            schedule.reuse(room);
            *turn = schedule.take(now);
        });
        turn.is_some()
    }

    fn turn(&self) -> &TakenLane<E, P> {
        let turn = self.turn.as_ref();
        turn.expect("a turn is there until it is given back")
    }
}

impl<E: ScheduleItem, P: ScheduleItem> Drop for LaneGuard<E, P> {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            let later = std::mem::take(&mut self.later);
            self.engine
                .change(|schedule| schedule.give_back(turn, later));
        }
    }
}
