//! Each rule of level-triggered controllers reports logs that break it, and no other logs.
//!
//! An object `b` affects `a`, and an object `c` affects both.

use std::time::Duration;

use windlass_model::{Level, Retry, Settings};

/// The informer `i0` of the reconciled kind, the informer `i1` of another one, and the first call.
const CALLED: &str = "add h0 reconciler; add i0; add i1 other; start; i0 lists a1@1; i0 synced; \
                      i1 synced; call h0 updated a1@1; done; wait 1; ";

/// Two reconciled objects, after the calls that have read `c`.
const SHARED: &str = "add h0 reconciler; add i0; add i1 other; start; i0 lists a1@1; \
                      i0 lists b1@2; i0 synced; i1 lists c1@9; i1 synced; \
                      call h0 updated a1@1; reads c1@9; done; \
                      call h0 updated b1@2; reads c1@9; done; wait 1; ";

#[track_caller]
fn check(begin: &str, log: &str, rule: &str) {
    let mapped = [("b", "a"), ("c", "a"), ("c", "b")];
    let mapped = mapped.map(|(from, to)| (from.into(), to.into()));
    let settings = Settings {
        retry: Retry::new(|_| Some((Duration::from_secs(4), Duration::from_secs(4)))),
        level: Some(Level {
            mapped: mapped.to_vec(),
            own_write_timeout: Duration::from_secs(5),
        }),
        ..Settings::default()
    };
    super::check_with(settings, &format!("{begin}{log}"), rule);
}

#[test]
fn a_good_log_breaks_no_rule() {
    let changed = "i0 updates a1@2 g2; call h0 updated a1@2 g2; done; quiet; settled";
    check(CALLED, changed, "");
    // Several changes, one call.
    let several = "i0 updates a1@2; i0 updates a1@3; call h0 updated a1@3; done; quiet; settled";
    check(CALLED, several, "");
    let affected = "i1 adds b1@2; call h0 updated a1@1; reads b1@2; done; wait 1; i1 deletes b1@3; \
                    call h0 updated a1@1; done; quiet; settled";
    check(CALLED, affected, "");
    // An object without a finalizer needs no call when it is deleted.
    check(CALLED, "i0 deletes a1@2; quiet; settled", "");
    let requeued = "i0 updates a1@2; call h0 updated a1@2; requeue 5; wait 5; \
                    call h0 updated a1@2; done; quiet; settled";
    check(CALLED, requeued, "");
}

#[test]
fn two_calls_at_once_and_a_call_after_the_end_are_reported() {
    let log = "i0 updates a1@2; call h0 updated a1@2; call h0 updated a1@2";
    check(CALLED, log, "calls_for_one_object_never_overlap");
    let log = "quiet; settled; wait 60; i0 updates a1@2; call h0 updated a1@2";
    check(CALLED, log, "no_call_follows_after_all_work_is_done");
}

#[test]
fn a_call_with_an_old_object_is_reported() {
    let rule = "a_call_has_the_newest_object";
    let old = "i0 updates a1@2; i0 updates a1@3; wait 1; call h0 updated a1@2; done";
    check(CALLED, old, rule);
    let gone = "i0 deletes a1@2; wait 1; call h0 updated a1@1; done";
    check(CALLED, gone, rule);
}

#[test]
fn a_call_before_a_late_informer_has_synced_is_reported() {
    let log = "add i2 other; i0 updates a1@2; call h0 updated a1@2; done";
    check(CALLED, log, "no_call_begins_while_an_informer_lists_first");
    check(CALLED, &log.replace("call", "i2 synced; call"), "");
}

#[test]
fn a_call_for_an_own_write_is_reported() {
    let own = "i0 updates a1@2; wait 1; call h0 updated a1@2; own a1@3; answer 3 proven; done; \
               wait 1; i0 updates a1@3; call h0 updated a1@3; done";
    check(CALLED, own, "an_own_write_causes_no_call");
    // The watch is faster than the response.
    let early = "i0 updates a1@2; wait 1; call h0 updated a1@2; own a1@3; i0 updates a1@3; \
                 answer 3 proven; done; call h0 updated a1@3; done";
    check(CALLED, early, "an_own_write_causes_no_call");
    // In these cases another change may be hidden.
    check(CALLED, &own.replace("answer 3 proven; ", "answer 3; "), "");
    check(CALLED, &own.replace("answer 3 proven; ", ""), "");
    check(
        CALLED,
        &own.replace("i0 updates a1@3", "i0 relists; i0 updates a1@3"),
        "",
    );
    check(CALLED, &own.replace("a1@3", "a1@3 g2"), "");
    check(CALLED, &own.replace("done; wait 1", "done; wait 6"), "");
    let failed = "i0 updates a1@2; wait 1; call h0 updated a1@2; own a1@3; answer 3; failed; wait 1; \
                  i0 updates a1@3; call h0 updated a1@3 attempt 1; done";
    check(CALLED, failed, "an_own_write_causes_no_call");
}

#[test]
fn an_early_call_that_counts_as_a_retry_is_reported() {
    let log = "i0 updates a1@2; call h0 updated a1@2; failed; wait 1; i1 adds b1@3; \
               call h0 updated a1@2 attempt 1; reads b1@3; failed; wait 3; \
               call h0 updated a1@2 attempt 1; reads b1@3; done; quiet; settled";
    check(CALLED, log, "");
    let advanced = log.replace(
        "wait 3; call h0 updated a1@2 attempt 1",
        "wait 3; call h0 updated a1@2 attempt 2",
    );
    check(CALLED, &advanced, "an_early_call_keeps_the_attempt");
    let reset = "i0 updates a1@2; call h0 updated a1@2; failed; wait 1; i1 adds b1@3; \
                 call h0 updated a1@2; reads b1@3; done";
    check(CALLED, reset, "an_early_call_keeps_the_attempt");
    let anew = "i0 updates a1@2; call h0 updated a1@2; failed; wait 1; i0 updates a1@3 g2; \
                call h0 updated a1@3 g2; done; quiet; settled";
    check(CALLED, anew, "");
}

#[test]
fn a_late_call_is_reported() {
    let rule = "a_change_is_not_late";
    check(
        CALLED,
        "i1 adds b1@2; wait 7; server z1@3; wait 1; server z1@4",
        rule,
    );
    // Further changes do not put it off.
    let noise = "i1 updates b1@3; wait 3; ".repeat(4);
    check(CALLED, &format!("i1 adds b1@2; {noise}quiet"), rule);
    let during = "i0 updates a1@2; call h0 updated a1@2; i0 updates a1@3 g2; done; wait 7; \
                  server z1@3; wait 1; server z1@4";
    check(CALLED, during, rule);
}

#[test]
fn a_lost_requeue_and_a_lost_retry_are_reported() {
    let rule = "a_scheduled_call_is_not_late";
    for (ended, delay) in [("requeue 5", 5), ("failed", 4)] {
        let late = delay + 7;
        let log = format!(
            "i0 updates a1@2; call h0 updated a1@2; {ended}; wait {late}; server z1@3; wait 1; server z1@4"
        );
        check(CALLED, &log, rule);
    }
    // An early call that fails keeps the time of the retry.
    let log = "i0 updates a1@2; call h0 updated a1@2; failed; wait 3; i1 adds b1@3; \
               call h0 updated a1@2 attempt 1; reads b1@3; failed; wait 8; server z1@3; wait 1; \
               server z1@4";
    check(CALLED, log, rule);
}

#[test]
fn a_change_without_a_call_is_reported() {
    let rule = "a_change_is_followed_by_a_call";
    check(CALLED, "i0 updates a1@2 g2; quiet; settled", rule);
    check(CALLED, "i1 adds b1@2; quiet; settled", rule);
    // Changes that cancel each other out need no call.
    let cancelled = "i0 updates a1@2 hold; i0 updates a1@3; quiet; settled";
    check(CALLED, cancelled, "");
    // An apply that changed nothing has the version of another client.
    let unchanged = "i0 updates a1@2; call h0 updated a1@2; reads c1@9; answer 10; done; wait 1; \
                     i1 updates c1@10; quiet; settled";
    check(SHARED, unchanged, rule);
    // Another client has written before the call, which has read the state before both.
    let folded = "i0 updates a1@3; call h0 updated a1@3; reads c1@9; own c1@11; answer 11 proven; \
                  done; wait 1; i1 updates c1@10; i1 updates c1@11; quiet; settled";
    check(SHARED, folded, rule);
    // A gap: the list has only the newer version.
    let listed = folded.replace("own c1@11", "server c1@10; own c1@11");
    let listed = listed.replace("i1 updates c1@10; ", "i1 relists; ");
    check(SHARED, &listed, rule);
    // The other object that `c` affects is called for the write.
    let shared = "i0 updates a1@3; call h0 updated a1@3; reads c1@9; own c1@10; answer 10 proven; \
                  done; wait 1; i1 updates c1@10; quiet; settled";
    check(SHARED, shared, rule);
    let called = shared.replace("quiet", "call h0 updated b1@2; reads c1@10; done; quiet");
    check(SHARED, &called, "");
    // A successor of the same name.
    let successor = "i1 deletes c1@10; i1 adds c2@11; quiet; settled";
    check(SHARED, successor, rule);
    // A call writes to another object of its own kind.
    let own_kind = "i0 updates a1@3; call h0 updated a1@3; reads c1@9; own b1@4 g2; answer 4 proven; \
                    done; wait 1; i0 updates b1@4 g2; quiet; settled";
    check(SHARED, own_kind, rule);
}

#[test]
fn a_last_call_that_failed_is_reported() {
    let log = "i0 updates a1@2; call h0 updated a1@2; failed; quiet; settled";
    check(CALLED, log, "the_last_call_succeeds");
}
