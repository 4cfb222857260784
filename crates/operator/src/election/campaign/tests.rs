//! Scripted campaigns: the expected requests of a candidate `us`, with their times, for given
//! responses.
//!
//! A script is a list of steps. `12` advances the time to 12 s. Everything else is the response to
//! the next request: `absent`, `written`, `conflict`, `failed`, or `NAME@N` for a lease that NAME
//! has renewed for the Nth time (`-@N` is a free lease). `slow N ANSWER` is an answer that arrives
//! N seconds later.
//!
//! The timing is 15, 10 and 2 seconds, without jitter.

use super::*;

mod runner;

use self::runner::{TIMING, check, leader_of, record, secs, wall};

#[test]
fn an_absent_lease_is_created() {
    check("absent, written", "0 read, 0 create 0, wait 2");
}

#[test]
fn of_two_candidates_that_create_the_lease_one_waits() {
    check(
        "absent, conflict, them@1",
        "0 read, 0 create 0, 2 read, wait 4",
    );
}

#[test]
fn a_free_lease_is_acquired_immediately() {
    check("-@7, written", "0 read, 0 replace 8, wait 2");
}

#[test]
fn a_renewed_lease_is_not_acquired() {
    check(
        "them@1, 10, them@2, 20, them@3, 30, them@4, 40, them@5",
        "0 read, 10 read, 20 read, 30 read, 40 read, wait 42",
    );
}

#[test]
fn a_lease_is_acquired_after_it_has_not_changed_for_its_duration() {
    // The lease of `them` is valid for 15 seconds, independently of our timing.
    check(
        "them@1, 14, them@1, them@1, written",
        "0 read, 14 read, 15 read, 15 replace 2, wait 17",
    );
}

/// The times in the record are not used: a change counts from our read of it.
#[test]
fn a_renewal_that_is_read_late_counts_from_the_read() {
    check(
        "them@1, 14, them@2, 28, them@2, them@2, written",
        "0 read, 14 read, 28 read, 29 read, 29 replace 3, wait 31",
    );
}

#[test]
fn a_response_counts_from_its_arrival() {
    check(
        "slow 4 them@1, 18, them@1, them@1, written",
        "0 read, 18 read, 19 read, 19 replace 2, wait 21",
    );
}

#[test]
fn an_invalid_duration_is_replaced_by_ours() {
    for seconds in [0, -5, i32::MIN] {
        let record = Record {
            seconds,
            ..record("them", 1)
        };
        assert_eq!(record.holds(TIMING), TIMING.lease);
    }
}

#[test]
fn invalid_times_are_ignored() {
    let mut campaign = Campaign::new("us".to_owned(), TIMING);
    let far = Record {
        renewed: Some(Timestamp::MAX),
        acquired: Some(Timestamp::MIN),
        transitions: i32::MAX,
        ..record("them", 1)
    };
    for at in [0, 15] {
        assert_eq!(
            campaign.next(secs(at), wall(at)),
            Next::Send(LeaseRequest::Read)
        );
        campaign.on_answer(secs(at), secs(at), Answer::Found(far.clone()), 0.0);
    }
    match campaign.next(secs(15), wall(15)) {
        Next::Send(LeaseRequest::Replace(record)) => assert_eq!(record.transitions, i32::MAX),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_leader_renews_each_retry_period() {
    check(
        "absent, written, 2, written, 4, written",
        "0 read, 0 create 0, 2 replace 0, 4 replace 0, wait 6",
    );
}

#[test]
fn a_leader_that_cannot_renew_stops_at_its_deadline() {
    check(
        "absent, written, 2, failed, 4, failed, 6, failed, 8, failed, 9",
        "0 read, 0 create 0, 2 replace 0, 4 read, 6 read, 8 read, wait 10",
    );
    check(
        "absent, written, 2, failed, 4, us#1, failed, 6, failed, 10",
        "0 read, 0 create 0, 2 replace 0, 4 read, 4 replace 0, 6 read, lost NotRenewed",
    );
}

/// The server may apply the write as soon as it is sent, and other candidates measure from then.
#[test]
fn the_deadline_is_measured_from_before_the_request() {
    check(
        "absent, written, 2, slow 4 written, 6, slow 5 failed, 11",
        "0 read, 0 create 0, 2 replace 0, 6 replace 0, 11 read",
    );
    check(
        "absent, written, 2, slow 4 written, 6, slow 5 failed, 12",
        "0 read, 0 create 0, 2 replace 0, 6 replace 0, lost NotRenewed",
    );
    // The response arrives after the deadline.
    check(
        "absent, slow 10 written",
        "0 read, 0 create 0, lost NotRenewed",
    );
}

#[test]
fn a_leader_waits_for_no_response_beyond_its_deadline() {
    let mut campaign = Campaign::new("us".to_owned(), TIMING);
    assert_eq!(campaign.request_timeout(secs(0)), secs(5));
    campaign.lead(secs(0), secs(0));
    assert_eq!(campaign.request_timeout(secs(2)), secs(5));
    assert_eq!(campaign.request_timeout(secs(8)), secs(2));
}

#[test]
fn a_lease_taken_by_another_replica_is_lost() {
    check(
        "absent, written, 2, conflict, them@1",
        "0 read, 0 create 0, 2 replace 0, 2 read, lost Taken(\"them\")",
    );
}

#[test]
fn a_lease_taken_by_a_replica_with_our_name_is_lost() {
    check(
        "absent, written, 2, conflict, us@1",
        "0 read, 0 create 0, 2 replace 0, 2 read, lost Taken(\"us\")",
    );
}

#[test]
fn an_emptied_lease_is_lost() {
    check(
        "absent, written, 2, conflict, -@1",
        "0 read, 0 create 0, 2 replace 0, 2 read, lost Emptied",
    );
}

#[test]
fn a_deleted_lease_is_lost() {
    check(
        "absent, written, 2, conflict, absent",
        "0 read, 0 create 0, 2 replace 0, 2 read, lost Deleted",
    );
    check(
        "absent, written, 2, absent",
        "0 read, 0 create 0, 2 replace 0, lost Deleted",
    );
}

/// Another client changed a label; the record is still ours.
#[test]
fn after_a_conflict_with_an_unrelated_write_the_leader_writes_again() {
    check(
        "absent, written, 2, conflict, us#1, written",
        "0 read, 0 create 0, 2 replace 0, 2 read, 2 replace 0, wait 4",
    );
}

#[test]
fn repeated_conflicts_cause_no_busy_loop() {
    check(
        "absent, written, 2, conflict, us#1, conflict, 4, us#1, conflict, 6",
        "0 read, 0 create 0, 2 replace 0, 2 read, 2 replace 0, 4 read, 4 replace 0, 6 read",
    );
}

/// The write succeeded, but its response was lost.
#[test]
fn a_leader_recognizes_its_write_whose_response_was_lost() {
    check(
        "absent, written, 2, failed, 4, us#2, written",
        "0 read, 0 create 0, 2 replace 0, 4 read, 4 replace 0, wait 6",
    );
}

/// The server applied it after a read had shown the record before it.
#[test]
fn a_leader_recognizes_its_write_that_was_applied_late() {
    check(
        "absent, written, 2, slow 5 failed, us#1, conflict, us#2, written",
        "0 read, 0 create 0, 2 replace 0, 7 read, 7 replace 0, 7 read, 7 replace 0, wait 9",
    );
    // A write that was planned before another one was confirmed cannot be applied any more.
    check(
        "absent, written, 2, failed, 4, us#1, written, 6, conflict, us#2",
        "0 read, 0 create 0, 2 replace 0, 4 read, 4 replace 0, 6 replace 0, 6 read, lost Taken(\"us\")",
    );
}

#[test]
fn a_lease_with_a_write_that_was_applied_late_is_released() {
    let mut campaign = Campaign::new("us".to_owned(), TIMING);
    let late = campaign.claim(wall(5));
    for at in [6, 7] {
        _ = campaign.claim(wall(at));
    }
    assert!(campaign.release(&late, wall(8)).is_some());
}

#[test]
fn a_candidate_recognizes_its_write_whose_response_was_lost() {
    check(
        "absent, failed, us#1, written",
        "0 read, 0 create 0, 2 read, 2 replace 0, wait 4",
    );
    check(
        "-@3, failed, us#1, written",
        "0 read, 0 replace 4, 2 read, 2 replace 4, wait 4",
    );
}

/// A former process of this replica, or another replica with the same name: the candidate waits.
#[test]
fn a_candidate_does_not_acquire_a_lease_only_because_of_its_name() {
    check("us@1, 2", "0 read, 2 read");
}

#[test]
fn a_candidate_without_a_response_sends_the_request_again() {
    check(
        "failed, failed, absent, failed, absent",
        "0 read, 2 read, 4 read, 4 create 0, 6 read",
    );
}

#[test]
fn candidates_read_at_different_times() {
    let due = |jitter| {
        let mut campaign = Campaign::new("us".to_owned(), TIMING);
        campaign.on_answer(secs(0), secs(0), Answer::Failed, jitter);
        campaign.due
    };
    assert_eq!(due(0.0), secs(2));
    assert_eq!(due(0.5), Duration::from_millis(3200));
    assert_eq!(due(1.0), Duration::from_millis(4400));
}

#[test]
fn writes_differ_even_if_the_clock_stops_or_jumps_back() {
    let mut campaign = Campaign::new("us".to_owned(), TIMING);
    let mut times = Vec::new();
    for at in [5, 5, 1, 9] {
        times.push(campaign.claim(wall(at)).renewed);
    }
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    assert_eq!(
        times.last(),
        Some(&Some(wall(9))),
        "the time of the clock if it is later"
    );
}

#[test]
fn only_our_own_lease_is_released() {
    let mut campaign = Campaign::new("us".to_owned(), TIMING);
    let ours = campaign.claim(wall(5));
    let released = campaign.release(&ours, wall(6)).expect("ours");
    assert_eq!((&*released.holder, released.seconds), ("", 1));
    assert_eq!(campaign.release(&record("them", 5), wall(6)), None);
    assert_eq!(campaign.release(&record("us", 4), wall(6)), None);
}

/// The lease was deleted, and created again with our record, for example from a backup.
#[test]
fn a_leader_does_not_mistake_a_lease_with_another_uid_for_its_own() {
    let (mut campaign, ours) = leader_of("first");
    campaign.on_answer(secs(2), secs(2), Answer::Conflict, 0.0);
    let again = Record {
        uid: Some("second".to_owned()),
        ..ours
    };
    campaign.on_answer(secs(2), secs(2), Answer::Found(again), 0.0);
    assert_eq!(campaign.next(secs(2), wall(2)), Next::Lost(Loss::Deleted));
}

#[test]
fn a_lease_with_another_uid_is_not_released() {
    let (campaign, ours) = leader_of("first");
    let found = |uid: &str| Record {
        uid: Some(uid.to_owned()),
        ..ours.clone()
    };
    assert_eq!(campaign.release(&found("second"), wall(6)), None);
    assert!(campaign.release(&found("first"), wall(6)).is_some());
}

#[test]
fn a_candidate_measures_the_duration_from_the_first_read_of_a_new_uid() {
    let mut campaign = Campaign::new("us".to_owned(), TIMING);
    for (at, uid) in [(0, "first"), (14, "second"), (15, "second")] {
        let found = Record {
            uid: Some(uid.to_owned()),
            ..record("them", 1)
        };
        campaign.on_answer(secs(at), secs(at), Answer::Found(found), 0.0);
    }
    assert_eq!(campaign.next(secs(15), wall(15)), Next::Wait(secs(17)));
}

/// The rate of requests is limited for random immediate responses.
#[test]
fn without_responses_requests_are_not_sent_in_a_busy_loop() {
    /// A read, a write, and both again after a conflict.
    const AT_ONCE: usize = 4;
    use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
    for seed in 0..2000 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut campaign = Campaign::new("us".to_owned(), TIMING);
        let (mut now, mut at_once) = (secs(0), 0);
        let mut ours = record("us", 1);
        for _ in 0..200 {
            match campaign.next(now, wall(now.as_secs())) {
                Next::Wait(until) => (now, at_once) = (until, 0),
                Next::Lost(_) => break,
                Next::Send(request) => {
                    at_once += 1;
                    assert!(at_once <= AT_ONCE, "seed {seed}, at {now:?}: {campaign:?}");
                    let any = rng.random_range(0..4);
                    let answer = match request {
                        LeaseRequest::Read => match any {
                            0 => Answer::Found(ours.clone()),
                            1 => Answer::Found(record("-", rng.random_range(0..3))),
                            2 => Answer::Absent,
                            _ => Answer::Failed,
                        },
                        LeaseRequest::Create(record) | LeaseRequest::Replace(record) => {
                            ours = record;
                            match any {
                                0 => Answer::Written { uid: None },
                                1 => Answer::Conflict,
                                2 => Answer::Absent,
                                _ => Answer::Failed,
                            }
                        }
                    };
                    campaign.on_answer(now, now, answer, 0.0);
                }
            }
        }
    }
}

#[test]
fn the_seconds_of_a_lease_are_rounded_up() {
    assert_eq!(seconds(secs(15)), 15);
    assert_eq!(seconds(Duration::from_millis(1200)), 2);
    assert_eq!(seconds(Duration::MAX), i32::MAX);
}
