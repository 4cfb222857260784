//! The end of an object in a wrapper: its clean-up, its release, and its exit from the selector.

use std::{future::Future, sync::Arc, time::Duration};

use kube::Resource;
use tokio::time::Instant;
use windlass_informer::{ObjectKey, Uid, log};

use super::{
    deleted_step::{ExitStep, Live, exit_step},
    finalizer_state::FinalizerState,
    memory::Progress,
    versions::{is_older, is_terminating},
};
use crate::{
    Failure, FinalizerChange, FinalizerError, Outcome,
    finalizer::{FinalizerGoal, FinalizerPresence, GoalOutcome},
};

/// How long a clean-up may request requeues before that is logged, and the time between two logs.
const LONG_CLEAN_UP: Duration = Duration::from_secs(3600);

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
        let (mut outcome, mut clean_up) = (Outcome::done(), Some(clean_up));
        let mut live = self.read_live(&last).await?;
        loop {
            let progress = self.progress(&last);
            let shown = self.live(live.as_deref());
            let step = exit_step(self.on_selector_exit, progress, shown);
            let object = live.as_ref().unwrap_or(&last);
            match step {
                ExitStep::CleanUp => {
                    self.set_cleaning_up_outside(object);
                    let Some(clean_up) = clean_up.take() else {
                        return Ok(outcome);
                    };
                    outcome = clean_up(Arc::clone(object)).await?;
                    if outcome.delay().is_some() {
                        return Ok(outcome);
                    }
                    // If the patch fails, the clean-up is not repeated.
                    self.set_progress(&last, Progress::CleanedUp);
                }
                ExitStep::Release => {
                    if progress != Some(Progress::CleanedUp) {
                        // If the response is lost, the object may be released.
                        self.set_cleaning_up_outside(object);
                    }
                    if self.release_outside(object).await? {
                        return Ok(outcome);
                    }
                    live = self.read_live(&last).await?;
                }
                ExitStep::Report => {
                    self.report_outside(object);
                    self.forget(&last);
                    return Ok(outcome);
                }
                ExitStep::End => {
                    if live.is_none() {
                        self.set_progress(&last, Progress::Gone);
                    }
                    self.end_life(object);
                    return Ok(outcome);
                }
            }
        }
    }

    /// Reads an object that the informer reported as deleted. `None` if it does not exist, or our
    /// finalizer was removed from it before.
    async fn read_live(&self, last: &Arc<K>) -> Result<Option<Arc<K>>, FinalizerError> {
        match self.progress(last) {
            Some(Progress::Released | Progress::Gone) => Ok(None),
            _ => self.finalizers.find(FinalizerChange::Remove, last).await,
        }
    }

    fn live(&self, live: Option<&K>) -> Live {
        live.map_or(Live::Gone, |live| Live::Exists {
            terminating: is_terminating(live),
            held: self.finalizers.presence(live.meta()) != FinalizerPresence::Absent,
        })
    }
}
