//! Histories in which an earlier engine broke a rule, one test for each defect.

use crate::{play::play, replay::quiet_panics, script::Script};

#[test]
fn a_finalizer_that_is_removed_before_the_informer_has_it_is_restored() {
    holds("wrapped watcher | all | | create a x; list 0; wait 3; strip a; list 0");
    holds("wrapped reconciler | all | | create a x; list 0; wait 3; strip a; list 0");
    let coalesced = "wrapped watcher | all | coalescing always | \
                  create a x; list 0; wait 3; strip a; show 0 3; wait 1";
    holds(coalesced);
}

#[test]
fn an_object_whose_finalizer_could_not_be_restored_is_not_added_again() {
    for kind in ["wrapped watcher", "wrapped reconciler"] {
        let stripped = "hold a; show 0 9; wait 1; patch fails; strip a; show 0 9; wait 0";
        for then in [
            "touch a; show 0 9; wait 1",
            "touch a; show 0 9; delete a",
            "delete a",
        ] {
            holds(&format!(
                "{kind} | all | retry constant, no generation | \
                 create a x; list 0; wait 1; show 0 9; {stripped}; patch fails; {then}"
            ));
        }
    }
}

#[test]
fn an_add_after_a_restore_that_fails_is_retried() {
    holds(
        "wrapped reconciler | label x, label y | retry constant, seed 1 | create a x; list 0; \
         list 1; label a y; show 0 3; wait 0; delete a; next 0 fails after 2; create a x; \
         update a; restore; show 1 1; wait 1",
    );
}

#[test]
fn a_requeued_call_that_fails_is_retried() {
    for kind in ["reconciler", "wrapped reconciler"] {
        for shown in ["", "show 0 9;"] {
            holds(&format!(
                "{kind} | all | retry constant | \
                 create a x; next 0 requeues 2; next 0 fails; list 0; wait 1; {shown} wait 20"
            ));
        }
    }
}

#[test]
fn a_change_during_a_failed_finalizer_patch_is_handled() {
    for kind in ["wrapped watcher", "wrapped reconciler"] {
        for change in ["touch a", "hold a", "update a"] {
            let unwritten = "create a x; list 0; patch takes 2; patch fails; wait 3";
            holds(&format!(
                "{kind} | all | retry constant | {unwritten}; {change}; show 0 9; wait 9"
            ));
        }
    }
}

#[test]
fn a_failed_delete_is_retried_though_the_predicate_rejects_the_recreated_object() {
    holds(
        "reconciler, filtered reconciler | label x | retry constant | create a x; list 0; wait 0; \
         label a y; update a; next 1 panics; label a x; show 0 3; wait 0",
    );
}

#[test]
fn an_object_can_return_after_it_left_the_selector() {
    for kind in ["wrapped watcher", "wrapped reconciler"] {
        for wait in ["", "wait 1;"] {
            let back = format!("create a x; list 0; wait 0; label a y; show 0 9; {wait} label a x");
            for exit in ["", "exit cleans up", "exit reports"] {
                holds(&format!("{kind} | label x | {exit} | {back}"));
            }
        }
    }
}

#[test]
fn a_failed_add_that_is_repeated_with_a_state_of_an_earlier_life_writes_the_finalizer() {
    holds(
        "wrapped watcher, wrapped reconciler | label x | retry constant, as received | \
         create a x; list 0; wait 0; show 0 1; touch a; update a; label a y; show 0 5; wait 0; \
         next 1 fails; label a x; show 0 5; wait 0",
    );
}

#[test]
fn an_object_that_an_old_list_shows_with_the_guard_of_an_earlier_process_gets_it_again() {
    for kind in ["wrapped watcher", "wrapped reconciler"] {
        let left = "create a x; list 0; wait 0; label a y; show 0 5; wait 0";
        holds(&format!(
            "{kind} | label x | retry constant | {left}; restart; list old 0"
        ));
    }
}

#[test]
fn a_delete_outside_of_the_selector_may_be_missed_if_the_exit_is_only_reported() {
    for kind in ["wrapped watcher", "wrapped reconciler"] {
        let left = "create a x; list 0; wait 1; label a y; show 0 9; wait 1; strip a; delete a";
        holds(&format!("{kind} | label x | exit reports | {left}"));
    }
}

#[test]
fn a_clean_up_is_not_repeated_for_an_informer_that_lags() {
    let lags = "create a x; list 0; show 1 1; wait 0; delete a; crash; show 1 3; label a y; wait 0";
    holds(&format!(
        "wrapped reconciler | all, label x | retry constant | {lags}"
    ));
    holds(&format!(
        "wrapped watcher | all, label x | retry constant | {lags}"
    ));
}

#[test]
fn a_terminating_object_is_cleaned_up_though_a_stale_list_has_no_deletion_mark() {
    for kind in ["wrapped watcher", "wrapped reconciler"] {
        let old = "create a x; list 0; wait 20; restart; update a; list old 0; delete a";
        holds(&format!(
            "wrapped watcher, watcher, {kind} | all | retry constant | {old}"
        ));
    }
}

#[test]
fn the_objects_of_a_restored_server_are_handled() {
    for kind in [
        "wrapped watcher",
        "wrapped reconciler",
        "watcher",
        "reconciler",
    ] {
        for script in [
            "all, all | create a x; list 0; list 1; update a; restore; wait 0; list old 0; \
             delete a; wait 3",
            "all, label x | create a x; list 0; list 1; hold a; wait 3; show 0 2; restore; \
             show 0 1; show 1 2; free a; wait 0; delete a",
            "all | create a x; show 0 1; wait 0; delete a; show 0 3; restore",
            "all, label x | create a x; list 1; wait 20; restore; restore",
            "label x, label y | create a x; list 1; touch a; restore; show 0 1; wait 0; label a y",
            "all | create a x; show 0 3; update a; restore; remove informer 0; add again 0",
            "label x, all | create a x; update a; list 0; restore; label a y",
            "label x, all | create a x; update a; list 0; wait 0; restore; list 1; wait 0; \
             show 0 1; wait 0; label a y; show 1 1; wait 0; show 0 1",
        ] {
            let (informers, steps) = script.split_once(" | ").expect("two parts");
            holds(&format!("{kind} | {informers} | retry constant | {steps}"));
        }
    }
}

#[test]
fn a_failed_call_is_not_repeated_with_an_older_version_than_the_response_to_a_patch() {
    for kind in ["wrapped watcher", "wrapped reconciler"] {
        let failed = "create a x; list 0; hold a; next 0 fails; wait 20";
        holds(&format!("{kind} | all | retry constant | {failed}"));
    }
}

#[test]
fn a_clean_up_follows_a_failed_update_though_another_finalizer_remains() {
    holds(
        "wrapped watcher, wrapped reconciler | all | retry constant | create a x; list 0; \
           wait 20; next 0 fails; show 0 3; show 0 3; strip a; show 0 1; wait 0; delete a",
    );
}

#[test]
fn the_old_state_of_an_update_is_that_of_the_last_call() {
    for dequeue in ["", "dequeue never,"] {
        let taken_over = "create a x; list 0; touch a; next 0 fails; update a; wait 0";
        holds(&format!(
            "reconciler | all | {dequeue} retry constant | {taken_over}"
        ));
    }
}

#[test]
fn nothing_is_called_after_a_clean_up() {
    let stale = "watcher | all | dequeue opinionated, retry constant | create a x; list 0; wait 1; \
                 next 0 fails; update a; show 0 1; wait 0; next 0 fails; touch a; show 0 1; \
                 delete a; show 0 9; wait 20";
    holds(stale);
    let never = "reconciler | all | dequeue never, retry constant | create a x; list 0; delete a; \
                 next 0 fails; wait 3";
    holds(never);
    let wrapped = "wrapped watcher | all | dequeue opinionated, retry constant | create a x; \
                   list 0; wait 1; show 0 9; next 0 fails; update a; show 0 1; wait 0; delete a; \
                   show 0 9; wait 1; show 0 9";
    holds(wrapped);
}

#[test]
fn a_retry_does_not_receive_an_older_version() {
    holds(
        "reconciler | all, all | retry constant | create a x; list 0; list 1; wait 1; \
           next 0 fails; update a; show 1 1; wait 5; update a; show 1 1",
    );
}

#[test]
fn a_failed_delete_is_retried_though_the_object_is_recreated() {
    holds(
        "reconciler | all | retry constant | create a x; list 0; wait 20; delete a; show 0 2; \
           next 0 fails; wait 0; create a x",
    );
    holds(
        "reconciler | all | dequeue opinionated, retry constant | create a x; list 0; wait 1; \
           delete a; show 0 2; next 0 fails; wait 0; create a x; show 0 1; wait 0; delete a",
    );
}

#[test]
fn a_late_delete_event_does_not_affect_the_recreated_object() {
    holds(
        "reconciler | label x, label y | retry constant | create a x; list 0; list 1; wait 1; \
           delete a; create a y; next 0 fails; show 1 1; wait 1; show 0 1; wait 9",
    );
}

#[test]
fn a_change_of_another_client_is_neither_an_own_write_nor_stale() {
    for kind in ["wrapped watcher", "wrapped reconciler"] {
        holds(&format!(
            "{kind} | all | | create a x; list 0; patch is raced; wait 3"
        ));
        holds(&format!(
            "{kind} | all | | create a x; list 0; update a; show 0 1; update a; wait 3"
        ));
        holds(&format!(
            "{kind} | all | | create a x; list 0; patch is contended; wait 3"
        ));
    }
}

#[test]
fn a_requeue_repeats_its_action() {
    for kind in ["reconciler", "wrapped reconciler"] {
        holds(&format!(
            "{kind} | all | | create a x; list 0; next 0 requeues with state 10; wait 20"
        ));
        let shown = "create a x; list 0; next 0 requeues with state 10; wait 1; show 0 9; wait 20";
        holds(&format!("{kind} | all | | {shown}"));
        holds(&format!(
            "{kind} | all | retry constant | create a x; list 0; next 0 fails; wait 1; show 0 9; wait 20"
        ));
    }
}

#[test]
fn a_clean_up_after_a_selector_exit_is_done_once_also_if_the_release_fails() {
    for kind in ["wrapped watcher", "wrapped reconciler"] {
        for fault in [
            "fails",
            "is refused",
            "conflicts",
            "loses its answer",
            "takes 2",
            "is raced",
            "is contended",
            "is stripped",
        ] {
            let left = format!("release {fault}; label a y; show 0 9; wait 9");
            holds(&format!(
                "{kind} | label x | retry constant, exit cleans up | \
                 create a x; list 0; wait 1; show 0 9; wait 1; {left}"
            ));
        }
    }
}

#[test]
fn an_object_that_is_deleted_while_its_exit_is_processed_is_cleaned_up() {
    for kind in [
        "wrapped watcher",
        "wrapped reconciler",
        "early wrapped reconciler",
    ] {
        for exit in ["", ", exit cleans up"] {
            let marked = "create a x; list 0; wait 5; patch takes 2; label a y; show 0 5; wait 0; \
                          delete a";
            holds(&format!(
                "{kind} | label x | retry constant{exit} | {marked}"
            ));
        }
    }
}

/// An object leaves the selector and returns while calls and patches fail.
#[test]
fn an_object_that_returns_has_nothing_of_its_earlier_life() {
    for script in [
        "wrapped reconciler | label x | retry constant | create a x; list 0; label a y; show 0 5; \
         next 0 fails; label a x; release loses its answer; wait 0",
        "wrapped watcher, early wrapped filtered reconciler | label x | retry constant, exit cleans \
         up | create a x; show 0 5; wait 0; next 1 fails; label a y; show 0 5; wait 0; label a x",
        "reconciler, wrapped watcher | label x | retry constant, exit cleans up | create a x; \
         list 0; label a y; show 0 3; wait 0; next 1 fails after 6; label a x; next 1 fails; \
         label a y; show 0 5; wait 0",
        "wrapped reconciler, wrapped watcher | label x | retry constant | create a y; label a x; \
         show 0 5; wait 0; next 1 fails; label a y; show 0 5; wait 0; label a x",
        "wrapped watcher | label x | retry constant, exit cleans up, seed 1 | create a x; list 0; \
         wait 0; label a y; label a x; strip a",
        "wrapped reconciler | label x | retry constant, seed 1 | create a x; list 0; \
         next 0 fails with state; label a y; label a x; wait 0",
        "wrapped reconciler | label x | retry constant, seed 1 | create a x; list 0; wait 0; \
         next 0 fails after 6; update a; label a y; show 0 5; wait 0; label a x",
        "wrapped watcher | label x | retry constant, exit cleans up, seed 1 | create a x; list 0; \
         label a y; show 0 3; wait 5; label a x; delete a",
        "early wrapped reconciler | label x | retry constant, exit cleans up, seed 1 | create a x; \
         list 0; label a y; show 0 3; wait 5; label a x; delete a",
        "wrapped watcher | label x | retry constant, seed 1 | show 0 1; create a x; \
         release is stripped; label a y; show 0 5; wait 0; label a x",
    ] {
        holds(script);
    }
}

#[test]
fn each_object_is_cleaned_up_exactly_once() {
    for kind in ["wrapped watcher", "wrapped reconciler"] {
        let once = "create a x; list 0; wait 1; show 0 9; delete a; patch fails; show 0 9; wait 9";
        holds(&format!("{kind} | all | retry constant | {once}"));
        let stripped = "create a x; list 0; wait 1; show 0 9; next 0 fails; delete a; show 0 9; \
                        wait 1; strip a; show 0 9";
        holds(&format!("{kind} | all | retry constant | {stripped}"));
        let vanished = "create a x; list 0; wait 1; strip a; delete a";
        holds(&format!("{kind} | all | retry constant | {vanished}"));
    }
}

/// The calls that are pending when an event arrives which the predicate in a wrapper rejects.
#[test]
fn a_predicate_in_a_wrapper_loses_no_pending_call() {
    for kind in [
        "wrapped filtered watcher",
        "wrapped filtered reconciler",
        "early wrapped filtered reconciler",
    ] {
        let requeued = "create a x; next 0 requeues 10; list 0; wait 1; touch a; show 0 9; wait 20";
        let failed = "create a x; list 0; wait 1; show 0 9; next 0 fails; update a; show 0 9; \
                      wait 0; touch a; strip a; show 0 9; wait 1; touch a; show 0 9; wait 20";
        let first = "create a x; next 0 fails; list 0; wait 1; strip a; show 0 9; wait 0; \
                     touch a; show 0 9; wait 20";
        for steps in [requeued, failed, first] {
            for options in ["retry constant", "retry constant, as received"] {
                holds(&format!("{kind} | all | {options} | {steps}"));
            }
        }
    }
}

/// An object leaves the selector and returns, and its first call then fails.
#[test]
fn a_second_life_in_the_selector_is_cleaned_up() {
    for kind in [
        "wrapped watcher",
        "wrapped reconciler",
        "early wrapped reconciler",
    ] {
        for exit in ["", "exit cleans up,"] {
            let back = "create a x; list 0; wait 1; show 0 9; label a y; show 0 9; wait 1; \
                        next 0 fails; label a x; show 0 9; wait 0";
            for then in [
                "delete a; show 0 9; wait 1",
                "label a y; show 0 9; wait 1; delete a",
            ] {
                holds(&format!(
                    "{kind} | label x | {exit} retry constant | {back}; {then}"
                ));
            }
        }
    }
}

#[test]
fn a_kept_call_is_not_repeated_after_the_clean_up() {
    holds(
        "early wrapped reconciler | label x | dequeue opinionated, retry constant, as received, \
         seed 1 | create a x; list 0; hold a; wait 1; label a y; next 0 fails; label a x; show 0 5; \
         wait 0; delete a",
    );
}

/// The event is taken over by a call that the policy has kept, and another call has succeeded.
#[test]
fn a_kept_call_passes_on_the_changes_that_it_has_taken_over() {
    holds(
        "wrapped reconciler, wrapped reconciler | label x | dequeue coin, retry constant, seed 1 | \
         create a y; next 1 fails; next 0 fails; label a x; show 0 5; wait 0; update a",
    );
    for policy in ["opinionated", "never"] {
        holds(&format!(
            "wrapped reconciler | all | dequeue {policy}, retry constant | create a x; list 0; \
             next 0 fails; wait 0; update a; show 0 9; wait 0; show 0 9; touch a; show 0 9; wait 20"
        ));
    }
}

/// Calls that the rules once reported, although the engine is right.
#[test]
fn a_call_that_looks_repeated_belongs_to_a_new_life_or_to_a_kept_request() {
    for script in [
        // Its new life ended before a call.
        "wrapped reconciler | label x | retry constant, exit cleans up, seed 1 | create a x; list 0; \
         label a y; show 0 3; wait 0; patch is refused; label a x; show 0 5; wait 0; label a y",
        // It returned before its finalizer was removed, and the removal failed.
        "wrapped reconciler | label x | retry constant, seed 1 | create a x; list 0; label a y; \
         release is refused; label a x; show 0 3; wait 0",
        // The requeue has the object of an event that the predicate rejected.
        "early wrapped filtered reconciler | label x | dequeue never, retry constant, seed 1 | \
         create a x; list 0; wait 0; next 0 requeues 6; show 0 1; update a; show 0 1; wait 0; \
         touch a",
        // The policy keeps the retry of the create when the object is updated.
        "early wrapped reconciler | label x | dequeue opinionated, retry constant, seed 1 | \
         create a x; list 0; next 0 fails with state; wait 0; update a",
        // The policy drops the requeue of an earlier generation.
        "wrapped reconciler, wrapped reconciler | label x | dequeue opinionated, retry constant, \
         seed 1 | create a x; show 0 5; wait 0; next 0 requeues 2; update a; show 0 2; show 0 1; \
         wait 0",
        // It returned after a clean-up that failed.
        "wrapped reconciler | label x | retry constant, exit cleans up, seed 1 | create a x; list 0; \
         label a y; wait 20; next 0 fails with state; show 0 1; wait 0; label a x; delete a",
        // Another client removed the finalizers outside of the selector, before the last call.
        "wrapped reconciler, wrapped watcher | label x | retry constant, seed 1 | create a x; \
         list 0; wait 1; label a y; strip a; label a x",
        // The exit has cancelled the requeue, although the release failed.
        "wrapped reconciler | label x | dequeue opinionated, retry constant, seed 1 | create a x; \
         list 0; next 0 fails; wait 0; next 0 requeues 1; release is refused; update a; label a y; \
         show 0 5; wait 0; label a x",
        "wrapped reconciler | label x | retry constant, seed 1 | create a x; list 0; wait 0; \
         delete a; next 0 fails after 1; next 0 requeues with state 10; label a y; show 0 5; \
         wait 0; label a x",
        // Another client released it, and it was deleted before it had the finalizer again.
        "wrapped watcher | label x | retry constant, seed 1 | create a x; list 0; \
         release is stripped; label a y; show 0 5; wait 0; label a x; delete a",
        "wrapped reconciler | label x | retry constant, seed 1 | create a x; list 0; wait 20; \
         label a y; strip a; show 0 3; wait 0; label a x; delete a",
        // Its new life began with a call that failed, after a release that had failed.
        "wrapped reconciler, wrapped reconciler | label x | retry never, seed 1 | create a x; list 0; \
         release is refused; label a y; wait 0; next 0 fails; label a x; show 0 5; wait 0",
        // A wrapper has passed on a newer object than that of the event with which it is repeated.
        "wrapped reconciler, wrapped reconciler | label x | retry constant, as received, exit cleans \
         up, seed 1 | create a x; list 0; wait 0; next 1 fails; label a y; show 0 5; next 1 fails; \
         label a x; show 0 5; wait 0",
    ] {
        holds(script);
    }
}

/// The history breaks no rule.
#[track_caller]
fn holds(script: &str) {
    quiet_panics();
    let script: Script = script.parse().unwrap_or_else(|error| panic!("{error}"));
    if let Err(failed) = play(&script) {
        panic!("{failed}\nscript: {script}");
    }
}
