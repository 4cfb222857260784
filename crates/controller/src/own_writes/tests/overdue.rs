//! Tables of the writes that the stores show late or never.

use super::*;

/// Two kinds of informers can watch one resource: for example those of the primary objects, and of
/// the children.
#[test]
fn a_deletion_is_settled_when_no_informer_shows_the_object() {
    let mut script = Script::wrote(WriteEffect::Gone, true);
    let kinds = [shows(Some(("c", 6)), 9), shows(None, 8)];
    let (lane, now) = (script.lane.clone(), script.now);
    let ready = (script.writes).before_call(&lane, now, &|_, _, is| kinds.iter().all(is));
    assert_eq!(ready, Readiness::Wait(POLL));
}

#[test]
fn the_longest_timeout_is_long() {
    let mut script = Script::new();
    script.writes = OwnWrites::new(Duration::MAX);
    script.begin();
    script.record(at(7), true);
    assert_eq!(script.writes.end(&script.lane, false), None);
    assert_eq!(script.ready(&shows(None, 6)), Readiness::Wait(POLL));
}

/// Rule 8.
///
/// Rows: BO-06, BO-47
#[test]
fn a_call_after_the_timeout_is_stale_also_if_no_call_waited() {
    let mut script = Script::wrote(at(7), true);
    let behind = shows(Some(("c", 6)), 6);
    for _ in 0..3 {
        script.now += TIMEOUT;
        let other = key("other");
        script
            .writes
            .begin(&other, script.now, &|_, _, is| is(&behind));
        assert_eq!(script.writes.end(&other, false), None);
    }
    assert_eq!(script.ready(&behind), Readiness::Stale);
}

/// Rule 8.
#[test]
fn after_a_stale_call_the_event_of_the_write_causes_a_call() {
    let mut script = Script::wrote(at(7), true);
    script.now += TIMEOUT;
    assert_eq!(script.ready(&shows(None, 6)), Readiness::Stale);
    script.begin();
    script.writes.sending(&script.lane);
    script.now += Duration::from_millis(1);
    script.record(at(9), true);
    assert_eq!(script.event(event(7)), EventDecision::Keep);
    let reasons = script.writes.end(&script.lane, false);
    assert_eq!(reasons, Some(Reasons::RELATED));
    assert_eq!(
        script.event(event(9)),
        EventDecision::Drop,
        "of the stale call itself"
    );
}

/// A call writes an object whose watch lags, and then many whose watch does not.
#[test]
fn many_writes_that_are_shown_hide_none_that_is_not() {
    let mut script = Script::wrote(at(7), true);
    script.begin();
    let mut now = script.now;
    let mut record = |resource: &str, number: u64| {
        now += Duration::from_millis(1);
        let write = OwnWrite {
            resource: resource.into(),
            key: key(&number.to_string()),
            uid: number.to_string().into(),
            effect: at(number),
            is_proven: true,
            at: now,
        };
        script.writes.record(&script.lane, write);
    };
    let many = u64::try_from(MAX_OVERDUE).expect("a small number");
    for number in 0..2 * many {
        record("secrets", 100 + number);
        record("pods", 100 + number);
    }
    assert_eq!(script.writes.end(&script.lane, false), None);
    // The secrets are shown; the config map and the pods are not.
    let by_all = |resource: &str, _: &ObjectKey, is: &dyn Fn(&Shown) -> bool| {
        is(&shows(None, if resource == "secrets" { 10_000 } else { 6 }))
    };
    let later = now + TIMEOUT;
    let lane = script.lane.clone();
    let mut ready = |passed: Option<u64>| match passed {
        None => script.writes.before_call(&lane, later, &by_all),
        Some(passed) => script
            .writes
            .before_call(&lane, later, &|_, _, is| is(&shows(None, passed))),
    };
    assert_eq!(ready(None), Readiness::Stale);
    assert_eq!(ready(None), Readiness::Stale);
    assert_eq!(
        ready(Some(98 + 2 * many)),
        Readiness::Stale,
        "the last pod is missing"
    );
    assert_eq!(ready(Some(99 + 2 * many)), Readiness::Ready);
}

#[test]
fn writes_during_a_long_lag_do_not_add_up() {
    let mut script = Script::wrote(at(7), true);
    let behind = shows(Some(("c", 6)), 6);
    for version in 8..200 {
        script.now += TIMEOUT;
        let (lane, now) = (script.lane.clone(), script.now);
        assert_eq!(script.ready(&behind), Readiness::Stale);
        (script.writes).begin(&lane, now, &|_, _, is| is(&behind));
        script.record(at(version), true);
        let record = |it: &mut OwnWrites| it.record_unknown(&lane, scope("secrets"), now);
        record(&mut script.writes);
        _ = script.writes.end(&lane, false);
        assert!(matches!(script.ready(&behind), Readiness::FindVersions(_)));
        script
            .writes
            .passes(&lane, &scope("secrets"), Some(version), now);
    }
    let lane = &script.writes.lanes[&script.lane];
    assert!(
        lane.writes.len() <= 2 && lane.unknown.len() <= 2,
        "{lane:?}"
    );
    assert_eq!(script.writes.expiring.len(), 1);
    script.now += TIMEOUT;
    assert_eq!(
        script.ready(&shows(Some(("c", 199)), 198)),
        Readiness::Stale
    );
    assert_eq!(
        script.ready(&shows(Some(("c", 199)), 199)),
        Readiness::Ready
    );
    assert_eq!(script.writes.len(), 1);
    script.now += TIMEOUT;
    let other = key("other");
    (script.writes).begin(&other, script.now, &|_, _, is| is(&Shown::Unwatched));
    assert_eq!(script.writes.end(&other, false), None);
    assert_eq!(script.writes.len(), 0);
}

/// Rule 8. A watch of another cluster has versions of its own.
#[test]
fn a_write_that_no_store_shows_for_very_long_is_forgotten() {
    let mut script = Script::wrote(at(7), true);
    let (lane, now) = (script.lane.clone(), script.now);
    script.writes.record_unknown(&lane, scope("secrets"), now);
    script
        .writes
        .passes(&lane, &scope("secrets"), Some(12), now);
    let never = shows(None, 1);
    let written = script.now;
    script.now += TIMEOUT;
    assert_eq!(script.ready(&never), Readiness::Stale);
    script.now = written + LONGEST_LAG;
    assert_eq!(script.ready(&never), Readiness::Stale);
    script.now = written + TIMEOUT + LONGEST_LAG;
    assert_eq!(script.ready(&never), Readiness::Ready);

    // Also if no call follows.
    let mut script = Script::wrote(at(7), true);
    script.now += 2 * LONGEST_LAG;
    let other = key("other");
    script
        .writes
        .begin(&other, script.now, &|_, _, is| is(&never));
    assert_eq!(script.writes.end(&other, false), None);
    assert_eq!(script.writes.len(), 0);
}

/// The watch of another namespace can be refused for ever.
#[test]
fn an_unknown_result_is_settled_by_the_watches_of_its_namespace() {
    let mut script = Script::new();
    let lane = script.lane.clone();
    script
        .writes
        .record_unknown(&lane, scope("secrets"), script.now);
    script
        .writes
        .passes(&lane, &scope("secrets"), Some(12), script.now);
    let mut ready = |namespace: &str| {
        let by_all = |_: &str, key: &ObjectKey, is: &dyn Fn(&Shown) -> bool| {
            is(&if key.namespace() == Some(namespace) {
                shows(None, 1)
            } else {
                Shown::Unwatched
            })
        };
        script.writes.before_call(&lane, script.now, &by_all)
    };
    assert_eq!(ready("shop"), Readiness::Wait(POLL));
    assert_eq!(ready("blog"), Readiness::Ready);
}

/// Rule 7. The server did not answer when it was asked for its version.
#[test]
fn a_server_that_did_not_tell_its_version_is_asked_again() {
    let mut script = Script::new();
    script.writes = OwnWrites::new(Duration::MAX);
    let (lane, mut now) = (script.lane.clone(), script.now);
    script.writes.record_unknown(&lane, scope("secrets"), now);
    let versions = Readiness::FindVersions(vec![scope("secrets")]);
    for _ in 0..3 {
        assert_eq!(script.ready(&shows(None, 99)), versions);
        script.writes.passes(&lane, &scope("secrets"), None, now);
        assert!(matches!(script.ready(&shows(None, 99)), Readiness::Wait(_)));
        now += Duration::from_secs(10);
        script.now = now;
    }
    assert_eq!(script.ready(&shows(None, 99)), versions);
    script
        .writes
        .passes(&lane, &scope("secrets"), Some(99), now);
    assert_eq!(script.ready(&shows(None, 99)), Readiness::Ready);
}

/// Rule 8. A timeout that is longer than the longest lag.
#[test]
fn a_call_after_a_long_timeout_is_stale() {
    let timeout = 2 * LONGEST_LAG;
    let mut script = Script::new();
    script.writes = OwnWrites::new(timeout);
    script.begin();
    script.record(at(7), true);
    assert_eq!(script.writes.end(&script.lane, false), None);
    script.now += timeout;
    assert_eq!(script.ready(&shows(None, 6)), Readiness::Stale);
}

#[test]
fn with_the_longest_timeout_writes_that_are_shown_are_forgotten() {
    let mut script = Script::new();
    script.writes = OwnWrites::new(Duration::MAX);
    let shown = shows(None, u64::MAX);
    for version in 0..1000 {
        let (lane, now) = (script.lane.clone(), script.now);
        (script.writes).begin(&lane, now, &|_, _, is| is(&shown));
        script.record(at(version), true);
        assert_eq!(script.writes.end(&lane, false), None);
        script.now += Duration::from_secs(1);
    }
    assert_eq!(script.ready(&shown), Readiness::Ready);
    let kept = script.writes.lanes[&script.lane].writes.len();
    assert!(kept < 50, "{kept} writes");
    // A call for another object drops the rest.
    script.now += Duration::from_secs(60);
    let other = key("other");
    (script.writes).begin(&other, script.now, &|_, _, is| is(&shown));
    assert_eq!(script.writes.end(&other, false), None);
    assert_eq!(script.writes.len(), 0);
}

/// The time between two looks at the stores is bounded.
#[test]
fn a_call_that_waits_for_hours_is_not_forgotten_for_minutes() {
    let mut script = Script::new();
    script.writes = OwnWrites::new(Duration::MAX);
    script.begin();
    script.record(at(7), true);
    assert_eq!(script.writes.end(&script.lane, false), None);
    script.now += Duration::from_secs(7200);
    assert_eq!(script.ready(&shows(None, 6)), Readiness::Wait(LONGEST_POLL));
}
