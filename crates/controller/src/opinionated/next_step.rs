//! Computes the next step of a wrapper for an object that exists. *(pure)*

use super::memory::{Progress, is_to_be_added};
use crate::{Action, DeleteOrder, FinalizerTiming, finalizer::FinalizerPresence};

/// Everything that decides about the next step for an object that exists.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub(super) struct Observed {
    pub(super) settings: Settings,
    pub(super) cause: Cause,
    pub(super) change: Change,
    /// Whether the call repeats an earlier one instead of being for a new event.
    pub(super) repeated: bool,
    /// What an earlier call has left to do.
    pub(super) unfinished: Option<Unfinished>,
    pub(super) progress: Option<Progress>,
    pub(super) presence: FinalizerPresence,
    /// Whether it is marked for deletion.
    pub(super) terminating: bool,
    /// Whether the previous state shows that the object was added, or for a terminating object
    /// that its add may have begun.
    pub(super) was_held: bool,
    /// Whether the informer's state is older than our last patch.
    pub(super) stale: bool,
    /// Whether `Added` is an update whose old state does not decode.
    pub(super) lost_old: bool,
}

/// The settings of a wrapper that decide about the next step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) order: DeleteOrder,
    pub(super) timing: FinalizerTiming,
    /// Whether the inner handler is a watcher. It receives the relevant updates only, and a call of
    /// it that has not succeeded is repeated for any event.
    pub(super) for_watcher: bool,
    /// Whether an object that an earlier process has added is passed at the start.
    pub(super) resumes: bool,
    pub(super) unheld: UnheldDeletes,
}

/// Whether a deleted object without our finalizer is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnheldDeletes {
    Pass,
    /// Not if it was marked for deletion, without our finalizer, when it was first seen.
    PassIfSeenBefore,
    /// Not if it was never known with the finalizer.
    Skip,
}

/// Why a wrapper is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The object is new.
    Added,
    /// The object has changed.
    Updated,
    /// The object has not changed.
    Resynced,
}

/// How the object differs from the last state that the inner handler received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is not known which state the inner handler has received.
    Unknown,
    /// Not in a way for which the inner handler is called.
    Irrelevant,
    Relevant,
}

/// What an earlier call has left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// The add.
    Add,
    /// The finalizer, after an add that has succeeded.
    Finalizer,
    /// A call of the inner handler that has failed or has requested a requeue.
    Call(Action),
}

/// The next step for an object that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Nothing is left to do.
    Finish,
    /// Nothing is done for this event. Pending calls stay.
    Decline,
    /// Ignore the object until it is deleted: it is terminating without our finalizer.
    Ignore,
    /// Write the in-progress finalizer, call the inner handler for a new object, and write the
    /// finalizer. With `FinalizerTiming::BeforeFirstCall`: write the finalizer, and call the inner
    /// handler for a new object.
    Add,
    /// Write the finalizer, and compute the next step again.
    Hold,
    /// Call the inner handler with this action.
    Call(Action),
    /// Repeat the unfinished call of the inner handler.
    Repeat,
    /// Call the inner handler for the clean-up, and remove the finalizer.
    CleanUp,
    /// Remove the finalizer.
    Release,
}

/// Computes the next step for an object that exists.
pub(super) fn next_step(observed: &Observed) -> NextStep {
    let Observed {
        settings,
        progress,
        presence,
        stale,
        ..
    } = *observed;
    if progress == Some(Progress::Gone) {
        return NextStep::Finish;
    }
    if observed.terminating {
        return terminating_step(observed);
    }
    let add_failed = observed.unfinished == Some(Unfinished::Add);
    let is_added = matches!(progress, Some(Progress::Added | Progress::Held));
    // Before an add has succeeded, an early finalizer does not show that the object was added.
    let is_early = settings.timing == FinalizerTiming::BeforeFirstCall;
    if is_to_be_added(progress) || (add_failed && is_early && !is_added) {
        return NextStep::Add;
    }
    if progress == Some(Progress::Terminating) {
        // The event with the deletion mark will arrive.
        return NextStep::Decline;
    }
    if stale && matches!(progress, Some(Progress::Released | Progress::Begun { .. })) {
        // It was released outside of the selector and is in it again: the event is older than that.
        return NextStep::Add;
    }
    if progress == Some(Progress::Added) || presence == (FinalizerPresence::Held { tidy: false }) {
        return NextStep::Hold;
    }
    let has_finalizer = matches!(presence, FinalizerPresence::Held { .. });
    let is_known = progress == Some(Progress::Held);
    let is_before_our_patch = is_known && stale;
    if !has_finalizer && !is_before_our_patch {
        let free = presence == FinalizerPresence::Absent;
        let was_added = free && observed.was_held && progress.is_none() && !add_failed;
        let is_unwritten = observed.unfinished == Some(Unfinished::Finalizer);
        // Otherwise another writer has removed the finalizer of an object that was added.
        return if is_unwritten || is_known || was_added {
            NextStep::Hold
        } else {
            NextStep::Add
        };
    }
    call_step(observed, has_finalizer)
}

/// Computes the next step for an object that is marked for deletion.
fn terminating_step(observed: &Observed) -> NextStep {
    let free = observed.presence == FinalizerPresence::Absent;
    match observed.progress {
        Some(Progress::Released) if observed.stale || free => NextStep::Decline,
        Some(Progress::CleanedUp) if free && !observed.stale => NextStep::Decline,
        Some(Progress::CleanedUp | Progress::Released) => NextStep::Release,
        Some(Progress::Ignored) if free => NextStep::Decline,
        // The object never had a finalizer of ours.
        None if free && !observed.was_held => NextStep::Ignore,
        _ if observed.settings.order == DeleteOrder::AfterRemoval => NextStep::Release,
        // Also if another writer has removed our finalizer: the clean-up has not succeeded.
        _ => NextStep::CleanUp,
    }
}

/// Computes the call for an object that was added and needs no finalizer.
fn call_step(observed: &Observed, has_finalizer: bool) -> NextStep {
    let Observed {
        settings,
        cause,
        change,
        repeated,
        ..
    } = *observed;
    let is_relevant = change == Change::Relevant;
    let is_update = cause == Cause::Updated && is_relevant;
    match observed.unfinished {
        Some(Unfinished::Finalizer) => match cause {
            Cause::Resynced if is_relevant || !repeated => NextStep::Call(Action::Resynced),
            _ if is_relevant => NextStep::Call(Action::Updated),
            _ => NextStep::Finish,
        },
        // Another call has added it. Later changes are passed: this call may have replaced the calls
        // for their events.
        Some(Unfinished::Add) if repeated => match change {
            Change::Irrelevant => NextStep::Finish,
            Change::Relevant => NextStep::Call(Action::Updated),
            Change::Unknown => NextStep::Call(Action::Resynced),
        },
        Some(Unfinished::Call(_)) if repeated => NextStep::Repeat,
        // An update follows a failed resync. In all other cases the event is part of the unfinished
        // call, even if the object is the same again: half of the call may have been done.
        Some(Unfinished::Call(action))
            if settings.for_watcher && !(is_update && action == Action::Resynced) =>
        {
            NextStep::Repeat
        }
        _ => match cause {
            Cause::Resynced => NextStep::Call(Action::Resynced),
            _ if is_update => NextStep::Call(Action::Updated),
            // No call had the old state.
            Cause::Added if observed.lost_old && !settings.resumes => {
                if change == Change::Irrelevant {
                    NextStep::Decline
                } else {
                    NextStep::Call(Action::Updated)
                }
            }
            // If it has no finalizer, the event is older than our patch.
            Cause::Added if has_finalizer => resume_step(settings),
            Cause::Added | Cause::Updated => NextStep::Decline,
        },
    }
}

/// Computes the step for an object that was to be added, and has the finalizer on the server: the
/// event is old.
pub(super) fn step_if_added_before(observed: &Observed) -> NextStep {
    let continues = observed.repeated || observed.settings.for_watcher;
    match observed.unfinished {
        Some(Unfinished::Call(_)) if continues => NextStep::Repeat,
        Some(_) if observed.repeated => NextStep::Finish,
        _ => resume_step(observed.settings),
    }
}

/// The step for an object that an earlier process has added.
const fn resume_step(settings: Settings) -> NextStep {
    if settings.resumes {
        NextStep::Call(Action::Resynced)
    } else {
        NextStep::Decline
    }
}

#[cfg(test)]
mod tests;
