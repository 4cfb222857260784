//! Each step, for each observation that decides about it.

use super::{
    Cause::{Added, Resynced, Updated},
    *,
};

const CAUSES: [Cause; 3] = [Added, Updated, Resynced];
const BEGUN: Option<Progress> = Some(Progress::Begun { held: false });
const BEGUN_WITH_FINALIZER: Option<Progress> = Some(Progress::Begun { held: true });
const ADDED: Option<Progress> = Some(Progress::Added);
const HELD: Option<Progress> = Some(Progress::Held);

const CREATED: NextStep = NextStep::Call(Action::Created);
const UPDATE: NextStep = NextStep::Call(Action::Updated);
const RESYNC: NextStep = NextStep::Call(Action::Resynced);

#[test]
fn a_new_object_is_added() {
    for cause in CAUSES {
        check(cause, "free", None, NextStep::Add);
        // Another process has begun to add it, and it is not known how that ended.
        check(cause, "in-progress", None, NextStep::Add);
    }
}

#[test]
fn an_object_with_the_finalizer_is_not_added_again() {
    check(Added, "held", None, RESYNC);
    check(Resynced, "held", None, RESYNC);
    check(Updated, "held relevant", None, UPDATE);
    check(Updated, "held irrelevant", None, NextStep::Decline);
}

#[test]
fn an_object_that_an_earlier_process_added_is_passed_at_the_start_if_that_is_set() {
    check(Added, "held watcher", None, RESYNC);
    check(Added, "held watcher unset", None, NextStep::Decline);
    check(Resynced, "held watcher unset", None, RESYNC);
    // The repetition of an add that a dequeue policy has kept.
    check(Added, "held watcher unset repeated add", None, RESYNC);
}

#[test]
fn an_update_whose_old_state_does_not_decode_is_passed() {
    for change in ["unknown", "relevant"] {
        let check = |shown: &str, expected| {
            check(
                Added,
                &format!("held lost-old {change} {shown}"),
                None,
                expected,
            );
        };
        check("watcher unset", UPDATE);
        check("watcher", RESYNC);
        check("", RESYNC);
    }
    let received = "held lost-old irrelevant watcher unset";
    check(Added, received, None, NextStep::Decline);
}

#[test]
fn a_state_from_before_our_patch_is_no_removed_finalizer() {
    for shown in ["stale free", "stale in-progress"] {
        check(Updated, shown, HELD, NextStep::Decline);
        check(Updated, &format!("{shown} relevant"), HELD, UPDATE);
        check(Added, shown, HELD, NextStep::Decline);
        check(Resynced, shown, HELD, RESYNC);
    }
}

#[test]
fn an_object_whose_add_has_not_succeeded_is_added_whatever_finalizer_it_has() {
    for cause in CAUSES {
        for shown in ["free", "stale free", "held", "free was-held", "legacy"] {
            check(cause, shown, BEGUN_WITH_FINALIZER, NextStep::Add);
            let early = format!("{shown} early add");
            check(cause, &early, None, NextStep::Add);
        }
        for shown in ["free add", "free was-held add", "in-progress add"] {
            check(cause, shown, None, NextStep::Add);
        }
        check(cause, "stale held", BEGUN, NextStep::Add);
        for shown in ["terminating held", "terminating free"] {
            check(cause, shown, BEGUN_WITH_FINALIZER, NextStep::CleanUp);
        }
    }
}

#[test]
fn a_repeated_add_passes_what_has_changed_since_another_call_has_added_the_object() {
    for cause in CAUSES {
        for shown in ["held repeated add", "held repeated add watcher unset"] {
            for progress in [None, HELD] {
                let check = |change, expected| {
                    check(cause, &format!("{shown} {change}"), progress, expected);
                };
                check("irrelevant", NextStep::Finish);
                check("relevant", UPDATE);
                // It may have replaced the call for any event.
                check("unknown", RESYNC);
            }
        }
    }
    // A new event is passed as itself.
    check(Updated, "held add relevant", None, UPDATE);
    check(Resynced, "held add", None, RESYNC);
    // Early, the finalizer does not show that it was added.
    check(Added, "held early repeated add", None, NextStep::Add);
    let held = "held early repeated add irrelevant";
    check(Added, held, HELD, NextStep::Finish);
}

#[test]
fn a_repeated_call_of_a_reconciler_repeats_its_action() {
    for cause in CAUSES {
        for action in ["created", "updated", "resynced"] {
            for change in ["", "relevant", "irrelevant"] {
                let call = format!("held {action} {change}");
                check(cause, &format!("{call} repeated"), None, NextStep::Repeat);
            }
        }
    }
    // A new event is passed as itself.
    check(Updated, "held resynced relevant", None, UPDATE);
    check(Resynced, "held updated", None, RESYNC);
    check(Updated, "held updated irrelevant", None, NextStep::Decline);
}

#[test]
fn any_event_repeats_a_call_of_a_watcher_that_has_failed() {
    for cause in CAUSES {
        for change in ["", "relevant", "irrelevant"] {
            let shown = format!("held watcher unset {change}");
            let updated = format!("{shown} updated");
            check(cause, &updated, None, NextStep::Repeat);
            let expected = match (cause, change) {
                // It includes the resync.
                (Updated, "relevant") => UPDATE,
                _ => NextStep::Repeat,
            };
            check(cause, &format!("{shown} resynced"), None, expected);
        }
    }
}

#[test]
fn a_finalizer_that_is_not_written_yet_comes_first() {
    for cause in CAUSES {
        check(cause, "in-progress", ADDED, NextStep::Hold);
        check(cause, "held", ADDED, NextStep::Hold);
        check(cause, "legacy", None, NextStep::Hold);
        check(cause, "in-progress finalizer", None, NextStep::Hold);
    }
}

#[test]
fn after_a_finalizer_was_written_late_only_what_has_changed_is_passed() {
    for written in ["held finalizer", "held finalizer watcher unset"] {
        let check = |cause, shown: &str, expected| {
            check(cause, &format!("{written} {shown}"), HELD, expected);
        };
        for cause in [Added, Updated] {
            for repeated in ["", "repeated"] {
                check(cause, &format!("irrelevant {repeated}"), NextStep::Finish);
                check(cause, &format!("relevant {repeated}"), UPDATE);
            }
        }
        check(Resynced, "irrelevant", RESYNC);
        check(Resynced, "irrelevant repeated", NextStep::Finish);
        check(Resynced, "relevant repeated", RESYNC);
    }
}

#[test]
fn a_released_object_that_returns_is_added() {
    for cause in CAUSES {
        let released = Some(Progress::Released);
        check(cause, "stale held", released, NextStep::Add);
        check(cause, "free", released, NextStep::Add);
    }
}

#[test]
fn an_object_that_exists_after_its_clean_up_is_added() {
    for cause in CAUSES {
        for progress in [Progress::CleanedUp, Progress::CleanUpBegun] {
            for shown in ["free", "in-progress", "held", "stale held"] {
                check(cause, shown, Some(progress), NextStep::Add);
            }
        }
        let undone = Some(Progress::CleanUpBegun);
        check(cause, "terminating held", undone, NextStep::CleanUp);
        check(cause, "terminating free", undone, NextStep::CleanUp);
    }
}

#[test]
fn an_object_that_terminates_on_the_server_waits_for_that_event() {
    for cause in CAUSES {
        let doomed = Some(Progress::Terminating);
        check(cause, "free", doomed, NextStep::Decline);
        check(cause, "held", doomed, NextStep::Decline);
        check(cause, "free repeated add", doomed, NextStep::Decline);
        check(cause, "terminating held", doomed, NextStep::CleanUp);
    }
}

#[test]
fn nothing_is_done_after_the_end_of_an_object() {
    for cause in CAUSES {
        for shown in ["free", "held", "terminating held", "terminating free"] {
            for call in ["", "repeated add", "repeated updated", "watcher updated"] {
                let shown = format!("{shown} {call}");
                check(cause, &shown, Some(Progress::Gone), NextStep::Finish);
            }
        }
    }
}

#[test]
fn a_finalizer_removed_by_another_client_is_restored() {
    for cause in CAUSES {
        for call in ["", "repeated updated", "watcher updated"] {
            check(cause, &format!("free {call}"), HELD, NextStep::Hold);
            check(
                cause,
                &format!("free was-held {call}"),
                None,
                NextStep::Hold,
            );
        }
        check(cause, "free repeated add", HELD, NextStep::Hold);
    }
}

#[test]
fn a_dying_object_is_cleaned_up_until_that_has_succeeded() {
    for cause in CAUSES {
        for shown in [
            "terminating in-progress",
            "terminating held",
            "terminating legacy",
            "terminating held repeated updated",
            "terminating held watcher updated",
            "terminating in-progress repeated add",
        ] {
            for progress in [None, HELD, ADDED, Some(Progress::CleaningUp)] {
                check(cause, shown, progress, NextStep::CleanUp);
                let removed = format!("{shown} after-removal");
                check(cause, &removed, progress, NextStep::Release);
            }
            check(cause, shown, Some(Progress::CleanedUp), NextStep::Release);
        }
        // Another writer has added it again.
        let again = "terminating held";
        check(cause, again, Some(Progress::Released), NextStep::Release);
        let stale = "stale terminating held";
        check(cause, stale, Some(Progress::Released), NextStep::Decline);
        check(cause, stale, Some(Progress::CleanedUp), NextStep::Release);
    }
}

#[test]
fn a_terminating_object_whose_finalizer_another_client_removed_is_cleaned_up() {
    for cause in CAUSES {
        for progress in [Progress::Held, Progress::Added, Progress::CleaningUp] {
            check(cause, "terminating free", Some(progress), NextStep::CleanUp);
        }
        let held = "terminating free was-held";
        check(cause, held, None, NextStep::CleanUp);
        for progress in [Progress::CleanedUp, Progress::Released] {
            check(cause, "terminating free", Some(progress), NextStep::Decline);
        }
    }
}

#[test]
fn a_dying_object_that_was_never_ours_is_ignored() {
    for cause in CAUSES {
        check(cause, "terminating free", None, NextStep::Ignore);
        let ignored = Some(Progress::Ignored);
        check(cause, "terminating free", ignored, NextStep::Decline);
        // It got our finalizer after it was first seen.
        check(cause, "terminating held", ignored, NextStep::CleanUp);
    }
}

#[test]
fn an_object_that_the_server_shows_as_added_is_not_added_again() {
    for (shown, expected) in [
        ("", RESYNC),
        ("watcher", RESYNC),
        ("watcher unset", NextStep::Decline),
        ("repeated add", NextStep::Finish),
        ("add", RESYNC),
        ("repeated created", NextStep::Repeat),
        ("created", RESYNC),
        ("watcher unset updated", NextStep::Repeat),
    ] {
        let observed = observed(Added, &format!("free {shown}"), BEGUN);
        assert_eq!(step_if_added_before(&observed), expected, "{shown}");
    }
}

#[track_caller]
fn check(cause: Cause, shown: &str, progress: Option<Progress>, expected: NextStep) {
    let step = next_step(&observed(cause, shown, progress));
    assert_ne!(step, CREATED, "an add writes a finalizer first");
    assert_eq!(step, expected, "{cause:?} {shown} {progress:?}");
}

/// What the words in `shown` say.
fn observed(cause: Cause, shown: &str, progress: Option<Progress>) -> Observed {
    let mut observed = Observed {
        settings: Settings {
            order: DeleteOrder::WhileHeld,
            timing: FinalizerTiming::AfterFirstCall,
            for_watcher: false,
            resumes: true,
            unheld: UnheldDeletes::Pass,
        },
        cause,
        change: Change::Unknown,
        repeated: false,
        unfinished: None,
        progress,
        presence: FinalizerPresence::Absent,
        terminating: false,
        was_held: false,
        stale: false,
        lost_old: false,
    };
    let settings = &mut observed.settings;
    for word in shown.split_whitespace() {
        match word {
            "free" => observed.presence = FinalizerPresence::Absent,
            "in-progress" => observed.presence = FinalizerPresence::InProgress,
            "held" => observed.presence = FinalizerPresence::Held { tidy: true },
            "legacy" => observed.presence = FinalizerPresence::Held { tidy: false },
            "terminating" => observed.terminating = true,
            "was-held" => observed.was_held = true,
            "stale" => observed.stale = true,
            "lost-old" => observed.lost_old = true,
            "unknown" => observed.change = Change::Unknown,
            "irrelevant" => observed.change = Change::Irrelevant,
            "relevant" => observed.change = Change::Relevant,
            "repeated" => observed.repeated = true,
            "add" => observed.unfinished = Some(Unfinished::Add),
            "finalizer" => observed.unfinished = Some(Unfinished::Finalizer),
            "created" => observed.unfinished = Some(Unfinished::Call(Action::Created)),
            "updated" => observed.unfinished = Some(Unfinished::Call(Action::Updated)),
            "resynced" => observed.unfinished = Some(Unfinished::Call(Action::Resynced)),
            "watcher" => settings.for_watcher = true,
            "unset" => settings.resumes = false,
            "early" => settings.timing = FinalizerTiming::BeforeFirstCall,
            "after-removal" => settings.order = DeleteOrder::AfterRemoval,
            other => panic!("{other}"),
        }
    }
    observed
}
