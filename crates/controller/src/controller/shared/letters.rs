//! Adds dead letters, removes obsolete ones, and repeats their calls.

use std::sync::{Arc, atomic::Ordering};

use windlass_informer::log;

use super::Shared;
use crate::{
    Action, DeleteRetry, HandlerError, HandlerId,
    controller::{
        dead_letters::{DeadLetter, DeadLetterEntry},
        queued::{QueuedEvent, RepeatableCall},
    },
    schedule::{LaneKey, Pending, Reason, ScheduleItem},
};

// === impl Shared ===

impl Shared {
    /// Adds a dead letter, unless its handler was removed. Returns it.
    pub(in crate::controller) fn add_dead_letter(&self, call: DeadLetterEntry) -> DeadLetter {
        // Locked until the letter is added: a removal of the handler finds it.
        let route = self.route.read();
        if (route.handler(call.lane.kind, call.letter.handler)).is_none() {
            drop(route);
            return call.letter;
        }
        self.has_dead_letters.store(true, Ordering::Release);
        let (letter, dropped) = self.dead_letters.lock().put(call);
        drop(route);
        // Without the locks: user code runs when a state is dropped.
        drop(dropped);
        letter
    }

    /// Adds dead letters again that were forgotten for an event, because their handler was not called
    /// for it. Not those of a handler that was removed meanwhile.
    pub(in crate::controller) fn put_back_dead_letters(&self, calls: Vec<DeadLetterEntry>) {
        for call in calls {
            // Locked until it is added: a removal of the handler finds it.
            let route = self.route.read();
            let handler = route.handler(call.lane.kind, call.letter.handler);
            let dropped = match handler {
                Some(_) => self.dead_letters.lock().put_back(call),
                None => Some(call),
            };
            drop(route);
            // Without the locks: user code runs when a state is dropped.
            drop(dropped);
        }
    }

    /// Makes dead letters of pending deletes that the engine dropped because their kind had too
    /// many.
    pub(in crate::controller) fn add_evicted_dead_letters(&self) {
        for (lane, pending) in self.engine.take_evicted() {
            let route = self.route.read();
            let handler = route.handler(lane.kind, pending.handler);
            let Some((handler, metrics)) = handler.zip(route.metrics(lane.kind)) else {
                continue;
            };
            drop(route);
            let failed = pending.call.failed.as_ref();
            let error = failed.map(|failed| Arc::clone(&failed.error));
            let error = error.unwrap_or_else(|| Arc::new(HandlerError::TooManyDeletes));
            log::error!(
                component = "InformerController",
                kind = &*metrics.kind,
                object = %lane.object,
                "too many deletes are pending, moved the oldest to the dead letters"
            );
            metrics.retries_exhausted();
            let Pending { action, call, .. } = pending;
            let entry = DeadLetterEntry::new(lane, &metrics.kind, &handler, action, error, call);
            self.add_dead_letter(entry);
        }
    }

    /// Removes the dead letters that `event` makes obsolete: those of its object whose handlers are
    /// `called` for it, and after a delete all except failed deletes. Returns them, or `None` if the
    /// controller had no dead letter at all. One of them may have become a pending call since the event
    /// was taken.
    pub(in crate::controller) fn forget_dead_letters(
        &self,
        key: &LaneKey,
        event: &QueuedEvent,
        called: impl Fn(HandlerId) -> bool,
    ) -> Option<Vec<DeadLetterEntry>> {
        // A dead letter of this object was added in an earlier turn.
        if !self.has_dead_letters.load(Ordering::Acquire) {
            return None;
        }
        let action = event.action();
        let ends_deletes = self.settings.delete_retry == DeleteRetry::UntilSuccessor
            && action == Some(Action::Created);
        let forgotten = self.dead_letters.lock().clear(key, |it| {
            let is_delete = it.action == Action::Deleted;
            if !it.call.is_same_object(event) {
                return is_delete && ends_deletes;
            }
            called(it.letter.handler) || (action == Some(Action::Deleted) && !is_delete)
        });
        Some(forgotten)
    }

    /// Repeats the call of a dead letter as a first attempt. Returns false if there is no such dead
    /// letter, or if nothing would be called.
    pub(in crate::controller) fn redrive(&self, number: u64) -> bool {
        // Without the lock, because the stores of the informers are read.
        if self.has_ended() || self.is_orphaned_letter(number) {
            return false;
        }
        // Locked until the call is pending, so that each event of the object finds it as a dead
        // letter or as a pending call.
        let mut letters = self.dead_letters.lock();
        let Some(call) = letters.take(number) else {
            return false;
        };
        let pending = Pending {
            handler: call.letter.handler,
            action: call.action,
            reason: Reason::Failed,
            due: self.engine.now(),
            overtaken: false,
            call: RepeatableCall {
                attempt: 0,
                ..call.call
            },
        };
        let replaced = self.engine.add_pending(call.lane, pending);
        drop(letters);
        // Without the lock: this may drop the last reference to an object.
        drop(replaced);
        true
    }

    /// Whether the call of a dead letter would be dropped, because no informer has its object.
    fn is_orphaned_letter(&self, number: u64) -> bool {
        let letters = self.dead_letters.lock();
        let Some(entry) = letters.get(number) else {
            return false;
        };
        let (lane, event) = (entry.lane.clone(), entry.call.event.clone());
        let is_delete = entry.action == Action::Deleted;
        drop(letters);
        !is_delete && self.is_orphaned(&lane, &event)
    }
}
