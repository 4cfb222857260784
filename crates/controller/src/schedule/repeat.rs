//! The pending calls of a schedule: added, taken when they are due, cancelled. *(pure)*

use super::{LaneId, LaneKey, Moment, Pending, Schedule, ScheduleItem};
use crate::{Action, HandlerId, retry::DeleteRetry};

// === impl Schedule ===

impl<E: ScheduleItem, P: ScheduleItem> Schedule<E, P> {
    /// Moves the pending calls of lane `id` for the object of `event` into `pendings`.
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
    pub(super) fn take_pending(
        &mut self,
        id: LaneId,
        wanted: impl Fn(&Pending<P>) -> bool,
    ) -> Option<Pending<P>> {
        let pending = self.lanes[id].take_pending(&mut self.later, wanted)?;
        self.note_taken(id, &pending);
        Some(pending)
    }

    /// Takes the next due call of lane `id`: of the overtaken ones, or of all.
    pub(super) fn take_due(&mut self, id: LaneId, only_overtaken: bool) -> Option<Pending<P>> {
        let pending = self.lanes[id].take_due(&mut self.later, only_overtaken)?;
        self.note_taken(id, &pending);
        Some(pending)
    }

    /// Counts `pending` of lane `id` as taken.
    pub(super) fn note_taken(&mut self, id: LaneId, pending: &Pending<P>) {
        self.pending -= 1;
        if pending.action == Action::Deleted {
            let kind = self.lanes.kind(id);
            self.deletes.remove(kind, id, pending.handler);
        }
    }

    /// Adds a pending call outside of a turn.
    pub(crate) fn add_pending(&mut self, key: LaneKey, pending: Pending<P>) {
        let located = self.lanes.locate(key);
        let lane = self.lanes.enter(located);
        self.insert_pending(lane, pending);
        self.update_phase(lane);
    }

    /// Cancels all pending calls of `handler`, now and of active turns. Reads all lanes. Returns
    /// the number of cancelled calls.
    pub(crate) fn cancel(&mut self, handler: HandlerId) -> usize {
        self.handlers.retain(|it| *it != handler);
        let mut cancelled = 0;
        for id in self.lanes.ids_where(|lane, _| !lane.pendings().is_empty()) {
            let before = self.discarded.len();
            let kind = self.lanes.kind(id);
            (self.lanes[id]).cancel(handler, &mut self.later, &mut self.discarded);
            self.deletes.remove_all(kind, id, handler);
            cancelled += self.discarded.len() - before;
            self.update_phase(id);
        }
        self.pending -= cancelled;
        cancelled
    }

    /// Cancels all pending calls, and allows no further ones.
    pub(crate) fn cancel_all(&mut self) {
        while let Some(handler) = self.handlers.last() {
            self.cancel(*handler);
        }
    }

    /// Adds `pending` to its lane, unless its handler was removed.
    pub(super) fn insert_pending(&mut self, lane: LaneId, pending: Pending<P>) {
        if self.handlers.binary_search(&pending.handler).is_err() {
            self.discarded.push(pending);
            return;
        }
        let delete = (pending.action == Action::Deleted).then_some(pending.handler);
        if let Some(replaced) = self.lanes[lane].set(pending, &mut self.later, lane) {
            self.note_taken(lane, &replaced);
            self.discarded.push(replaced);
        }
        self.pending += 1;
        if let Some(handler) = delete {
            let kind = self.lanes.kind(lane);
            let oldest = self.deletes.insert(kind, lane, handler);
            if let Some((lane, handler)) = oldest {
                self.evict(lane, handler);
            }
        }
    }

    /// Drops the pending delete of `handler` in lane `id`, the oldest of its kind.
    fn evict(&mut self, id: LaneId, handler: HandlerId) {
        let wanted =
            |pending: &Pending<P>| pending.handler == handler && pending.action == Action::Deleted;
        if let Some(pending) = self.lanes[id].take_pending(&mut self.later, wanted) {
            self.pending -= 1;
            self.evicted.push((self.lanes.key(id), pending));
            self.update_phase(id);
        }
    }

    /// Takes the deletes that were dropped because their kind had too many.
    pub(crate) fn take_evicted(&mut self) -> Vec<(LaneKey, Pending<P>)> {
        std::mem::take(&mut self.evicted)
    }

    /// Sets what ends the retries of a failed delete.
    pub(crate) fn set_delete_retry(&mut self, delete_retry: DeleteRetry) {
        self.delete_retry = delete_retry;
    }
}
