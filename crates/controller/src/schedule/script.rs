//! Tests of the schedule: scripts a person can read, and random ones.

mod random;
mod runner;

use self::runner::{ScriptCall, ScriptRunner, key};
use super::{Moment, Pending, PendingCalls, Reason};
use crate::{Action, HandlerId};

#[test]
fn a_lane_is_taken_by_one_worker() {
    check("update a, take, update a, take, done a, take", "a1 - a2");
}

#[test]
fn different_objects_are_processed_concurrently() {
    check("update a, update b, take, take", "a1 b1");
}

#[test]
fn a_batch_of_offers_equals_single_offers() {
    check(
        "update a update b update a, take, take, take, done a, take",
        "a1 b1 - a2",
    );
    check(
        "update a, take, fail a 0 5, update b delete a create a#2, take, take, drop a, take",
        "a1 b1 a2?0 a3",
    );
}

#[test]
fn events_of_an_object_are_taken_in_order() {
    check(
        "update a, update a, delete a, take, done a, take, done a, take, done a, take",
        "a1 a2 a3 -",
    );
}

#[test]
fn a_processed_object_is_queued_behind_the_others() {
    check(
        "update a, update a, update b, take, done a, take, take",
        "a1 b1 a2",
    );
}

#[test]
fn the_delete_of_an_object_precedes_its_successor() {
    check("delete a, create a#2, take, take, done a, take", "a1 - a2");
}

#[test]
fn a_retry_is_taken_when_it_is_due_and_not_before() {
    check(
        "update a, take, fail a 0 5, take, wait 4, take, wait 1, take",
        "a1 - - a!0",
    );
}

#[test]
fn pending_calls_are_decided_before_a_new_event_is_dispatched() {
    check(
        "update a, take, fail a 0 5, update a, take, drop a, wait 9, take",
        "a1 a2?0 -",
    );
    check(
        "update a, take, fail a 0 5, update a, take, done a, take, wait 5, take",
        "a1 a2?0 - a!0",
    );
}

#[test]
fn an_event_is_dispatched_before_a_due_retry_which_it_can_cancel() {
    check(
        "update a, take, fail a 0 5, wait 5, update a, take, drop a, take",
        "a1 a2?0 -",
    );
}

#[test]
fn a_kept_due_retry_is_dispatched_before_the_next_event() {
    check(
        "update a, take, fail a 0 5, wait 5, update a, update a, take, done a, take, done a, take",
        "a1 a2?0 a!0 a3",
    );
}

#[test]
fn a_failure_replaces_the_pending_one_of_the_same_handler_and_action() {
    check(
        "update a, take, fail a 0 5, update a, take, fail a 0 9, wait 5, take, wait 4, take, done a, take",
        "a1 a2?0 - a!0 -",
    );
}

#[test]
fn failures_of_other_handlers_and_actions_stay_pending() {
    check(
        "create a, take, fail a 0 5, update a, take, fail a 0 6, update a, take, fail a 1 7, \
         wait 9, take, done a, take, done a, take, done a, take",
        "a1 a2?0 a3?0?0 a!0 a!0 a!1 -",
    );
}

#[test]
fn of_two_requeues_the_sooner_due_time_wins() {
    check(
        "update a, take, again a 0 5, update a, take, again a 0 9, wait 5, take, done a, wait 9, take",
        "a1 a2?0 a!0 -",
    );
    check(
        "update a, take, again a 0 9, update a, take, again a 0 5, wait 5, take, done a, wait 9, take",
        "a1 a2?0 a!0 -",
    );
}

#[test]
fn a_handler_has_one_requeue_whatever_it_was_called_for() {
    check(
        "create a, take, again a 0 5, update a, take, again a 0 5, wait 5, take, done a, wait 9, take",
        "a1 a2?0 a!0 -",
    );
}

#[test]
fn an_event_does_not_cancel_calls_of_another_uid() {
    check(
        "update a, take, fail a 0 5, create a#2, take, done a, wait 9, take",
        "a1 a2 a!0",
    );
}

#[test]
fn a_failed_delete_stays_pending_when_the_object_is_recreated() {
    check(
        "delete a, take, fail a 0 5, create a#2, take, done a, wait 5, take",
        "a1 a2 a!0",
    );
}

#[test]
fn a_removed_handler_has_no_pending_calls() {
    check("update a, take, fail a 0 5, cancel 0, wait 9, take", "a1 -");
    check("update a, take, cancel 0, fail a 0 5, wait 9, take", "a1 -");
    check(
        "update a, take, fail a 1 5, cancel 0, wait 9, take",
        "a1 a!1",
    );
}

#[test]
fn interrupted_work_is_pending_again() {
    check(
        "update a, update a, take, break a, take, done a, take",
        "a1 a1 a2",
    );
    check(
        "update a, take, fail a 0 5, wait 5, take, break a, take",
        "a1 a!0 a!0",
    );
    check(
        "update a, take, fail a 0 5, update a, take, break a, take",
        "a1 a2?0 a2?0",
    );
}

#[test]
fn a_retry_of_an_interrupted_event_is_not_cancelled_by_the_same_event() {
    check(
        "update a, take, half a 0 5, take, done a, take, wait 5, take",
        "a1 a1 - a!0",
    );
}

#[test]
fn namespaces_take_turns() {
    check(
        "update x/a, update x/b, update x/c, update y/d, take, take, take, take",
        "x/a1 y/d1 x/b1 x/c1",
    );
}

#[test]
fn the_first_list_and_resyncs_wait_for_changes() {
    check("resync a, first b, update c, take, take, take", "c1 b1 a1");
}

#[test]
fn a_retry_that_is_due_comes_before_the_first_list_and_resyncs() {
    check(
        "update a, take, fail a 0 5, resync b, first c, wait 5, take, take, take",
        "a1 a!0 c1 b1",
    );
}

#[test]
fn an_object_of_the_first_list_that_changes_becomes_urgent() {
    check("first a, first b, update b, take, done b, take", "b1 b2");
}

#[test]
fn a_closed_kind_keeps_its_events() {
    check(
        "close x, update x/a, update y/b, take, take, open x, take",
        "y/b1 - x/a1",
    );
    check("close, update x/a, take, open, take", "- x/a1");
}

#[test]
fn a_removed_kind_has_no_work() {
    check(
        "update x/a, take, fail x/a 0 5, update x/b, update y/c, purge x, wait 5, take, take",
        "x/a1 y/c1 -",
    );
}

/// Only a delete goes, and not another call of the object or of the handler.
#[test]
fn the_oldest_pending_delete_is_dropped_above_the_limit_of_its_kind() {
    let mut schedule = ScriptRunner::default().schedule;
    let mut add = |at: usize, handler, action| {
        let pending = Pending {
            handler: HandlerId(handler),
            action,
            reason: Reason::Failed,
            due: Moment::NEVER,
            overtaken: false,
            call: ScriptCall(None),
        };
        schedule.add_pending(key(&format!("x/{at}")), pending);
        (schedule.has_evicted(), schedule.take_evicted())
    };
    add(0, 0, Action::Updated);
    for at in 0..PendingCalls::<ScriptCall>::MAX_DELETES {
        let (has_evicted, evicted) = add(at, 0, Action::Deleted);
        assert!(!has_evicted && evicted.is_empty());
    }
    add(0, 1, Action::Deleted);
    let (has_evicted, evicted) = add(1, 1, Action::Deleted);
    assert!(has_evicted);
    let evicted: Vec<_> = (evicted.iter())
        .map(|(key, pending)| (key.object.name(), pending.handler, pending.action))
        .collect();
    assert_eq!(evicted, [("1", HandlerId(0), Action::Deleted)]);
    assert!(!schedule.has_evicted());
    assert_eq!(
        schedule.pending(),
        PendingCalls::<ScriptCall>::MAX_DELETES + 1
    );
}

#[test]
fn coalesced_events_are_dispatched_once() {
    let mut play = ScriptRunner::coalescing(true);
    assert_eq!(
        play.run("update a, update a, take, update a, update a, done a, take, done a, take"),
        "a1+a2 a3+a4 -"
    );
    let mut play = ScriptRunner::coalescing(true);
    assert_eq!(
        play.run("update a, update a#2, take, done a, take"),
        "a1 a2"
    );
    // In one batch, a has two lanes, one after the other.
    let mut play = ScriptRunner::coalescing(true);
    assert_eq!(
        play.run("create a, delete a create b update a, take, take, take"),
        "b1 a3 -"
    );
}

#[test]
fn an_object_without_pending_calls_has_no_lane() {
    let mut play = ScriptRunner::default();
    play.run("update a, update b, take, take, done a, fail b 0 5, wait 5, take, done b");
    assert!(play.schedule.lanes.phases().is_empty());
    assert_eq!(play.schedule.pending(), 0);
    assert_eq!(play.schedule.next_due(), None);
}

#[track_caller]
fn check(script: &str, taken: &str) {
    assert_eq!(ScriptRunner::default().run(script), taken, "{script}");
}
