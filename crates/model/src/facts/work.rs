//! The calls of one handler for one object.

use std::{sync::Arc, time::Duration};

use super::{Absence, Moment, Sighted};
use crate::{Action, Began, Dequeue, Outcome, Settings, Snapshot, Version};

/// What one handler was called for, for one object, in one process.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and no two exclude each other"
)]
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The object of the last call.
    pub(crate) last: Option<Arc<Snapshot>>,
    /// Whether a call was in backoff since the last event: then that takes events over.
    pub(crate) backed_off: bool,
    /// Whether the last call was a retry, so that events that came before it may still come.
    pub(crate) was_retry: bool,
    /// The newest version that it was given as an event.
    pub(crate) event: Option<Version>,
    /// Since which entry it works on the object: its first call after nothing or a delete.
    pub(crate) since: Option<usize>,
    /// The absence that the last `Deleted` was for.
    pub(crate) closed: Option<Absence>,
    /// Whether the last `Deleted` has succeeded.
    pub(crate) deleted: bool,
    /// The newest version for which a call succeeded, since `since`.
    pub(crate) succeeded: Option<Version>,
    /// The newest version for which the policy gave up.
    pub(crate) exhausted: Option<Version>,
    /// Whether a wrapper gave the last object before the informers showed it.
    pub(crate) ahead: bool,
    /// The newest epoch of which it was given a state that the informers had shown.
    epoch: u64,
    /// Whether a wrapper calls the handler.
    pub(crate) wrapped: bool,
    /// How often it was called with `Created` for another reason than a retry.
    pub(crate) creations: usize,
    /// The calls that are to be made again.
    pub(crate) pending: Vec<Pending>,
    /// How many calls failed since the count began, and the object as it was then.
    pub(crate) failures: u32,
    pub(crate) counted: Option<Arc<Snapshot>>,
    /// How many calls with `Deleted` failed.
    pub(crate) deletes: u32,
    /// The state that the last call left.
    pub(crate) state: Option<u64>,
}

/// A call that is to be made again.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) action: Action,
    pub(crate) failed: bool,
    pub(crate) object: Arc<Snapshot>,
    /// Whether a wrapper gave it before the informers showed it.
    pub(crate) ahead: bool,
    pub(crate) old: Option<Arc<Snapshot>>,
    pub(crate) state: Option<u64>,
    /// Not before this time.
    pub(crate) due: Duration,
    /// Not after this time.
    pub(crate) latest: Duration,
    /// Whether it may have been removed by a policy.
    pub(crate) uncertain: bool,
}

/// Why a call can have been made.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and no two exclude each other"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The informers showed something that the handler was not called for.
    pub(crate) event: bool,
    /// A call was to be made again, and it is time.
    pub(crate) due: bool,
    /// A call was to be made again later, and something urgent has happened.
    pub(crate) urgent: bool,
    /// The object was shown again.
    pub(crate) resync: bool,
}

// === impl Work ===

impl Work {
    /// Why `began` can have been called now.
    pub(crate) fn cause(&self, began: &Began, sighted: Option<&Sighted>, now: Duration) -> Cause {
        let Began { action, object, .. } = began;
        let event = match action {
            Action::Created => {
                let again = sighted.is_some_and(|it| it.times_forgotten() >= self.creations);
                self.since.is_none() || again || (self.wrapped && self.is_restored(object))
            }
            Action::Updated => self.event.is_none_or(|event| object.version > event),
            Action::Deleted => {
                let closed = self.closed.map(|it| it.from.at);
                (self.since.is_some() || self.closed.is_none())
                    && sighted.is_none_or(|it| it.absence_after(closed).is_some())
            }
            Action::Resynced => false,
        };
        let fits = |pending: &&Pending| match (pending.action, action) {
            (Action::Deleted, action) => *action == Action::Deleted,
            (_, Action::Deleted) => false,
            // A newer event may have taken its place.
            _ => true,
        };
        let pending = || self.pending.iter().filter(fits);
        Cause {
            event,
            due: pending().any(|it| it.due <= now),
            urgent: pending()
                .any(|it| it.failed && (object.is_urgent_after(&it.object) || it.ahead)),
            resync: *action == Action::Resynced && sighted.is_some_and(|it| it.resynced.is_some()),
        }
    }

    /// Whether `began` is the first `Deleted` after calls of other actions: it begins with no
    /// attempts and no state. A wrapper may have begun the clean-up before.
    pub(crate) fn is_first_delete(&self, began: &Began) -> bool {
        began.action == Action::Deleted && self.since.is_some() && !self.wrapped
    }

    /// Whether the server was restored, and `object` is of a newer epoch than what the handler was
    /// given: what a wrapper remembers of the older one is dropped.
    pub(crate) fn is_restored(&self, object: &Snapshot) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|it| it.version.epoch < object.version.epoch) || self.is_unaware()
    }

    /// Whether its wrapper passed on what the restored server answered before it could know that
    /// the server was restored.
    pub(crate) fn is_unaware(&self) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|it| it.version.epoch > self.epoch)
    }

    /// The object was forgotten with its last informer: it is new when it is shown again.
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
            epoch: self.epoch,
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
        sighted: Option<&Sighted>,
        settings: &Settings,
        now: Moment,
    ) {
        let cause = self.cause(began, sighted, now.time);
        let shown = sighted.is_none_or(|it| it.versions.contains_key(&began.object.version));
        self.ahead = self.wrapped && !shown;
        if shown {
            self.epoch = self.epoch.max(began.object.version.epoch);
        }
        let Began { action, object, .. } = began;
        if *action == Action::Deleted {
            if self.is_first_delete(began) {
                self.failures = 0;
                self.counted = None;
                self.state = None;
            }
            if self.since.take().is_some() || self.closed.is_none() {
                let closed = self.closed.map(|it| it.from.at);
                let closed = sighted.and_then(|it| it.absence_after(closed));
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
            }
            if *action == Action::Created || (cause.event && !self.wrapped) {
                // It is back: it is not to be deleted any more. A handler whose predicate refused
                // that gets a later event.
                self.pending.retain(|it| it.action != Action::Deleted);
            }
            if self.since.is_none() {
                self.since = Some(now.at);
                self.succeeded = None;
                self.event = None;
            }
            if cause.event {
                self.dequeue(began, settings);
                // Those that are kept get the newest object.
                let kept = self
                    .pending
                    .iter_mut()
                    .filter(|_| !settings.retry_as_received);
                kept.for_each(|it| it.object = Arc::clone(object));
            }
            if !cause.event {
                self.take_due(began, now.time);
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

    /// Removes what the policy removes at a new event.
    fn dequeue(&mut self, began: &Began, settings: &Settings) {
        let (action, object) = (began.action, &began.object);
        self.pending.retain_mut(|it| {
            let is_newer = it.action == action && it.object.generation != object.generation;
            it.action == Action::Deleted
                || match settings.dequeue {
                    Dequeue::Always => false,
                    Dequeue::Never => {
                        // An urgent event may have run it.
                        it.uncertain |= it.failed;
                        true
                    }
                    Dequeue::Opinionated => {
                        it.uncertain |= it.failed;
                        !is_newer
                    }
                    Dequeue::Other => {
                        it.uncertain = true;
                        true
                    }
                }
        });
    }

    /// Removes the pending call that this one is.
    fn take_due(&mut self, began: &Began, now: Duration) {
        let fits = |it: &Pending| it.action != Action::Deleted;
        let exact = |it: &Pending| fits(it) && it.action == began.action && it.due <= now;
        let at = (self.pending.iter().position(exact))
            .or_else(|| (self.pending.iter()).position(|it| fits(it) && it.due <= now))
            .or_else(|| self.pending.iter().position(fits));
        if let Some(at) = at {
            self.pending.remove(at);
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
        // The call is repeated with its own state, unless it left another one.
        self.state = state.or(began.request.and_then(|it| it.state));
        let counted = self
            .counted
            .get_or_insert_with(|| Arc::clone(&began.object));
        // Its engine may see less of what is the same without a generation than the rules do.
        let anew = began.request.is_some_and(|it| it.attempt == 0);
        if anew || began.object.is_urgent_after(counted) {
            *counted = Arc::clone(&began.object);
            self.failures = 0;
        }
        // A watcher is not given its attempt, and the count of a delete may begin anew.
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
        // There is one slot for a requeue, and one for a failure of each action.
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
