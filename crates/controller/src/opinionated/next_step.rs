//! Computes the next step of a wrapper for an object that exists. *(pure)*

use super::memory::{Progress, is_to_be_added};
use crate::finalizer::FinalizerPresence;

/// Why a wrapper is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The object is new.
    Added,
    /// The object has changed.
    Updated {
        /// Whether the inner handler is called for this change.
        matters: bool,
    },
    /// The object has not changed.
    Resynced,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    Nothing,
    /// Ignore the object until it is deleted: it is terminating without our finalizer.
    Ignore,
    /// Write the in-progress finalizer, call the inner handler for a new object, and write the
    /// finalizer. With `FinalizerTiming::BeforeFirstCall`: write the finalizer, and call the inner
    /// handler for a new object.
    Add,
    /// Write the finalizer, and compute the next step again.
    Hold,
    /// Call the inner handler for an object that an earlier process has added, or for a resync.
    Resume,
    /// Call the inner handler for a change.
    Update,
    /// Call the inner handler for the clean-up, and remove the finalizer.
    CleanUp,
    /// Remove the finalizer: the clean-up has succeeded.
    Release,
}

/// The parts of an event's object that decide about the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) presence: FinalizerPresence,
    /// Whether it is marked for deletion.
    pub(super) terminating: bool,
    /// Whether the previous state shows that the object was added, or for a terminating object
    /// that its add may have begun.
    pub(super) was_held: bool,
    /// Whether the informer's state is older than our last patch.
    pub(super) stale: bool,
}

/// Computes the next step for an object that shows `observed`, with the remembered `progress`.
pub(super) fn next_step(cause: Cause, observed: Observed, progress: Option<Progress>) -> NextStep {
    let Observed {
        presence,
        terminating,
        was_held,
        stale,
    } = observed;
    let free = presence == FinalizerPresence::Absent;
    if progress == Some(Progress::Gone) {
        return NextStep::Nothing;
    }
    if terminating {
        return match progress {
            Some(Progress::Released) if stale || free => NextStep::Nothing,
            Some(Progress::CleanedUp) if free && !stale => NextStep::Nothing,
            Some(Progress::CleanedUp | Progress::Released) => NextStep::Release,
            Some(Progress::Ignored) if free => NextStep::Nothing,
            // The object never had a finalizer of ours.
            None if free && !was_held => NextStep::Ignore,
            // Also if another writer has removed our finalizer: the clean-up has not succeeded.
            _ => NextStep::CleanUp,
        };
    }
    if is_to_be_added(progress) {
        // Its add has not succeeded. Or the inner handler has cleaned up, and the object exists: the
        // server was restored, or the object is in the selector again.
        return NextStep::Add;
    }
    if progress == Some(Progress::Terminating) {
        // The event with the deletion mark will arrive.
        return NextStep::Nothing;
    }
    if stale && matches!(progress, Some(Progress::Released | Progress::Begun { .. })) {
        // It was released outside of the selector and is in it again: the event is older than that.
        return NextStep::Add;
    }
    let has_finalizer = matches!(presence, FinalizerPresence::Held { .. });
    if progress == Some(Progress::Added) || presence == (FinalizerPresence::Held { tidy: false }) {
        return NextStep::Hold;
    }
    if !has_finalizer {
        let known = progress == Some(Progress::Held);
        if known && stale {
            // The event is older than our patch.
            return match cause {
                // A repeated call: another call has added the object.
                Cause::Added | Cause::Updated { matters: false } => NextStep::Nothing,
                Cause::Resynced => NextStep::Resume,
                Cause::Updated { matters: true } => NextStep::Update,
            };
        }
        // Another writer has removed the finalizer of an object that was added.
        let removed = known || (free && was_held && progress.is_none());
        return if removed {
            NextStep::Hold
        } else {
            NextStep::Add
        };
    }
    match cause {
        Cause::Added | Cause::Resynced => NextStep::Resume,
        Cause::Updated { matters: true } => NextStep::Update,
        Cause::Updated { matters: false } => NextStep::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPDATED: Cause = Cause::Updated { matters: true };
    const STATUS: Cause = Cause::Updated { matters: false };
    const ALL: [Cause; 4] = [Cause::Added, UPDATED, STATUS, Cause::Resynced];

    #[test]
    fn a_new_object_is_added() {
        for cause in ALL {
            check(cause, "free", None, NextStep::Add);
            // Another process has begun to add it, and it is not known how that ended.
            check(cause, "in-progress", None, NextStep::Add);
        }
    }

    #[test]
    fn an_object_with_the_finalizer_is_not_added_again() {
        check(Cause::Added, "held", None, NextStep::Resume);
        check(Cause::Resynced, "held", None, NextStep::Resume);
        check(UPDATED, "held", None, NextStep::Update);
        check(STATUS, "held", None, NextStep::Nothing);
    }

    #[test]
    fn a_state_from_before_our_patch_is_no_removed_finalizer() {
        let held = Some(Progress::Held);
        for shown in ["stale free", "stale in-progress"] {
            check(STATUS, shown, held, NextStep::Nothing);
            check(UPDATED, shown, held, NextStep::Update);
            check(Cause::Added, shown, held, NextStep::Nothing);
            check(Cause::Resynced, shown, held, NextStep::Resume);
        }
    }

    #[test]
    fn an_object_whose_add_has_not_succeeded_is_added_whatever_finalizer_it_has() {
        for cause in ALL {
            for shown in ["free", "stale free", "held", "free after held", "legacy"] {
                check(
                    cause,
                    shown,
                    Some(Progress::Begun { held: true }),
                    NextStep::Add,
                );
            }
            for shown in ["terminating held", "terminating free"] {
                check(
                    cause,
                    shown,
                    Some(Progress::Begun { held: true }),
                    NextStep::CleanUp,
                );
            }
        }
    }

    #[test]
    fn a_released_object_that_returns_is_added() {
        for cause in ALL {
            let released = Some(Progress::Released);
            check(cause, "stale held", released, NextStep::Add);
            check(cause, "free", released, NextStep::Add);
        }
    }

    #[test]
    fn an_object_that_exists_after_its_clean_up_is_added() {
        for cause in ALL {
            for progress in [Progress::CleanedUp, Progress::CleanUpBegun] {
                for shown in ["free", "in-progress", "held", "stale held"] {
                    check(cause, shown, Some(progress), NextStep::Add);
                }
            }
            check(
                cause,
                "free",
                Some(Progress::Terminating),
                NextStep::Nothing,
            );
            check(
                cause,
                "held",
                Some(Progress::Terminating),
                NextStep::Nothing,
            );
            let doomed = Some(Progress::Terminating);
            check(cause, "terminating held", doomed, NextStep::CleanUp);
            for shown in ["free", "held", "terminating held", "terminating free"] {
                check(cause, shown, Some(Progress::Gone), NextStep::Nothing);
            }
            let undone = Some(Progress::CleanUpBegun);
            check(cause, "terminating held", undone, NextStep::CleanUp);
            check(cause, "terminating free", undone, NextStep::CleanUp);
        }
    }

    #[test]
    fn a_finalizer_removed_by_another_client_is_restored() {
        for cause in ALL {
            check(cause, "free", Some(Progress::Held), NextStep::Hold);
            check(cause, "free after held", None, NextStep::Hold);
        }
    }

    #[test]
    fn a_finalizer_that_is_not_written_yet_comes_first() {
        for cause in ALL {
            check(cause, "in-progress", Some(Progress::Added), NextStep::Hold);
            check(cause, "legacy", None, NextStep::Hold);
        }
    }

    #[test]
    fn a_dying_object_is_cleaned_up_until_that_has_succeeded() {
        for cause in ALL {
            for shown in [
                "terminating in-progress",
                "terminating held",
                "terminating legacy",
            ] {
                for progress in [None, Some(Progress::Held), Some(Progress::Added)] {
                    check(cause, shown, progress, NextStep::CleanUp);
                }
                check(cause, shown, Some(Progress::CleaningUp), NextStep::CleanUp);
                check(cause, shown, Some(Progress::CleanedUp), NextStep::Release);
            }
            // Another writer has added it again.
            let again = "terminating held";
            check(cause, again, Some(Progress::Released), NextStep::Release);
            let stale = "stale terminating held";
            check(cause, stale, Some(Progress::Released), NextStep::Nothing);
            check(cause, stale, Some(Progress::CleanedUp), NextStep::Release);
        }
    }

    #[test]
    fn a_terminating_object_whose_finalizer_another_client_removed_is_cleaned_up() {
        for cause in ALL {
            for progress in [Progress::Held, Progress::Added, Progress::CleaningUp] {
                check(cause, "terminating free", Some(progress), NextStep::CleanUp);
            }
            check(
                cause,
                "terminating free after held",
                None,
                NextStep::CleanUp,
            );
            for progress in [Progress::CleanedUp, Progress::Released] {
                check(cause, "terminating free", Some(progress), NextStep::Nothing);
            }
        }
    }

    #[test]
    fn a_dying_object_that_was_never_ours_is_ignored() {
        for cause in ALL {
            check(cause, "terminating free", None, NextStep::Ignore);
            check(
                cause,
                "terminating free",
                Some(Progress::Ignored),
                NextStep::Nothing,
            );
            // It got our finalizer after it was first seen.
            let ignored = Some(Progress::Ignored);
            check(cause, "terminating held", ignored, NextStep::CleanUp);
        }
    }

    #[track_caller]
    fn check(cause: Cause, shown: &str, progress: Option<Progress>, expected: NextStep) {
        let has = |word: &str| shown.split(' ').any(|it| it == word);
        let (now, before) = shown.split_once(" after ").unwrap_or((shown, ""));
        let presence = match now.rsplit(' ').next() {
            Some("free") => FinalizerPresence::Absent,
            Some("in-progress") => FinalizerPresence::InProgress,
            Some("held") => FinalizerPresence::Held { tidy: true },
            Some("legacy") => FinalizerPresence::Held { tidy: false },
            other => panic!("{other:?}"),
        };
        let observed = Observed {
            presence,
            terminating: has("terminating"),
            was_held: before == "held",
            stale: has("stale"),
        };
        assert_eq!(
            next_step(cause, observed, progress),
            expected,
            "{cause:?} {shown} {progress:?}"
        );
    }
}
