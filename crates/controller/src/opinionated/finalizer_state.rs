//! The finalizer of a wrapper, and its memory of objects.

use std::{fmt, sync::Arc};

use kube::Resource;
use parking_lot::Mutex;
use windlass_informer::Uid;

use super::{
    inner_call::InnerCall,
    memory::{Memories, Memory, Progress, is_to_be_added},
    selector_exit::OnSelectorExit,
    versions::{is_older, is_older_state, is_terminating},
};
use crate::{
    FinalizerError, Finalizers,
    finalizer::{FinalizerGoal, FinalizerPresence, GoalOutcome},
};

/// The finalizer of a wrapper, and what it remembers of the objects.
pub(super) struct FinalizerState<K> {
    pub(super) finalizers: Finalizers<K>,
    pub(super) on_selector_exit: OnSelectorExit,
    pub(super) memories: Mutex<Memories<K>>,
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

    /// Whether `old`, the previous state, shows that the object was added, or for an object that is
    /// `terminating` that its add may have begun.
    pub(super) fn was_held(&self, old: Option<&K>, terminating: bool) -> bool {
        match old.map(|old| self.finalizers.presence(old.meta())) {
            None | Some(FinalizerPresence::Absent) => false,
            // The add may have begun, so that a clean-up is due, and may have failed, so that an
            // add is due.
            Some(FinalizerPresence::InProgress) => terminating,
            Some(FinalizerPresence::Held { .. }) => true,
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

    /// Notes that an add begins: nothing of an earlier life counts any more.
    fn begin_life(&self, object: &K) {
        if self.progress(object) == Some(Progress::Released) {
            self.set_progress(object, Progress::Begun { held: true });
        }
    }

    /// Notes that an object, whose earlier progress was `before`, does not exist or gets no finalizer
    /// of ours any more. If it was released before, there is nothing to clean up.
    fn end_life_without_finalizer(&self, object: &K, before: Option<Progress>) {
        let begun = Some(Progress::Begun { held: true });
        if before == Some(Progress::Released) && self.progress(object) == begun {
            self.set_progress(object, Progress::Gone);
        }
    }

    /// The call of the inner watcher for `object` that has not succeeded.
    pub(super) fn unfinished(&self, object: &K) -> Option<InnerCall<K>> {
        self.with(object, |memory| memory.unfinished.clone())
            .flatten()
    }

    /// Notes that a call of the inner watcher begins which must succeed, whatever events follow.
    pub(super) fn begin(&self, object: &K, call: InnerCall<K>) {
        self.change(object, |memory| memory.unfinished = Some(call));
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

    /// The last state that the inner handler received, if the informer has not shown it yet.
    pub(super) fn given(&self, object: &K) -> Option<Arc<K>> {
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
        let before = self.progress(object);
        let is_to_be_added = is_to_be_added(before);
        self.begin_life(object);
        let marked = self
            .write_finalizers(FinalizerGoal::InProgress, object)
            .await?;
        if let Some(marked) = &marked {
            let presence = self.finalizers.presence(marked.meta());
            let held = matches!(presence, FinalizerPresence::Held { .. });
            if !held || is_to_be_added {
                self.set_progress(object, Progress::Begun { held });
            }
        } else {
            self.end_life_without_finalizer(object, before);
        }
        Ok(marked)
    }

    /// Writes the finalizer to `object` before its first call, in place of our other ones. `None` if
    /// it is marked for deletion or does not exist; then it is not added.
    pub(super) async fn guard(&self, object: &Arc<K>) -> Result<Option<Arc<K>>, FinalizerError> {
        let before = self.progress(object);
        self.begin_life(object);
        let guarded = self.write_finalizers(FinalizerGoal::Hold, object).await?;
        if guarded.is_some() {
            self.set_progress(object, Progress::Begun { held: true });
        } else {
            self.end_life_without_finalizer(object, before);
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

    /// Writes the finalizers of `object`, and remembers the version of a patch. An object from
    /// before our last patch is read from the server first, because it is outdated. So are one whose
    /// clean-up had begun before the server was restored, because versions do not show which came
    /// first, and one that another process had begun to add.
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
            // Another process has written it, and the informer may show an old state.
            None => {
                let presence = self.finalizers.presence(object.meta());
                goal == FinalizerGoal::InProgress && presence == FinalizerPresence::InProgress
            }
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
    pub(super) fn is_stale(&self, object: &K) -> bool {
        let version = object.meta().resource_version.as_deref();
        self.with(object, |memory| {
            is_older(version, memory.patched.as_deref())
        })
        .unwrap_or_default()
    }

    pub(super) fn with<T>(&self, object: &K, read: impl FnOnce(&Memory<K>) -> T) -> Option<T> {
        let memories = self.memories.lock();
        memories.get(Uid::of(object).as_ref()).map(read)
    }

    pub(super) fn change(&self, object: &K, change: impl FnOnce(&mut Memory<K>)) {
        // Dropped without the lock: this may drop the last reference to an object.
        let before = self.memories.lock().change(Uid::of(object), |memory| {
            let before = (memory.given.clone(), memory.unfinished.clone());
            change(memory);
            before
        });
        drop(before);
    }
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
