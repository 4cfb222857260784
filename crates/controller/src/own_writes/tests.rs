//! A table for each rule of `own_writes`.

use super::{
    lane::{LONGEST_LAG, MAX_OVERDUE},
    *,
};

mod overdue;

const TIMEOUT: Duration = Duration::from_secs(5);

struct Script {
    writes: OwnWrites,
    now: Instant,
    lane: ObjectKey,
}

impl Script {
    fn new() -> Self {
        Self {
            writes: OwnWrites::new(TIMEOUT),
            now: Instant::now(),
            lane: key("blog"),
        }
    }

    /// A finished call that made this write of the object `web` with uid `c`.
    fn wrote(effect: WriteEffect, is_proven: bool) -> Self {
        let mut script = Self::new();
        script.begin();
        script.writes.sending(&script.lane);
        script.record(effect, is_proven);
        assert_eq!(script.writes.end(&script.lane, false), None);
        script
    }

    fn begin(&mut self) {
        (self.writes).begin(&self.lane, self.now, &|_, _, is| is(&Shown::Unwatched));
    }

    fn record(&mut self, effect: WriteEffect, is_proven: bool) {
        let write = OwnWrite {
            resource: "configmaps".into(),
            key: key("web"),
            uid: "c".into(),
            effect,
            is_proven,
            at: self.now,
        };
        self.writes.record(&self.lane, write);
    }

    fn event(&mut self, event: EventMark) -> EventDecision {
        self.writes.event(&self.lane, event, false)
    }

    fn ready(&mut self, shown: &Shown) -> Readiness {
        self.writes
            .before_call(&self.lane, self.now, &|_, _, is| is(shown))
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).within("shop")
}

fn scope(resource: &str) -> Scope {
    Scope {
        resource: resource.into(),
        namespace: Some("shop".into()),
    }
}

fn at(version: u64) -> WriteEffect {
    WriteEffect::Version(version)
}

/// An event of the watch of `web` with uid `c`.
fn event(version: u64) -> EventMark {
    EventMark {
        reason: Reasons::RELATED,
        resource: "configmaps".into(),
        uid: Some("c".into()),
        version: Some(version),
        is_from_watch: true,
        is_new_generation: false,
    }
}

fn shows(object: Option<(&str, u64)>, passed: u64) -> Shown {
    Shown::Watched {
        object: object.map(|(uid, version)| (uid.into(), version)),
        passed: Some(passed),
    }
}

/// Rule 3. `effect` is settled by what the informer shows.
#[track_caller]
fn check_settled(effect: WriteEffect, shown: &Shown, expected: bool) {
    let mut script = Script::wrote(effect, true);
    let is_ready = script.ready(shown) == Readiness::Ready;
    assert_eq!(is_ready, expected, "{effect:?} {shown:?}");
}

/// Rows: BO-06, BO-47
#[test]
fn a_write_is_settled_when_it_or_something_later_is_shown_or_can_never_be_shown() {
    check_settled(at(7), &shows(None, 6), false);
    check_settled(at(7), &shows(Some(("c", 6)), 6), false);
    check_settled(at(7), &shows(Some(("c", 7)), 6), true);
    check_settled(at(7), &shows(Some(("c", 9)), 6), true);
    // Deleted since, or outside of the selector.
    check_settled(at(7), &shows(None, 7), true);
    check_settled(at(7), &shows(None, 8), true);
    // A successor of the same name, and a predecessor.
    check_settled(at(7), &shows(Some(("d", 9)), 6), true);
    check_settled(at(7), &shows(Some(("b", 3)), 6), false);
    check_settled(at(7), &Shown::Unwatched, true);

    check_settled(WriteEffect::Gone, &shows(Some(("c", 6)), 6), false);
    check_settled(WriteEffect::Gone, &shows(Some(("d", 6)), 6), true);
    check_settled(WriteEffect::Gone, &shows(None, 6), true);
}

/// Rows: BO-06, BO-47
#[test]
fn the_next_call_waits_for_the_stores_and_is_stale_after_the_timeout() {
    let mut script = Script::wrote(at(7), true);
    let behind = shows(Some(("c", 6)), 6);
    assert_eq!(script.ready(&behind), Readiness::Wait(POLL));
    let left = Duration::from_millis(1);
    script.now += TIMEOUT.saturating_sub(left);
    assert_eq!(script.ready(&behind), Readiness::Wait(left));
    script.now += left;
    assert_eq!(script.ready(&behind), Readiness::Stale);
    assert_eq!(
        script.ready(&behind),
        Readiness::Stale,
        "until the store shows it"
    );
    assert_eq!(script.ready(&shows(Some(("c", 7)), 7)), Readiness::Ready);
}

#[test]
fn the_echo_that_a_waiting_call_needs_wakes_it() {
    let mut script = Script::wrote(at(7), true);
    assert_eq!(script.ready(&shows(None, 6)), Readiness::Wait(POLL));
    assert_eq!(script.event(event(7)), EventDecision::Wake);
}

/// Rule 6.
#[track_caller]
fn check_event(is_proven: bool, event: &EventMark, expected: EventDecision) {
    let mut script = Script::wrote(at(7), is_proven);
    assert_eq!(script.event(event.clone()), expected, "{event:?}");
}

/// Rows: BO-07
#[test]
fn only_an_event_that_is_proven_to_be_our_write_is_dropped() {
    use EventDecision::{Drop, Wake};

    check_event(true, &event(7), Drop);
    // (a) Another version: a foreign write before or after ours.
    check_event(true, &event(6), Wake);
    check_event(true, &event(8), Wake);
    // (b) An apply without precondition, or one that changed nothing: 7 may be foreign.
    check_event(false, &event(7), Wake);
    // (c) From a list: versions before it may be missing.
    let listed = EventMark {
        is_from_watch: false,
        ..event(7)
    };
    check_event(true, &listed, Wake);
    // (d) Another object of the name, or another kind.
    let successor = EventMark {
        uid: Some("d".into()),
        ..event(7)
    };
    check_event(true, &successor, Wake);
    let other = EventMark {
        resource: "secrets".into(),
        ..event(7)
    };
    check_event(true, &other, Wake);
    // (e) The call wrote the spec of its own object.
    let own_spec = EventMark {
        is_new_generation: true,
        ..event(7)
    };
    check_event(true, &own_spec, Wake);
    // A delete.
    let deleted = EventMark {
        version: None,
        ..event(7)
    };
    check_event(true, &deleted, Wake);
}

#[test]
fn other_lanes_are_woken_by_our_write() {
    let mut script = Script::wrote(at(7), true);
    let other = key("other");
    let decision = script.writes.event(&other, event(7), false);
    assert_eq!(decision, EventDecision::Wake);
}

#[test]
fn a_watch_that_is_faster_than_the_response_is_decided_at_the_end_of_the_call() {
    let during = |foreign: Option<u64>| {
        let mut script = Script::new();
        script.begin();
        assert_eq!(script.event(event(5)), EventDecision::Wake, "no write yet");
        script.writes.sending(&script.lane);
        assert_eq!(script.event(event(7)), EventDecision::Keep);
        if let Some(version) = foreign {
            assert_eq!(script.event(event(version)), EventDecision::Keep);
        }
        script.record(at(7), true);
        script.writes.end(&script.lane, false).is_some()
    };
    assert!(!during(None));
    assert!(during(Some(6)), "a foreign write before ours");
    assert!(during(Some(8)), "a foreign write after ours");
}

#[test]
fn a_response_that_never_comes_loses_no_event() {
    let mut script = Script::new();
    script.begin();
    script.writes.sending(&script.lane);
    assert_eq!(script.event(event(7)), EventDecision::Keep);
    let (lane, now) = (script.lane.clone(), script.now);
    script
        .writes
        .record_unknown(&lane, scope("configmaps"), now);
    assert!(script.writes.end(&lane, false).is_some());
}

#[test]
fn more_events_than_are_kept_wake_the_lane() {
    let mut script = Script::new();
    script.begin();
    script.writes.sending(&script.lane);
    script.record(at(7), true);
    for _ in 0..=MAX_MARKS {
        assert_eq!(script.event(event(7)), EventDecision::Keep);
    }
    assert!(script.writes.end(&script.lane, false).is_some());
}

/// Rule 7.
#[test]
fn after_an_unknown_result_nothing_is_dropped_and_the_stores_must_pass_the_server() {
    let mut script = Script::wrote(at(7), true);
    let (lane, now) = (script.lane.clone(), script.now);
    script.writes.record_unknown(&lane, scope("secrets"), now);
    assert_eq!(script.event(event(7)), EventDecision::Wake);

    let behind = shows(Some(("c", 9)), 9);
    let versions = Readiness::FindVersions(vec![scope("secrets")]);
    assert_eq!(script.ready(&behind), versions);
    script
        .writes
        .passes(&lane, &scope("secrets"), Some(12), now);
    assert_eq!(script.ready(&behind), Readiness::Wait(POLL));
    assert_eq!(script.ready(&shows(Some(("c", 9)), 12)), Readiness::Ready);

    // A server that does not tell its version.
    script.writes.record_unknown(&lane, scope("secrets"), now);
    assert_eq!(script.ready(&behind), versions);
    script.writes.passes(&lane, &scope("secrets"), None, now);
    assert_eq!(script.ready(&behind), Readiness::Wait(POLL));
    script.now += TIMEOUT;
    assert_eq!(script.ready(&behind), Readiness::Stale);
    assert_eq!(
        script.ready(&behind),
        Readiness::Ready,
        "nothing can be waited for"
    );

    script
        .writes
        .record_unknown(&lane, scope("pods"), script.now);
    assert_eq!(script.ready(&Shown::Unwatched), Readiness::Ready);
}

/// Rule 9.
#[test]
fn during_backoff_all_own_writes_wait_for_the_retry() {
    let mut script = Script::wrote(at(7), false);
    let lane = script.lane.clone();
    let mut decide = |event| script.writes.event(&lane, event, true);
    assert_eq!(decide(event(7)), EventDecision::Drop);
    assert_eq!(decide(event(8)), EventDecision::Wake);

    let mut script = Script::wrote(WriteEffect::Gone, false);
    let deleted = EventMark {
        version: None,
        ..event(0)
    };
    let lane = script.lane.clone();
    let mut decide = |backoff| script.writes.event(&lane, deleted.clone(), backoff);
    assert_eq!(decide(true), EventDecision::Drop);
    assert_eq!(decide(false), EventDecision::Wake);
}

#[test]
fn a_record_is_dropped_after_the_timeout_and_a_call_without_writes_leaves_none() {
    let mut script = Script::new();
    script.begin();
    assert_eq!(script.writes.end(&script.lane, false), None);
    assert_eq!(script.writes.len(), 0);

    let mut script = Script::wrote(at(7), true);
    assert_eq!(script.writes.len(), 1);
    script.now += TIMEOUT;
    let other = key("other");
    (script.writes).begin(&other, script.now, &|_, _, is| is(&Shown::Unwatched));
    assert_eq!(script.writes.end(&key("other"), false), None);
    assert_eq!(script.writes.len(), 0);

    let mut off = Script::new();
    off.writes = OwnWrites::new(Duration::ZERO);
    off.begin();
    off.record(at(7), true);
    assert_eq!(off.writes.end(&off.lane, false), None);
    assert_eq!(off.writes.len(), 0, "own writes are not tracked");
}

#[test]
fn a_version_that_is_not_a_number_is_not_tracked() {
    assert_eq!(parse_version("12"), Some(12));
    for version in ["", "-1", "abc", "99999999999999999999999"] {
        assert_eq!(parse_version(version), None, "{version}");
    }
}

/// Several informers of one kind can show an object, for example those of two label selectors.
///
/// Rows: BO-06, BO-43
#[test]
fn a_write_is_settled_when_an_informer_shows_it_or_all_that_can_have_passed_it() {
    let both = |one: Shown, other: Shown| {
        assert_eq!(
            one.clone().with_other(other.clone()),
            other.clone().with_other(one.clone())
        );
        one.with_other(other)
    };
    check_settled(at(7), &both(shows(Some(("c", 7)), 6), shows(None, 3)), true);
    // Another informer is ahead, and the one that will show the write is not.
    check_settled(at(7), &both(shows(None, 6), shows(None, 9)), false);
    let old = both(shows(Some(("c", 6)), 6), shows(None, 9));
    check_settled(at(7), &old, false);
    check_settled(at(7), &both(shows(None, 7), shows(None, 9)), true);
    check_settled(at(7), &both(shows(None, 6), Shown::Unwatched), false);
}
