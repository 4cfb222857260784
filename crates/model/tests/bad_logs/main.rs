//! Each rule reports logs that break it, and no other logs.

use std::time::Duration;

use windlass_model::{Coalescing, Retry, Settings, check_all, rules};

// The text form of a log.
mod text;

// The rules of level-triggered controllers.
mod level;

use self::text::parse;

/// A watcher, an informer, and an object that was handled.
const HANDLED: &str = "add h0 watcher; add i0; start; i0 lists a1@1; i0 synced; \
                       call h0 created a1@1; done; ";

/// The same with a reconciler.
const RECONCILED: &str = "add h0 reconciler; add i0; start; i0 lists a1@1; i0 synced; ";

/// The same with a wrapped watcher.
const WRAPPED: &str = "add h0 wrapped; add i0; start; server a1@1; i0 lists a1@1; i0 synced; \
                       h0 writes a1@2 wip; call h0 created a1@2 wip; done; h0 writes a1@3 own; \
                       i0 updates a1@2 wip; i0 updates a1@3 own; wait 1; ";

/// What a process remembers never happened on a restored server, so that it ends. The rules hold again
/// for the next one.
#[test]
fn no_rule_holds_for_a_process_whose_server_was_restored() {
    let goes_back = "call h0 updated a1@0 g2 from 1; done; ";
    let rule = "versions_never_go_back";
    check(HANDLED, goes_back, rule);
    check(HANDLED, &format!("restored; {goes_back}settled"), "");
    let again = format!("restored; stop; {HANDLED}{goes_back}");
    check(HANDLED, &again, rule);
}

#[test]
fn a_good_log_breaks_no_rule() {
    check(
        HANDLED,
        "i0 updates a1@2 g2; call h0 updated a1@2 g2 from 1; done; settled",
        "",
    );
    check(
        HANDLED,
        "i0 deletes a1@2; call h0 deleted a1@2; done; quiet; settled",
        "",
    );
    check(
        RECONCILED,
        "call h0 created a1@1; failed state 7; wait 4; call h0 created a1@1 attempt 1 state 7; done; settled",
        "",
    );
    check(
        RECONCILED,
        "call h0 created a1@1; requeue 5 state 1; wait 5; call h0 created a1@1 state 1; done; settled",
        "",
    );
    check(
        WRAPPED,
        "server a1@4 g2 terminating own; i0 updates a1@4 g2 terminating own; call h0 deleted a1@4 g2 terminating own; done; h0 erases a1@4; i0 deletes a1@5 g2 terminating own; settled",
        "",
    );
}

#[test]
fn two_calls_at_once_are_reported() {
    let two = "add h0 watcher; add h1 watcher; add i0; start; i0 lists a1@1; i0 synced; ";
    check(
        two,
        "call h0 created a1@1; call h1 created a1@1",
        "calls_for_one_object_never_overlap",
    );
}

#[test]
fn a_call_of_a_removed_handler_is_reported() {
    let log = "i0 updates a1@2; remove h0; call h0 updated a1@2 from 1";
    check(HANDLED, log, "a_removed_handler_is_not_called");
}

#[test]
fn a_call_before_sync_is_reported() {
    let log = "add h0 watcher; add i0; add i1; start; i0 lists a1@1; i0 synced; \
               call h0 created a1@1; done";
    check("", log, "no_handler_is_called_before_sync");
}

#[test]
fn a_call_out_of_order_is_reported() {
    let two = "add h0 reconciler; add h1 watcher; add i0; start; i0 lists a1@1; i0 synced; ";
    check(
        two,
        "call h0 created a1@1; done",
        "handlers_are_called_in_add_order",
    );
    check(
        two,
        "call h1 created a1@1; done; call h0 created a1@1; done; settled",
        "",
    );
}

#[test]
fn a_call_when_all_is_quiet_is_reported() {
    let log = "quiet; settled; wait 60; i0 updates a1@2; call h0 updated a1@2 from 1";
    check(HANDLED, log, "no_call_follows_after_all_work_is_done");
}

#[test]
fn a_first_call_that_is_not_created_is_reported() {
    let log = "add h0 watcher; add i0; start; i0 synced; i0 adds a1@1; i0 updates a1@2; \
               call h0 updated a1@2 from 1; done";
    check("", log, "the_first_call_is_created");
    // The delete of a listed object is dispatched, because an earlier process may have handled it.
    let gone = "add h0 watcher; add i0; start; i0 lists a1@1; i0 synced; i0 deletes a1@2; ";
    check(gone, "call h0 deleted a1@2; done; settled", "");
    let live = "add h0 watcher; add i0; start; i0 synced; i0 adds a1@1; i0 deletes a1@2; ";
    check(
        live,
        "call h0 deleted a1@2; done; settled",
        "the_first_call_is_created",
    );
    check(live, "settled", "");
}

#[test]
fn a_second_created_is_reported() {
    check(
        HANDLED,
        "call h0 created a1@1; done",
        "created_is_not_repeated",
    );
}

#[test]
fn a_call_after_deleted_is_reported() {
    let log = "i0 updates a1@2; i0 deletes a1@3; call h0 deleted a1@3; done; \
               call h0 updated a1@2 from 1; done";
    check(HANDLED, log, "nothing_follows_deleted");
    let back = "i0 deletes a1@3; call h0 deleted a1@3; done; wait 1; i0 adds a1@4; \
                call h0 created a1@4; done; settled";
    check(HANDLED, back, "");
}

#[test]
fn a_deleted_of_an_object_that_is_there_is_reported() {
    let both = "add h0 watcher; add i0; add i1; start; i0 lists a1@1; i0 synced; i1 lists a1@1; \
                i1 synced; call h0 created a1@1; done; wait 1; i0 deletes a1@2; ";
    check(
        both,
        "call h0 deleted a1@2; done",
        "deleted_is_called_when_no_informer_has_the_object",
    );
    check(
        both,
        "i1 deletes a1@2; call h0 deleted a1@2; done; settled",
        "",
    );
}

#[test]
fn a_successor_before_the_delete_is_reported() {
    let log = "i0 deletes a1@2; wait 1; i0 adds a2@3; call h0 created a2@3; done";
    check(HANDLED, log, "a_recreated_object_waits_for_the_delete");
}

#[test]
fn an_object_that_was_not_shown_is_reported() {
    check(
        HANDLED,
        "call h0 created b9@9; done",
        "an_informer_has_an_object_before_it_is_handled",
    );
}

#[test]
fn a_version_that_goes_back_is_reported() {
    let log = "i0 updates a1@2; i0 updates a1@3; call h0 updated a1@3 from 1; done; \
               call h0 updated a1@2 from 1; done";
    check(HANDLED, log, "versions_never_go_back");
}

#[test]
fn an_update_with_a_gap_before_it_is_reported() {
    let log = "i0 updates a1@2; i0 updates a1@3; call h0 updated a1@3 from 2; done; settled";
    check(HANDLED, log, "an_update_begins_where_the_last_call_ended");
}

#[test]
fn a_skipped_event_is_reported() {
    let log = "i0 updates a1@2; i0 updates a1@3; call h0 updated a1@3 from 1; done; settled";
    check(HANDLED, log, "no_event_is_skipped_without_coalescing");
}

#[test]
fn a_delete_after_its_successor_is_reported() {
    let log = "i0 deletes a1@2; call h0 deleted a1@2; failed; i0 adds a2@3; call h0 created a2@3; \
               done; wait 4; call h0 deleted a1@2; done; settled";
    check(
        HANDLED,
        log,
        "a_recreated_object_ends_the_delete_if_configured",
    );
}

#[test]
fn a_finalizer_left_behind_is_reported() {
    let log = "server a1@4 own; i0 deletes a1@4 own; wait 1; settled";
    check(WRAPPED, log, "an_object_that_left_the_selector_is_released");
}

#[test]
fn a_call_without_a_cause_is_reported() {
    let log = "i0 updates a1@2; call h0 updated a1@2 from 1; done; call h0 updated a1@2 from 1; done; settled";
    check(HANDLED, log, "a_call_has_a_cause");
}

#[test]
fn a_retry_that_comes_early_is_reported() {
    let log =
        "call h0 created a1@1; failed; i0 updates a1@2; call h0 updated a1@2 from 1 attempt 1";
    check(RECONCILED, log, "a_retry_waits_until_it_is_due");
    let urgent = "call h0 created a1@1; failed; i0 updates a1@2 g2; call h0 updated a1@2 g2 from 1; done; settled";
    check(RECONCILED, urgent, "");
}

#[test]
fn a_wrong_attempt_is_reported() {
    let log = "call h0 created a1@1; failed; wait 4; call h0 created a1@1; done; settled";
    check(RECONCILED, log, "an_attempt_counts_the_failures");
    let anew = "call h0 created a1@1; failed; i0 updates a1@2 g2; call h0 updated a1@2 g2 from 1 attempt 1; done; settled";
    check(RECONCILED, anew, "an_attempt_counts_the_failures");
}

#[test]
fn a_lost_state_is_reported() {
    let log = "call h0 created a1@1; failed state 7; wait 4; call h0 created a1@1 attempt 1; done; settled";
    check(
        RECONCILED,
        log,
        "a_state_is_kept_until_an_outcome_without_a_state",
    );
    let kept = "call h0 created a1@1; done; call h0 created a1@1 state 7";
    check(
        RECONCILED,
        kept,
        "a_state_is_kept_until_an_outcome_without_a_state",
    );
}

#[test]
fn a_created_without_a_finalizer_is_reported() {
    let log = "add h0 wrapped; add i0; start; server a1@1; i0 lists a1@1; i0 synced; \
               call h0 created a1@1; done; h0 writes a1@2 own; i0 updates a1@2 own; settled";
    check("", log, "created_requires_our_finalizer");
}

#[test]
fn a_first_call_before_the_final_finalizer_is_reported() {
    let log = "add h0 early; add i0; start; server a1@1; i0 lists a1@1; i0 synced; \
               h0 writes a1@2 wip; call h0 created a1@2 wip; done; h0 writes a1@3 own; \
               i0 updates a1@2 wip; i0 updates a1@3 own; settled";
    check("", log, "the_finalizer_precedes_the_first_call");
    let fine = "add h0 early; add i0; start; server a1@1; i0 lists a1@1; i0 synced; \
                h0 writes a1@2 own; call h0 created a1@2 own; done; i0 updates a1@2 own; settled";
    check("", fine, "");
}

#[test]
fn a_second_clean_up_is_reported() {
    let log = "server a1@4 g2 terminating own; i0 updates a1@4 g2 terminating own; \
               call h0 deleted a1@4 g2 terminating own; done; call h0 deleted a1@4 g2 terminating own; done; \
               h0 erases a1@4; i0 deletes a1@5 g2 terminating own; settled";
    check(WRAPPED, log, "a_clean_up_that_succeeded_is_not_repeated");
}

#[test]
fn an_echo_is_reported() {
    check(
        WRAPPED,
        "call h0 updated a1@3 own from 2; done; settled",
        "own_writes_do_not_cause_calls",
    );
}

#[test]
fn a_finalizer_on_a_terminating_object_is_reported() {
    let log = "add h0 wrapped; add i0; start; server a1@1 terminating other; i0 lists a1@1 terminating other; \
               i0 synced; h0 writes a1@2 terminating other wip";
    check("", log, "a_terminating_object_gets_no_finalizer");
}

#[test]
fn a_lost_finalizer_of_another_is_reported() {
    let log = "add h0 wrapped; add i0; start; server a1@1 other; h0 writes a1@2 wip";
    check("", log, "finalizers_of_others_are_not_touched");
}

#[test]
fn a_release_before_the_clean_up_is_reported() {
    let log = "server a1@4 g2 terminating own; h0 erases a1@4";
    check(WRAPPED, log, "our_finalizer_is_removed_after_the_clean_up");
}

#[test]
fn an_event_that_waits_is_reported() {
    let late = "i0 updates a1@2; wait 9; call h0 updated a1@2 from 1; done; settled";
    check(HANDLED, late, "an_event_is_not_late");
    let gone = "i0 deletes a1@2; wait 9; call h0 deleted a1@2; done; settled";
    check(HANDLED, gone, "an_event_is_not_late");
    let urgent = "call h0 created a1@1; failed; i0 updates a1@2 g2; wait 4; \
                  call h0 updated a1@2 g2 from 1; done; settled";
    check(RECONCILED, urgent, "an_event_is_not_late");
}

#[test]
fn a_retry_that_waits_is_reported() {
    let log = "call h0 created a1@1; failed; wait 8; quiet; wait 1; \
               call h0 created a1@1 attempt 1; done; settled";
    check(RECONCILED, log, "a_retry_is_not_late");
}

#[test]
fn a_call_that_does_not_end_is_reported() {
    check(
        RECONCILED,
        "call h0 created a1@1; settled",
        "every_call_has_ended",
    );
}

#[test]
fn a_lost_update_is_reported() {
    check(
        HANDLED,
        "i0 updates a1@2; settled",
        "the_newest_state_is_handled",
    );
    check(RECONCILED, "settled", "the_newest_state_is_handled");
    let wrapped = "server a1@4 g2 own; i0 updates a1@4 g2 own; settled";
    check(WRAPPED, wrapped, "the_newest_state_is_handled");
}

#[test]
fn a_lost_delete_is_reported() {
    check(HANDLED, "i0 deletes a1@2; settled", "a_delete_is_handled");
    let listed =
        "add h0 watcher; add i0; start; i0 lists a1@1; i0 synced; i0 deletes a1@2; settled";
    check("", listed, "a_delete_is_handled");
}

#[test]
fn a_lost_requeue_is_reported() {
    check(
        RECONCILED,
        "call h0 created a1@1; requeue 5; wait 60; settled",
        "a_pending_call_is_made",
    );
}

#[test]
fn a_live_object_without_our_finalizer_is_reported() {
    let log = "server a1@4; i0 updates a1@4; settled";
    check(WRAPPED, log, "a_live_object_has_our_finalizer");
}

#[test]
fn a_terminating_object_with_our_finalizer_is_reported() {
    let log = "server a1@4 g2 terminating own; i0 updates a1@4 g2 terminating own; settled";
    check(WRAPPED, log, "no_terminating_object_keeps_our_finalizer");
}

#[test]
fn a_lost_clean_up_is_reported() {
    let log = "server a1@4; i0 updates a1@4; other erases a1@5; i0 deletes a1@5; settled";
    check(WRAPPED, log, "an_object_with_our_finalizer_is_cleaned_up");
}

/// Every rule of the model has a test here: a file of this binary contains its name.
#[test]
fn each_rule_has_a_log_that_breaks_it() {
    let tests = [include_str!("main.rs"), include_str!("level.rs")].concat();
    let missing: Vec<_> = rules()
        .map(|it| it.name)
        .filter(|it| !tests.contains(&format!("\"{it}\"")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Checks that a log breaks `rule`, or no rule if `rule` is empty.
#[track_caller]
fn check(begin: &str, log: &str, rule: &str) {
    let settings = Settings {
        retry: Retry::new(|_| Some((Duration::from_secs(4), Duration::from_secs(4)))),
        coalescing: match rule {
            "no_event_is_skipped_without_coalescing" => Coalescing::Never,
            _ => Coalescing::Always,
        },
        delete_until_successor: rule == "a_recreated_object_ends_the_delete_if_configured",
        ..Settings::default()
    };
    check_with(settings, &format!("{begin}{log}"), rule);
}

/// Checks that a log breaks `rule`, or no rule if `rule` is empty.
#[track_caller]
fn check_with(settings: Settings, text: &str, rule: &str) {
    let violations = check_all(settings, parse(text));
    let broken: Vec<_> = violations.iter().map(|it| it.rule.name).collect();
    let fine = if rule.is_empty() {
        broken.is_empty()
    } else {
        broken.contains(&rule)
    };
    let shown: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert!(fine, "{text}\nbreaks {broken:?}\n{}", shown.join("\n"));
}
