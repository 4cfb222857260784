//! The finalizer of a wrapper, and its memory of objects.

use std::{fmt, future::Future, sync::Arc};

use kube::Resource;
use parking_lot::Mutex;
use serde::Serialize;
use windlass_informer::{Event, ObjectKey, Uid, log};

use super::{
    change,
    memory::{Memories, Memory, Progress, UnfinishedCall, is_to_be_added},
    next_step::Observed,
    selector_exit::OnSelectorExit,
};
use crate::{
    Failure, FinalizerChange, FinalizerError, Finalizers, Outcome, Predicate,
    finalizer::{FinalizerGoal, FinalizerPresence, GoalOutcome},
};

/// The state that both wrappers have.
pub(super) struct FinalizerState<K> {
    pub(super) finalizers: Finalizers<K>,
    pub(super) on_selector_exit: OnSelectorExit,
    memories: Mutex<Memories<K>>,
}

/// The next step for an object that the informer reported as deleted.
enum DeleteStep<K> {
    Nothing,
    /// Compute the step again: the object was marked for deletion meanwhile, or was restored.
    Again,
    /// Clean up after this last state: the object does not exist.
    CleanUpGone,
    /// Clean up after this object, which has no finalizer of ours.
    CleanUp(Arc<K>),
    /// Clean up after this object, then remove its finalizer.
    CleanUpAndRelease(Arc<K>),
}

// === impl FinalizerState ===

impl<K: Resource + Send + Sync + 'static> FinalizerState<K> {
    pub(super) fn new(finalizers: Finalizers<K>) -> Self {
        Self {
            finalizers,
            on_selector_exit: OnSelectorExit::default(),
            memories: Mutex::default(),
        }
    }

    /// Returns what `object` shows. `old` is its previous state.
    pub(super) fn observe(&self, object: &K, old: Option<&K>) -> Observed {
        let terminating = is_terminating(object);
        let was_held = match old.map(|old| self.finalizers.presence(old)) {
            None | Some(FinalizerPresence::Absent) => false,
            // The add may have begun, so that a clean-up is due, and may have failed, so that an
            // add is due.
            Some(FinalizerPresence::InProgress) => terminating,
            Some(FinalizerPresence::Held { .. }) => true,
        };
        Observed {
            presence: self.finalizers.presence(object),
            terminating,
            was_held,
            stale: self.is_stale(object),
        }
    }

    pub(super) fn progress(&self, object: &K) -> Option<Progress> {
        self.with(object, |memory| memory.progress).flatten()
    }

    pub(super) fn set_progress(&self, object: &K, progress: Progress) {
        self.change(object, |memory| memory.progress = Some(progress));
    }

    /// Notes that the inner handler has added `object`.
    pub(super) fn set_added(&self, object: &Arc<K>) {
        self.change(object, |memory| {
            memory.progress = Some(Progress::Added);
            memory.given = Some(Arc::clone(object));
        });
    }

    /// Notes that the inner handler has added `object`, which has the finalizer. Remembered while
    /// the informer has not shown the finalizer.
    pub(super) fn set_created(&self, object: &K) {
        self.change(object, |memory| {
            memory.progress = memory.patched.is_some().then_some(Progress::Held);
        });
    }

    /// Notes that the present life of `object` has ended: it was deleted, or has left the selector.
    /// An informer that lags may still show it.
    fn end_life(&self, object: &K) {
        let has_ended = is_terminating(object) || self.progress(object) == Some(Progress::Gone);
        let progress = if has_ended {
            Progress::Gone
        } else {
            Progress::Released
        };
        self.set_progress(object, progress);
        self.retire(object);
    }

    /// Notes that the clean-up after `object`, which no informer shows, begins. Retries receive no
    /// older state. If it fails and the object is in the selector again, the object is added again.
    fn set_cleaning_up_outside(&self, object: &Arc<K>) {
        self.change(object, |memory| {
            memory.progress = Some(Progress::CleanUpBegun);
            memory.given = Some(Arc::clone(object));
        });
        self.memories.lock().retire(Uid::of(&**object));
    }

    /// Notes that an add begins: nothing of an earlier life counts any more.
    fn begin_life(&self, object: &K) {
        if self.progress(object) == Some(Progress::Released) {
            self.set_progress(object, Progress::Begun { held: true });
        }
    }

    pub(super) fn unfinished(&self, object: &K) -> Option<UnfinishedCall<K>> {
        self.with(object, |memory| memory.unfinished.clone())
            .flatten()
    }

    /// Notes that a call begins which must succeed, whatever events follow.
    pub(super) fn begin(&self, object: &K, call: UnfinishedCall<K>) {
        self.change(object, |memory| memory.unfinished = Some(call));
    }

    /// Notes that an update since `old` may be due, unless a call is due already.
    pub(super) fn begin_undecided(&self, object: &K, old: &Arc<K>) {
        self.change(object, |memory| {
            let since = || UnfinishedCall::Undecided(Arc::clone(old));
            memory.unfinished.get_or_insert_with(since);
        });
    }

    /// Whether a call has begun that must succeed. Predicates are not asked about it again.
    pub(super) fn is_due(&self, object: &K) -> bool {
        let unfinished = self.unfinished(object);
        unfinished.is_some_and(|call| !matches!(call, UnfinishedCall::Undecided(_)))
    }

    /// Notes that the call has succeeded.
    pub(super) fn finish(&self, object: &K) {
        self.change(object, |memory| memory.unfinished = None);
    }

    /// Returns the newer one of `object` and the last state that the inner handler received, so
    /// that versions never decrease.
    pub(super) fn newest(&self, object: &Arc<K>) -> Arc<K> {
        let given = self.given(object);
        given
            .filter(|given| is_older_state(object, given))
            .unwrap_or_else(|| Arc::clone(object))
    }

    /// Returns the last state that the inner handler received, if the informer has not shown it yet
    /// and it is older than `object`.
    pub(super) fn given_before(&self, object: &Arc<K>) -> Option<Arc<K>> {
        let given = self.given(object);
        given.filter(|given| is_older_state(given, object))
    }

    fn given(&self, object: &K) -> Option<Arc<K>> {
        self.with(object, |memory| memory.given.clone()).flatten()
    }

    /// Notes that the inner handler receives `object`. Remembered while the informer has not shown
    /// it or our patches.
    pub(super) fn set_given(&self, object: &Arc<K>) {
        self.change(object, |memory| {
            let given = memory.given.as_ref();
            let is_ahead = memory.patched.is_some()
                || given.is_some_and(|given| !is_older_state(given, object));
            memory.given = is_ahead.then(|| Arc::clone(object));
        });
    }

    /// Forgets everything of an object whose life has ended, except that it has ended: an informer
    /// that lags may still show it.
    pub(super) fn retire(&self, object: &K) {
        let uid = Uid::of(object);
        let mut forgotten = None;
        let mut memories = self.memories.lock();
        memories.change(uid.clone(), |memory| {
            forgotten = Some((memory.given.take(), memory.unfinished.take()));
        });
        memories.retire(uid);
        drop(memories);
        // Dropped without the lock.
        drop(forgotten);
    }

    /// Forgets a deleted object.
    pub(super) fn forget(&self, object: &K) {
        let _forgotten = self.memories.lock().forget(Uid::of(object).as_ref());
    }

    /// Adds the in-progress finalizer to `object`, unless it has one of our finalizers. `None` if
    /// it is marked for deletion or does not exist; then it is not added.
    pub(super) async fn mark_in_progress(
        &self,
        object: &Arc<K>,
    ) -> Result<Option<Arc<K>>, FinalizerError> {
        let is_to_be_added = is_to_be_added(self.progress(object));
        self.begin_life(object);
        let marked = self
            .write_finalizers(FinalizerGoal::InProgress, object)
            .await?;
        if let Some(marked) = &marked {
            let presence = self.finalizers.presence(marked);
            let held = matches!(presence, FinalizerPresence::Held { .. });
            if !held || is_to_be_added {
                self.set_progress(object, Progress::Begun { held });
            }
        }
        Ok(marked)
    }

    /// Writes the finalizer to `object` before its first call, in place of our other ones. `None` if
    /// it is marked for deletion or does not exist; then it is not added.
    pub(super) async fn guard(&self, object: &Arc<K>) -> Result<Option<Arc<K>>, FinalizerError> {
        self.begin_life(object);
        let guarded = self.write_finalizers(FinalizerGoal::Hold, object).await?;
        if guarded.is_some() {
            self.set_progress(object, Progress::Begun { held: true });
        }
        Ok(guarded)
    }

    /// Writes the finalizer to `object`, in place of our other ones. `None` if it is marked for
    /// deletion: its present finalizer stays, and an event will follow.
    pub(super) async fn hold(&self, object: &Arc<K>) -> Result<Option<Arc<K>>, FinalizerError> {
        if self.progress(object).is_none() {
            // If the patch fails, the next event does not show that the object was added.
            self.set_progress(object, Progress::Held);
        }
        let updated = self.write_finalizers(FinalizerGoal::Hold, object).await?;
        // Also for a terminating object, which must not be added again for an older event.
        self.set_progress(object, Progress::Held);
        Ok(updated)
    }

    /// Removes the finalizer from `object`, whose clean-up has succeeded.
    pub(super) async fn release(&self, object: &Arc<K>) -> Result<(), FinalizerError> {
        self.write_finalizers(FinalizerGoal::Release, object)
            .await?;
        // Otherwise the server was restored from a backup, and the object is added again.
        if self.progress(object) != Some(Progress::CleanUpBegun) {
            self.set_progress(object, Progress::Gone);
        }
        Ok(())
    }

    /// Removes the finalizer from `object`, which has left the selector, and remembers it: another
    /// informer may still show the object.
    ///
    /// Returns whether that is done. Not if it was marked for deletion meanwhile.
    async fn release_outside(&self, object: &Arc<K>) -> Result<bool, FinalizerError> {
        match self
            .finalizers
            .reach(FinalizerGoal::Release, object)
            .await?
        {
            GoalOutcome::Terminating | GoalOutcome::Lives => return Ok(false),
            GoalOutcome::Gone => {}
            GoalOutcome::Reached(released) => self.change(object, |memory| {
                let version = &released.meta().resource_version;
                memory.patched.clone_from(version);
            }),
        }
        self.end_life(object);
        log::warn!(
            component = "Finalizers",
            key = %ObjectKey::of(&**object),
            finalizer = %self.finalizers.name(),
            "an object left the selector, removed its finalizer"
        );
        Ok(true)
    }

    /// Logs that an object has left the selector and keeps its finalizer.
    fn report_outside(&self, object: &K) {
        log::error!(
            component = "Finalizers",
            key = %ObjectKey::of(object),
            finalizer = %self.finalizers.name(),
            "an object left the selector with our finalizer and cannot be deleted until it \
             matches again or the finalizer is removed"
        );
    }

    /// Calls `clean_up` for `object`, which is marked for deletion, and then removes the finalizer.
    /// A clean-up that requests a requeue has not succeeded yet.
    pub(super) async fn clean_up_and_release<F>(
        &self,
        object: Arc<K>,
        clean_up: impl FnOnce(Arc<K>) -> F + Send,
    ) -> Result<Outcome, Failure>
    where
        F: Future<Output = Result<Outcome, Failure>> + Send,
    {
        self.set_progress(&object, Progress::CleaningUp);
        let outcome = clean_up(Arc::clone(&object)).await?;
        if outcome.delay().is_none() {
            self.set_progress(&object, Progress::CleanedUp);
            self.finish(&object);
            self.release(&object).await?;
        }
        // What is pending for an object that was cleaned up has no purpose.
        Ok(if outcome.is_declined() {
            Outcome::done()
        } else {
            outcome
        })
    }

    /// Processes an object that the informer reported as deleted, and whose last state is `last`.
    /// Calls `clean_up` if that is due.
    pub(super) async fn process_deleted<F>(
        &self,
        last: Arc<K>,
        clean_up: impl FnOnce(Arc<K>) -> F + Send,
    ) -> Result<Outcome, Failure>
    where
        F: Future<Output = Result<Outcome, Failure>> + Send,
    {
        let step = self.final_delete_step(&last).await?;
        let last = match &step {
            DeleteStep::Nothing | DeleteStep::Again => return Ok(Outcome::done()),
            DeleteStep::CleanUpGone => last,
            DeleteStep::CleanUp(live) | DeleteStep::CleanUpAndRelease(live) => Arc::clone(live),
        };
        self.set_cleaning_up_outside(&last);
        let outcome = clean_up(Arc::clone(&last)).await?;
        if outcome.delay().is_some() {
            return Ok(outcome);
        }
        match step {
            DeleteStep::CleanUpGone => self.set_progress(&last, Progress::Gone),
            // If the patch fails, the clean-up is not repeated.
            _ => self.set_progress(&last, Progress::CleanedUp),
        }
        if let DeleteStep::CleanUpAndRelease(_) = step {
            if !self.release_outside(&last).await? {
                self.final_delete_step(&last).await?;
            }
        } else {
            self.end_life(&last);
        }
        Ok(outcome)
    }

    /// Computes the step for a deleted object until the object does not change meanwhile: it is
    /// marked for deletion once.
    async fn final_delete_step(&self, last: &Arc<K>) -> Result<DeleteStep<K>, FinalizerError> {
        loop {
            match self.delete_step(last).await? {
                DeleteStep::Again => {}
                step => return Ok(step),
            }
        }
    }

    /// Reads the actual state of an object that the informer reported as deleted with the last
    /// state `last`, and does what needs no call of the inner handler. Returns what remains to do.
    async fn delete_step(&self, last: &Arc<K>) -> Result<DeleteStep<K>, FinalizerError> {
        let progress = self.progress(last);
        let live = match progress {
            Some(Progress::Released | Progress::Gone) => None,
            _ => self.finalizers.find(FinalizerChange::Remove, last).await?,
        };
        let is_free = |live: &K| self.finalizers.presence(live) == FinalizerPresence::Absent;
        if progress == Some(Progress::CleanedUp) {
            match live {
                Some(live) if is_free(&live) => self.end_life(&live),
                Some(live) => {
                    if !self.release_outside(&live).await? {
                        return Ok(DeleteStep::Again);
                    }
                }
                None => {
                    self.set_progress(last, Progress::Gone);
                    self.end_life(last);
                }
            }
            return Ok(DeleteStep::Nothing);
        }
        let Some(live) = live else {
            return Ok(DeleteStep::CleanUpGone);
        };
        let terminating = is_terminating(&*live);
        let exit = self.on_selector_exit;
        if is_free(&live) {
            if terminating || exit == OnSelectorExit::CleanUp {
                return Ok(DeleteStep::CleanUp(live));
            }
            self.end_life(&live);
            return Ok(DeleteStep::Nothing);
        }
        match exit {
            _ if terminating => return Ok(DeleteStep::CleanUpAndRelease(live)),
            OnSelectorExit::CleanUp => return Ok(DeleteStep::CleanUpAndRelease(live)),
            OnSelectorExit::Release => {
                // If the response is lost, the object may be released.
                self.set_cleaning_up_outside(&live);
                if !self.release_outside(&live).await? {
                    return Ok(DeleteStep::Again);
                }
            }
            OnSelectorExit::Report => {
                self.report_outside(&live);
                self.forget(last);
            }
        }
        Ok(DeleteStep::Nothing)
    }

    /// Writes the finalizers of `object`, and remembers the version of a patch. An object from
    /// before our last patch is read from the server first, because it is outdated. So is one whose
    /// clean-up had begun before the server was restored: versions do not show which came first.
    async fn write_finalizers(
        &self,
        goal: FinalizerGoal,
        object: &Arc<K>,
    ) -> Result<Option<Arc<K>>, FinalizerError> {
        let shown = object.meta().resource_version.clone();
        let mut object = Arc::clone(object);
        let is_uncertain = match self.progress(&object) {
            Some(Progress::CleanUpBegun) => true,
            // The response to the release may be lost.
            Some(Progress::CleanedUp) => goal != FinalizerGoal::Release,
            _ => false,
        };
        if is_uncertain || self.is_stale(&object) {
            let Some(fresh) = self.finalizers.find(goal.change(), &object).await? else {
                return Ok(None);
            };
            if goal == FinalizerGoal::Release
                && is_terminating(&*object)
                && !is_terminating(&*fresh)
            {
                self.set_progress(&object, Progress::CleanUpBegun);
                return Ok(None);
            }
            object = fresh;
        }
        let written = match self.finalizers.reach(goal, &object).await? {
            GoalOutcome::Reached(written) => written,
            GoalOutcome::Lives => {
                self.set_progress(&object, Progress::CleanUpBegun);
                return Ok(None);
            }
            GoalOutcome::Terminating | GoalOutcome::Gone => return Ok(None),
        };
        let version = &written.meta().resource_version;
        if *version != shown {
            self.change(&object, |memory| memory.patched.clone_from(version));
        }
        if goal != FinalizerGoal::Release && is_terminating(&*written) {
            if goal == FinalizerGoal::InProgress {
                self.set_progress(&object, Progress::Terminating);
            }
            return Ok(None);
        }
        Ok(Some(written))
    }

    /// Whether `object` is from before our last patch.
    fn is_stale(&self, object: &K) -> bool {
        let version = object.meta().resource_version.as_deref();
        self.with(object, |memory| {
            is_older(version, memory.patched.as_deref())
        })
        .unwrap_or_default()
    }

    fn with<T>(&self, object: &K, read: impl FnOnce(&Memory<K>) -> T) -> Option<T> {
        let memories = self.memories.lock();
        memories.get(Uid::of(object).as_ref()).map(read)
    }

    fn change(&self, object: &K, change: impl FnOnce(&mut Memory<K>)) {
        // Dropped without the lock: this may drop the last reference to an object.
        let before = self.memories.lock().change(Uid::of(object), |memory| {
            let before = memory.given.clone();
            change(memory);
            before
        });
        drop(before);
    }
}

impl<K: Resource + Serialize + Send + Sync + 'static> FinalizerState<K> {
    /// Whether `new` only shows a patch of ours, compared with `old`.
    pub(super) fn is_echo(&self, old: &K, new: &K) -> bool {
        change::is_echo(&self.finalizers, old, new)
    }

    /// Whether the inner handler has to receive the change from `old` to `new`. Not if it
    /// has received `new` or a newer state.
    pub(super) fn matters(&self, old: &Arc<K>, new: &Arc<K>) -> bool {
        match self.given(new) {
            Some(given) if is_older_state(&given, new) => {
                change::matters(&self.finalizers, &given, new)
            }
            Some(_) => false,
            None => change::matters(&self.finalizers, old, new),
        }
    }

    /// Whether the inner handler has received what `event` shows: it is not newer than the last
    /// received state, or only shows a patch of ours. If so, notes what the informer has shown; for
    /// other events the wrapper notes it.
    fn is_known(&self, event: &Event<K>) -> bool {
        let (Event::Added(new) | Event::Updated { new, .. } | Event::Resynced(new)) = event else {
            return false;
        };
        let given = self.given(new);
        let known = match event {
            Event::Updated { old, .. } => match given {
                Some(given) if is_not_newer(new, &given) => true,
                Some(given) => change::is_echo(&self.finalizers, &given, new),
                None => {
                    // Decoding the old state is expensive. Our patches change the finalizers.
                    let own = self.finalizers.presence(new) != FinalizerPresence::Absent;
                    let changed = own && old.metadata().finalizers != new.meta().finalizers;
                    let old = if changed { old.get().ok() } else { None };
                    old.is_some_and(|old| change::is_echo(&self.finalizers, &old, new))
                }
            },
            _ => false,
        };
        if known {
            self.note_shown(new);
        }
        known
    }

    /// Whether the wrapper needs `event` for its finalizer: the object has to be cleaned up, or the
    /// finalizer has changed.
    pub(super) fn needs(&self, event: &Event<K>) -> bool {
        let Some(object) = event.object() else {
            return false;
        };
        let presence = self.finalizers.presence(object);
        let is_ours =
            || presence != FinalizerPresence::Absent || self.with(object, |_| ()).is_some();
        match event {
            Event::Deleted { .. } => is_ours(),
            Event::Updated { old, .. }
                if self.finalizers.presence_in(&old.metadata()) != presence =>
            {
                true
            }
            _ => is_terminating(&**object) && is_ours(),
        }
    }
}

impl<K: Resource + Send + Sync + 'static> FinalizerState<K> {
    /// Notes that the informer has shown `object`.
    pub(super) fn note_shown(&self, object: &Arc<K>) {
        if self.with(object, |_| ()).is_none() {
            return;
        }
        let has_finalizer =
            self.finalizers.presence(object) == (FinalizerPresence::Held { tidy: true });
        let version = object.meta().resource_version.as_deref();
        self.change(object, |memory| {
            if is_older(version, memory.patched.as_deref()) {
                return;
            }
            memory.patched = None;
            let is_shown = |given: &Arc<K>| !is_older_state(object, given);
            // A repeated call that writes the finalizer compares with it.
            let is_written = memory.progress != Some(Progress::Added);
            if is_written && memory.given.as_ref().is_some_and(is_shown) {
                memory.given = None;
            }
            // A finalizer that another process has written shows that it has added the object.
            let is_shown = [Progress::Held, Progress::Begun { held: false }];
            if has_finalizer && memory.progress.is_some_and(|it| is_shown.contains(&it)) {
                memory.progress = None;
            }
        });
    }
}

/// Rejects what the inner handler has received.
impl<K: Resource + Serialize + Send + Sync + 'static> Predicate<K> for FinalizerState<K> {
    fn passes(&self, event: &Event<K>) -> bool {
        !self.is_known(event)
    }
}

/// Whether `object` is marked for deletion.
fn is_terminating<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Whether `state` is certainly older than `than`.
fn is_older_state<K: Resource>(state: &Arc<K>, than: &Arc<K>) -> bool {
    let (state, than) = (state.meta(), than.meta());
    is_older(
        state.resource_version.as_deref(),
        than.resource_version.as_deref(),
    )
}

/// Whether `state` is certainly not newer than `than`.
fn is_not_newer<K: Resource>(state: &Arc<K>, than: &Arc<K>) -> bool {
    let version = &state.meta().resource_version;
    is_older_state(state, than) || *version == than.meta().resource_version
}

/// Whether `version` is older than `than`. False for versions that are not numbers: then the order
/// of arrival counts.
fn is_older(version: Option<&str>, than: Option<&str>) -> bool {
    (version.zip(than)).is_some_and(|(version, than)| windlass_informer::is_older(version, than))
}

impl<K> fmt::Debug for FinalizerState<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinalizerState")
            .field("finalizers", &self.finalizers)
            .field("on_selector_exit", &self.on_selector_exit)
            .field("remembered", &self.memories.lock().len())
            .finish()
    }
}
