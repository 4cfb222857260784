//! The engine: the schedule behind a lock, and the timers.
//!
//! No user code runs under the lock. Workers wait for a notification that a lane is ready. One task
//! waits for the next due time. There is no periodic tick.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

// From this module, not from the crate: the model test replaces them.
use super::{clock::Clock, sync::Mutex};
use crate::{
    HandlerId,
    retry::DeleteRetry,
    route::KindId,
    schedule::{
        Coalesced, LaneKey, Moment, Offer, Pending, Schedule, ScheduleItem, TakenLane, Work,
    },
};

/// The schedule, shared by all workers.
#[derive(Debug)]
pub(crate) struct Engine<E, P> {
    schedule: Mutex<Schedule<E, P>>,

    /// Notified when a lane may be ready. It stores one notification at most, so a worker that
    /// takes a lane notifies the next one if more lanes are ready.
    ready: Notify,

    /// Notified when the next due time may be earlier than before, for the task that waits for it.
    sooner: Notify,

    /// Whether pending deletes were dropped and not taken yet.
    evicted: AtomicBool,

    pub(super) clock: Clock,
}

/// A lane that one worker has taken. No other worker can take it.
///
/// Dropping it returns the unfinished work to the schedule.
#[derive(Debug)]
#[must_use = "dropping this returns the work to the schedule"]
pub(crate) struct LaneGuard<E: ScheduleItem, P: ScheduleItem> {
    engine: Arc<Engine<E, P>>,
    /// The time at which it was taken.
    since: Moment,
    /// `None` after it was returned.
    taken: Option<TakenLane<E, P>>,
    /// The calls to add as pending when it is returned.
    new_pendings: Vec<Pending<P>>,
}

// === impl Engine ===

impl<E: ScheduleItem, P: ScheduleItem> Engine<E, P> {
    /// Queues events in order, under one lock. Returns the positions of the events that were
    /// coalesced into earlier ones.
    pub(crate) fn offer(
        &self,
        offers: impl IntoIterator<Item = (LaneKey, Offer<E>)>,
        coalesce: impl FnMut(&mut E, E) -> Coalesced<E>,
    ) -> Vec<usize> {
        self.change(|schedule| schedule.offer(offers, coalesce))
    }

    /// Adds a pending call outside of a turn: the lane may be taken or not. Returns the calls that it
    /// replaced.
    pub(crate) fn add_pending(&self, key: LaneKey, pending: Pending<P>) -> Vec<Pending<P>> {
        self.change(|schedule| {
            schedule.add_pending(key, pending);
            schedule.take_discarded()
        })
    }

    /// Waits for a ready lane, and takes it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready takes nothing, and notifies another worker if this
    /// one was notified.
    pub(crate) async fn take(self: &Arc<Self>) -> LaneGuard<E, P> {
        loop {
            if let Some(guard) = self.try_take() {
                return guard;
            }
            self.ready.notified().await;
        }
    }

    /// Takes a ready lane, if there is one.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<LaneGuard<E, P>> {
        let since = self.now();
        let taken = self.change(|schedule| schedule.take(since))?;
        Some(LaneGuard {
            engine: Arc::clone(self),
            since,
            taken: Some(taken),
            new_pendings: Vec::new(),
        })
    }

    /// Wakes workers when pending calls are due. Does not return.
    pub(crate) async fn keep_time(&self) {
        loop {
            let next = self.schedule.lock().next_due();
            let Some(due) = next else {
                self.sooner.notified().await;
                continue;
            };
            if due <= self.now() {
                self.change(|schedule| schedule.advance(self.now()));
                continue;
            }
            tokio::select! {
                biased;
                () = self.clock.until(due) => {}
                () = self.sooner.notified() => {}
            }
        }
    }

    /// Allows `handler` to have pending calls. Calls of unknown handlers are dropped.
    pub(crate) fn admit(&self, handler: HandlerId) {
        self.schedule.lock().admit(handler);
    }

    /// Cancels the pending calls of `handler`. Returns their number.
    pub(crate) fn cancel(&self, handler: HandlerId) -> usize {
        self.change(|schedule| schedule.cancel(handler))
    }

    /// Cancels all pending calls, except deletes that were deferred, and allows no further ones.
    pub(crate) fn cancel_all(&self) {
        self.change(Schedule::cancel_all);
    }

    /// Opens or closes the gate of `kind`, or of all kinds.
    pub(crate) fn set_gate(&self, kind: Option<KindId>, open: bool) {
        self.change(|schedule| schedule.set_gate(kind, open));
    }

    /// Removes the events and pending calls of `kind`, which has no handlers. Drop the result without
    /// a lock.
    #[must_use]
    pub(crate) fn purge(&self, kind: KindId) -> Vec<Offer<E>> {
        self.change(|schedule| schedule.purge(kind))
    }

    /// Sets what ends the retries of a failed delete.
    pub(crate) fn set_delete_retry(&self, delete_retry: DeleteRetry) {
        self.schedule.lock().set_delete_retry(delete_retry);
    }

    /// Takes the pending deletes that were dropped because their kind had too many.
    pub(crate) fn take_evicted(&self) -> Vec<(LaneKey, Pending<P>)> {
        self.evicted.store(false, Ordering::Relaxed);
        self.schedule.lock().take_evicted()
    }

    /// Whether there may be dropped deletes. Called after each turn, so it takes no lock.
    pub(crate) fn has_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Waits until `due`; for `None` forever.
    pub(crate) async fn until(&self, due: Option<Moment>) {
        match due {
            Some(due) => self.clock.until(due).await,
            // No timer, which would let a paused clock advance.
            None => std::future::pending().await,
        }
    }

    /// The number of ready lanes.
    pub(crate) fn depth(&self) -> usize {
        self.schedule.lock().ready()
    }

    /// The number of pending calls.
    pub(crate) fn pending(&self) -> usize {
        self.schedule.lock().pending()
    }

    /// The current time.
    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Changes the schedule under its lock. Notifies the timer task if the next due time is
    /// earlier, and a worker if a lane is ready.
    fn change<T>(&self, change: impl FnOnce(&mut Schedule<E, P>) -> T) -> T {
        let mut schedule = self.schedule.lock();
        let before = schedule.next_due().unwrap_or(Moment::NEVER);
        let changed = change(&mut schedule);
        let after = schedule.next_due().unwrap_or(Moment::NEVER);
        let (sooner, ready) = (after < before, schedule.has_ready());
        if schedule.has_evicted() {
            self.evicted.store(true, Ordering::Relaxed);
        }
        // Dropped without the lock: this may drop the last reference to an object.
        let _removed = (schedule.take_dropped(), schedule.take_discarded());
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
    /// The key of the lane.
    pub(crate) fn key(&self) -> &LaneKey {
        &self.taken().key
    }

    /// The time at which it was taken.
    pub(crate) const fn since(&self) -> Moment {
        self.since
    }

    /// The work of this turn.
    pub(crate) fn work(&self) -> &Work<E, P> {
        &self.taken().work
    }

    /// The key of the lane, its work, and the calls to add as pending.
    pub(crate) fn parts(&mut self) -> (&LaneKey, &mut Work<E, P>, &mut Vec<Pending<P>>) {
        let taken = self.taken.as_mut();
        let taken = taken.expect("a lane is taken until it is returned");
        (&taken.key, &mut taken.work, &mut self.new_pendings)
    }

    /// Adds a pending call.
    pub(crate) fn add_pending(&mut self, pending: Pending<P>) {
        self.new_pendings.push(pending);
    }

    /// Takes the calls of the event's object that became pending after the event was taken, and
    /// adds them to those that were pending before.
    pub(crate) fn take_concurrent_pendings(&mut self) {
        let since = self.since;
        if let Some(taken) = &mut self.taken
            && let Work::Event { offer, pendings } = &mut taken.work
        {
            let take = |schedule: &mut Schedule<E, P>| {
                schedule.take_pendings(taken.lane, &offer.event, since)
            };
            pendings.extend(self.engine.change(take));
        }
    }

    /// Returns the lane after all its work is done. Its pending calls are added to the schedule.
    pub(crate) fn finish(mut self) {
        if let Some(taken) = self.taken.take() {
            let new_pendings = std::mem::take(&mut self.new_pendings);
            self.engine
                .change(|schedule| schedule.finish(taken.lane, new_pendings));
        }
    }

    /// Returns the lane like [`finish`](Self::finish), and takes the next ready lane, under one
    /// lock. Returns false if there is none.
    pub(crate) fn next(&mut self, now: Moment) -> bool {
        let Self {
            engine,
            since,
            taken,
            new_pendings,
        } = self;
        // The finished work is dropped without the lock.
        let Some(done) = taken.take() else {
            return false;
        };
        *since = now;
        engine.change(|schedule| {
            schedule.finish(done.lane, new_pendings.drain(..));
            *taken = schedule.take(now);
        });
        taken.is_some()
    }

    fn taken(&self) -> &TakenLane<E, P> {
        let taken = self.taken.as_ref();
        taken.expect("a lane is taken until it is returned")
    }
}

impl<E: ScheduleItem, P: ScheduleItem> Drop for LaneGuard<E, P> {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            let new_pendings = std::mem::take(&mut self.new_pendings);
            self.engine
                .change(|schedule| schedule.return_unfinished(taken, new_pendings));
        }
    }
}
