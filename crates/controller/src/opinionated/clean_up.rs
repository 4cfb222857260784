//! The end of an object in a wrapper: its clean-up, its release, and its exit from the selector.

use std::{future::Future, sync::Arc, time::Duration};

use kube::Resource;
use tokio::time::Instant;
use windlass_informer::{ObjectKey, Uid, log};

use super::{
    finalizer_state::FinalizerState,
    memory::Progress,
    selector_exit::OnSelectorExit,
    versions::{is_older, is_terminating},
};
use crate::{
    Failure, FinalizerChange, FinalizerError, Outcome,
    finalizer::{FinalizerGoal, FinalizerPresence, GoalOutcome},
};

/// How long a clean-up may request requeues before that is logged, and the time between two logs.
const LONG_CLEAN_UP: Duration = Duration::from_secs(3600);

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
    /// Notes that the present life of `object`, its newest known state, has ended: it was deleted, or
    /// has left the selector. An informer that lags may still show it, in older states.
    fn end_life(&self, object: &K) {
        let has_ended = is_terminating(object) || self.progress(object) == Some(Progress::Gone);
        let progress = if has_ended {
            Progress::Gone
        } else {
            Progress::Released
        };
        self.change(object, |memory| {
            memory.progress = Some(progress);
            let version = &object.meta().resource_version;
            if !is_older(version.as_deref(), memory.patched.as_deref()) {
                memory.patched.clone_from(version);
            }
        });
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
        } else {
            self.note_unfinished(&object);
        }
        // What is pending for an object that was cleaned up has no purpose.
        Ok(if outcome.is_declined() {
            Outcome::done()
        } else {
            outcome
        })
    }

    /// Notes that the clean-up after `object` has requested a requeue. Logs it each hour.
    fn note_unfinished(&self, object: &K) {
        let (now, mut is_long) = (Instant::now(), false);
        self.change(object, |memory| {
            let since = memory.cleaning_up_since.get_or_insert(now);
            is_long = now.duration_since(*since) >= LONG_CLEAN_UP;
            if is_long {
                *since = now;
            }
        });
        if is_long {
            log::warn!(
                component = "Finalizers",
                key = %ObjectKey::of(object),
                finalizer = %self.finalizers.name(),
                marked_at = ?object.meta().deletion_timestamp,
                "a clean-up has requested requeues for an hour, and keeps its object"
            );
        }
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
}
