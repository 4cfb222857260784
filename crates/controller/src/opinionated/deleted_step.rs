//! Computes what a wrapper does for an object that the informer reported as deleted. *(pure)*
//!
//! The object may exist: it was deleted, or has left the selector of the informer. So
//! [`deleted_step`] decides whether anything is left to do, and [`exit_step`] what, once the object
//! was read from the server.

use super::{
    memory::Progress,
    next_step::{Settings, UnheldDeletes},
    selector_exit::OnSelectorExit,
};
use crate::{DeleteOrder, finalizer::FinalizerPresence};

/// The step for an object that the informer reported as deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeletedStep {
    /// Forget the object, except that it was cleaned up or released.
    Retire,
    /// Forget the object.
    Forget,
    /// Read the object from the server, and compute the next step.
    Exit,
}

/// What the server has of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Live {
    /// It does not exist.
    Gone,
    Exists {
        /// Whether it is marked for deletion.
        terminating: bool,
        /// Whether it has a finalizer of ours.
        held: bool,
    },
}

/// The step for an object that no informer shows any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitStep {
    /// Nothing is left to do: its life has ended.
    End,
    /// Call the inner handler for the clean-up, and compute the next step again.
    CleanUp,
    /// Remove the finalizer.
    Release,
    /// Keep the finalizer, and log that.
    Report,
}

/// Computes the step for an object that the informer reported as deleted, and whose last state
/// shows `presence`.
pub(super) fn deleted_step(
    settings: Settings,
    presence: FinalizerPresence,
    progress: Option<Progress>,
) -> DeletedStep {
    let free = presence == FinalizerPresence::Absent;
    match progress {
        Some(Progress::Released | Progress::Gone) if settings.order == DeleteOrder::WhileHeld => {
            DeletedStep::Retire
        }
        Some(Progress::Ignored) if free && settings.unheld != UnheldDeletes::Pass => {
            DeletedStep::Forget
        }
        None if free && settings.unheld == UnheldDeletes::Skip => DeletedStep::Forget,
        _ => DeletedStep::Exit,
    }
}

/// Computes the step for an object that no informer shows any more.
pub(super) fn exit_step(
    on_selector_exit: OnSelectorExit,
    progress: Option<Progress>,
    live: Live,
) -> ExitStep {
    let is_cleaned_up = progress == Some(Progress::CleanedUp);
    match (live, on_selector_exit) {
        (Live::Exists { held: true, .. }, _) if is_cleaned_up => ExitStep::Release,
        _ if is_cleaned_up => ExitStep::End,
        // Also if another writer has removed our finalizer.
        (
            Live::Gone
            | Live::Exists {
                terminating: true, ..
            },
            _,
        )
        | (_, OnSelectorExit::CleanUp) => ExitStep::CleanUp,
        (Live::Exists { held: false, .. }, _) => ExitStep::End,
        (_, OnSelectorExit::Release) => ExitStep::Release,
        (_, OnSelectorExit::Report) => ExitStep::Report,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FinalizerTiming;

    const EXITS: [OnSelectorExit; 3] = [
        OnSelectorExit::Release,
        OnSelectorExit::CleanUp,
        OnSelectorExit::Report,
    ];
    const FREE: Live = exists(false, false);
    const HELD: Live = exists(false, true);
    const TERMINATING_FREE: Live = exists(true, false);
    const TERMINATING_HELD: Live = exists(true, true);

    const fn exists(terminating: bool, held: bool) -> Live {
        Live::Exists { terminating, held }
    }

    #[test]
    fn a_deleted_object_is_cleaned_up_unless_that_was_done_or_it_was_never_ours() {
        use UnheldDeletes::{Pass, PassIfSeenBefore, Skip};
        let free = FinalizerPresence::Absent;
        let held = FinalizerPresence::Held { tidy: true };
        let (unknown, ignored) = (None, Some(Progress::Ignored));
        for unheld in [Pass, PassIfSeenBefore, Skip] {
            for ended in [Progress::Released, Progress::Gone].map(Some) {
                check_deleted(unheld, free, ended, DeletedStep::Retire);
            }
            for progress in [
                Progress::Held,
                Progress::Added,
                Progress::Begun { held: false },
                Progress::CleaningUp,
            ] {
                check_deleted(unheld, free, Some(progress), DeletedStep::Exit);
            }
            check_deleted(unheld, held, unknown, DeletedStep::Exit);
            check_deleted(unheld, held, ignored, DeletedStep::Exit);
        }
        check_deleted(Pass, free, unknown, DeletedStep::Exit);
        check_deleted(Pass, free, ignored, DeletedStep::Exit);
        check_deleted(PassIfSeenBefore, free, unknown, DeletedStep::Exit);
        check_deleted(PassIfSeenBefore, free, ignored, DeletedStep::Forget);
        check_deleted(Skip, free, unknown, DeletedStep::Forget);
        check_deleted(Skip, free, ignored, DeletedStep::Forget);
    }

    #[test]
    fn after_the_removal_a_deleted_object_is_cleaned_up() {
        for ended in [Progress::Released, Progress::Gone] {
            let settings = settings(DeleteOrder::AfterRemoval, UnheldDeletes::Pass);
            let step = deleted_step(settings, FinalizerPresence::Absent, Some(ended));
            assert_eq!(step, DeletedStep::Exit, "{ended:?}");
            check_exit(&EXITS, Some(ended), Live::Gone, ExitStep::CleanUp);
        }
    }

    #[test]
    fn an_object_that_dies_is_cleaned_up_whatever_the_setting_is() {
        for progress in [None, Some(Progress::Held), Some(Progress::CleanUpBegun)] {
            for live in [Live::Gone, TERMINATING_FREE, TERMINATING_HELD] {
                check_exit(&EXITS, progress, live, ExitStep::CleanUp);
            }
        }
    }

    #[test]
    fn an_object_that_left_the_selector_is_processed_as_the_setting_says() {
        let [release, clean_up, report] = EXITS;
        for progress in [None, Some(Progress::Held), Some(Progress::CleanUpBegun)] {
            check_exit(&[release], progress, HELD, ExitStep::Release);
            check_exit(&[report], progress, HELD, ExitStep::Report);
            check_exit(&[release, report], progress, FREE, ExitStep::End);
            for live in [FREE, HELD] {
                check_exit(&[clean_up], progress, live, ExitStep::CleanUp);
            }
        }
    }

    #[test]
    fn after_a_clean_up_only_the_finalizer_is_removed() {
        let cleaned_up = Some(Progress::CleanedUp);
        for live in [Live::Gone, FREE, TERMINATING_FREE] {
            check_exit(&EXITS, cleaned_up, live, ExitStep::End);
        }
        for live in [HELD, TERMINATING_HELD] {
            check_exit(&EXITS, cleaned_up, live, ExitStep::Release);
        }
    }

    fn settings(order: DeleteOrder, unheld: UnheldDeletes) -> Settings {
        Settings {
            order,
            timing: FinalizerTiming::AfterFirstCall,
            for_watcher: false,
            resumes: true,
            unheld,
        }
    }

    #[track_caller]
    fn check_deleted(
        unheld: UnheldDeletes,
        presence: FinalizerPresence,
        progress: Option<Progress>,
        expected: DeletedStep,
    ) {
        let step = deleted_step(settings(DeleteOrder::WhileHeld, unheld), presence, progress);
        assert_eq!(step, expected, "{unheld:?} {presence:?} {progress:?}");
    }

    #[track_caller]
    fn check_exit(
        exits: &[OnSelectorExit],
        progress: Option<Progress>,
        live: Live,
        expected: ExitStep,
    ) {
        for exit in exits {
            let step = exit_step(*exit, progress, live);
            assert_eq!(step, expected, "{exit:?} {progress:?} {live:?}");
        }
    }
}
