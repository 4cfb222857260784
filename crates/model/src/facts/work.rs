//! The calls of one handler for one object.

use std::{sync::Arc, time::Duration};

use super::{Absence, Moment, ObservedObject};
use crate::{Action, Began, Dequeue, Outcome, Settings, Snapshot, Version};

/// The calls of one handler for one object in one process.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The object of the last call.
    pub(crate) last: Option<Arc<Snapshot>>,
    /// The entry of its last call.
    pub(crate) began: usize,
    /// Whether a call was in backoff since the last event. A retry can then replace events.
    pub(crate) backed_off: bool,
    /// Whether the last call was a retry, so that calls for earlier events may still follow.
    pub(crate) was_retry: bool,
    /// The newest version that it received as an event.
    pub(crate) event: Option<Version>,
    /// The entry of its first call for the object, or of the first call after a delete.
    pub(crate) since: Option<usize>,
    /// The absence for which `Deleted` was last called.
    pub(crate) closed: Option<Absence>,
    /// Whether the last `Deleted` has succeeded.
    pub(crate) deleted: bool,
    /// The newest version for which a call succeeded, since `since`.
    pub(crate) succeeded: Option<Version>,
    /// The newest version for which the retries are exhausted.
    pub(crate) exhausted: Option<Version>,
    /// Whether a wrapper passed on the last object before the informers had it.
    pub(crate) ahead: bool,
    /// Whether a wrapper calls the handler.
    pub(crate) wrapped: bool,
    /// Whether a predicate filters its events.
    pub(crate) filtered: bool,
    /// The number of calls with `Created` that were not retries.
    pub(crate) creations: usize,
    /// The pending calls.
    pub(crate) pending: Vec<Pending>,
    /// The number of failed calls since the count began, and the object at its begin.
    pub(crate) failures: u32,
    pub(crate) counted: Option<Arc<Snapshot>>,
    /// The number of failed calls with `Deleted`.
    pub(crate) deletes: u32,
    /// The state that the last call returned.
    pub(crate) state: Option<u64>,
}

/// A pending call: a retry or a requeue.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) action: Action,
    pub(crate) failed: bool,
    pub(crate) object: Arc<Snapshot>,
    /// Whether a wrapper passed on the object before the informers had it.
    pub(crate) ahead: bool,
    pub(crate) old: Option<Arc<Snapshot>>,
    pub(crate) state: Option<u64>,
    /// The earliest time of the call.
    pub(crate) due: Duration,
    /// The latest time of the call.
    pub(crate) latest: Duration,
    /// Whether a policy may have removed it.
    pub(crate) uncertain: bool,
}

/// The possible causes of a call.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The informers published an event for which the handler was not called yet.
    pub(crate) event: bool,
    /// A pending call is due.
    pub(crate) due: bool,
    /// A pending call is not due, but an urgent event ended its backoff.
    pub(crate) urgent: bool,
    /// The object was resynced.
    pub(crate) resync: bool,
}

// === impl Work ===

impl Work {
    /// The possible causes of the call `began`.
    pub(crate) fn cause(
        &self,
        began: &Began,
        observed: Option<&ObservedObject>,
        now: Duration,
    ) -> Cause {
        let Began { action, object, .. } = began;
        let event = match action {
            Action::Created => {
                let again = observed.is_some_and(|it| it.times_forgotten() >= self.creations);
                self.since.is_none() || again
            }
            Action::Updated => self.event.is_none_or(|event| object.version > event),
            Action::Deleted => {
                let closed = self.closed.map(|it| it.from.at);
                (self.since.is_some() || self.closed.is_none())
                    && observed.is_none_or(|it| it.absence_after(closed).is_some())
            }
            Action::Resynced => false,
        };
        let fits = |pending: &&Pending| match (pending.action, action) {
            (Action::Deleted, action) => *action == Action::Deleted,
            (_, Action::Deleted) => false,
            // A newer event may have replaced it.
            _ => true,
        };
        let pending = || self.pending.iter().filter(fits);
        Cause {
            event,
            due: pending().any(|it| it.due <= now),
            urgent: pending()
                .any(|it| it.failed && (object.is_urgent_after(&it.object) || it.ahead)),
            resync: *action == Action::Resynced && observed.is_some_and(|it| it.resynced.is_some()),
        }
    }

    /// Whether `began` is the first `Deleted` after calls of other actions. It has attempt 0 and no
    /// state. A wrapper may have begun the clean-up earlier.
    pub(crate) fn is_first_delete(&self, began: &Began) -> bool {
        began.action == Action::Deleted && self.since.is_some() && !self.wrapped
    }

    /// Resets the state after its wrapper has released the object: its next life is new.
    pub(super) fn end_life(&mut self) {
        self.pending.clear();
        self.since = None;
        self.succeeded = None;
        self.exhausted = None;
        self.failures = 0;
        self.counted = None;
        self.deletes = 0;
        self.state = None;
    }

    /// Resets the state after the last informer of the object was removed: the object is then new.
    pub(super) fn forget(&mut self) {
        let pending = std::mem::take(&mut self.pending).into_iter();
        *self = Self {
            pending: (pending.map(|it| Pending {
                uncertain: true,
                ..it
            }))
            .collect(),
            creations: self.creations,
            wrapped: self.wrapped,
            filtered: self.filtered,
            ahead: self.ahead,
            failures: self.failures,
            deletes: self.deletes,
            counted: self.counted.take(),
            state: self.state,
            ..Self::default()
        };
    }

    pub(super) fn begin(
        &mut self,
        began: &Began,
        observed: Option<&ObservedObject>,
        settings: &Settings,
        now: Moment,
    ) {
        self.began = now.at;
        let cause = self.cause(began, observed, now.time);
        let shown = observed.is_none_or(|it| it.versions.contains_key(&began.object.version));
        self.ahead = self.wrapped && !shown;
        let Began { action, object, .. } = began;
        if *action == Action::Deleted {
            if self.is_first_delete(began) {
                self.failures = 0;
                self.counted = None;
                self.state = None;
            }
            if self.since.take().is_some() || self.closed.is_none() {
                let closed = self.closed.map(|it| it.from.at);
                let closed = observed.and_then(|it| it.absence_after(closed));
                self.closed = closed.or(Some(Absence {
                    from: now,
                    apparent: false,
                }));
            }
            self.deleted = false;
            self.pending
                .retain(|it| it.action == Action::Deleted && !cause.due && !self.wrapped);
        } else {
            if *action == Action::Created {
                self.creations += usize::from(cause.event);
                if self.wrapped {
                    // What succeeded for an earlier object of this name does not count.
                    self.succeeded = None;
                }
            }
            if *action == Action::Created || (cause.event && !self.wrapped) {
                // The object exists again, so the delete is cancelled. A handler whose predicate
                // rejected this event receives a later one.
                let ended = self
                    .pending
                    .extract_if(.., |it| it.action == Action::Deleted);
                if ended.count() > 0 && !self.pending.iter().any(|it| it.failed) {
                    // Failures of the delete do not count for the object that exists again.
                    self.failures = 0;
                    self.counted = None;
                }
            }
            if self.since.is_none() {
                self.since = Some(now.at);
                self.succeeded = None;
                self.event = None;
            }
            if cause.event {
                self.dequeue(began, settings);
                // Pending calls that are kept receive the newest object.
                let kept = self
                    .pending
                    .iter_mut()
                    .filter(|_| !settings.retry_as_received);
                kept.for_each(|it| it.object = Arc::clone(object));
            }
            // A new version can also be that of a rejected event, which the pending call has received.
            if !cause.event || (self.filtered && cause.due) {
                self.take_due(began, settings, now.time);
            }
        }
        if cause.event {
            self.event = Some(object.version);
            self.backed_off = false;
        }
        self.backed_off |= self.pending.iter().any(|it| it.failed);
        self.was_retry = !cause.event;
        if self
            .last
            .as_ref()
            .is_none_or(|last| object.version >= last.version)
        {
            self.last = Some(Arc::clone(object));
        }
    }

    /// Removes the pending calls that the policy removes at a new event.
    fn dequeue(&mut self, began: &Began, settings: &Settings) {
        let (action, object, wrapped) = (began.action, &began.object, self.wrapped);
        self.pending.retain_mut(|it| {
            let is_newer = it.action == action && it.object.generation != object.generation;
            it.action == Action::Deleted
                || match settings.dequeue {
                    Dequeue::Always => false,
                    Dequeue::Never => {
                        // An urgent event may have replaced it.
                        it.uncertain |= it.failed;
                        true
                    }
                    Dequeue::Opinionated => {
                        // The policy sees the action of the event, and not that of the inner call.
                        let is_old = it.object.generation != object.generation;
                        it.uncertain |= it.failed || (wrapped && is_old);
                        !is_newer || wrapped
                    }
                    Dequeue::Other => {
                        it.uncertain = true;
                        true
                    }
                }
        });
    }

    /// Removes the pending call that began.
    fn take_due(&mut self, began: &Began, settings: &Settings, now: Duration) {
        let fits = |it: &Pending| it.action != Action::Deleted;
        let exact = |it: &Pending| fits(it) && it.action == began.action && it.due <= now;
        let at = (self.pending.iter().position(exact))
            .or_else(|| (self.pending.iter()).position(|it| fits(it) && it.due <= now));
        if let Some(at) = at {
            self.pending.remove(at);
        } else if let Some(at) = self.pending.iter().position(fits) {
            if self.wrapped && settings.dequeue != Dequeue::Always {
                // The call is for an event with another action, and the policy may keep this one.
                self.pending[at].uncertain = true;
            } else {
                self.pending.remove(at);
            }
        }
    }

    pub(super) fn end(
        &mut self,
        began: &Began,
        outcome: &Outcome,
        settings: &Settings,
        now: Duration,
        taken: Duration,
    ) {
        let done = |work: &mut Self| {
            if began.action == Action::Deleted {
                work.deleted = true;
            } else {
                work.succeeded = work.succeeded.max(Some(began.object.version));
            }
            if !work.pending.iter().any(|it| it.failed) {
                work.failures = 0;
                work.counted = None;
            }
        };
        match outcome {
            Outcome::Done => {
                done(self);
                self.state = None;
            }
            Outcome::Requeue { after, state } => {
                done(self);
                if began.action == Action::Deleted {
                    self.deleted = false;
                }
                self.state = *state;
                self.push(began, false, (now + *after, now + *after));
            }
            Outcome::Failed { retry_after, state } => {
                self.fail(began, (*retry_after, *state), settings, now);
            }
            Outcome::Panicked => self.fail(began, (None, None), settings, now),
            Outcome::Dropped => {
                if settings.timeout.is_some_and(|limit| taken >= limit) {
                    self.fail(began, (None, None), settings, now);
                }
            }
        }
    }

    fn fail(
        &mut self,
        began: &Began,
        (retry_after, state): (Option<Duration>, Option<u64>),
        settings: &Settings,
        now: Duration,
    ) {
        // The call is repeated with its own state, unless it returned another one.
        self.state = state.or(began.request.and_then(|it| it.state));
        let counted = self
            .counted
            .get_or_insert_with(|| Arc::clone(&began.object));
        // For kinds without generations, the engine may detect fewer equal states than the rules.
        let anew = began.request.is_some_and(|it| it.attempt == 0);
        if anew || began.object.is_urgent_after(counted) {
            *counted = Arc::clone(&began.object);
            self.failures = 0;
        }
        // A watcher does not receive its attempt, and the count of a delete may restart.
        let attempt = match (began.request, began.action) {
            (Some(request), _) => request.attempt,
            (None, Action::Deleted) => self.deletes,
            (None, _) => self.failures,
        };
        let Some((shortest, longest)) = settings.retry.delays(attempt) else {
            self.failures = 0;
            self.counted = None;
            self.exhausted = self.exhausted.max(Some(began.object.version));
            return;
        };
        self.failures += 1;
        self.deletes += u32::from(began.action == Action::Deleted);
        let shortest = now + retry_after.unwrap_or(shortest);
        let longest = now + retry_after.unwrap_or(longest);
        self.push(began, true, (shortest, longest));
    }

    fn push(&mut self, began: &Began, failed: bool, (due, latest): (Duration, Duration)) {
        self.backed_off |= failed;
        let (mut due, mut latest) = (due, latest);
        let same = |it: &Pending| it.failed == failed && (!failed || it.action == began.action);
        // An object has one pending requeue, and one pending retry for each action.
        for known in self.pending.iter().filter(|it| same(it)) {
            due = due.min(known.due);
            latest = if failed {
                latest.max(known.latest)
            } else {
                latest.min(known.latest)
            };
        }
        self.pending.retain(|it| !same(it));
        self.pending.push(Pending {
            action: began.action,
            failed,
            object: Arc::clone(&began.object),
            ahead: self.ahead,
            old: began.old.clone(),
            state: self.state,
            due,
            latest,
            uncertain: false,
        });
    }
}
