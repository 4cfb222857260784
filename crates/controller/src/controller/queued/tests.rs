//! Tests of `queued.rs`.

use std::num::NonZeroUsize;

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_informer::LazyObject;

use super::*;
use crate::controller::permit::EventBudget;

#[test]
fn the_newest_state_is_dispatched_with_the_oldest_undispatched_state() {
    check(Coalescing::Always, "add a", "update a b", "add b");
    check(Coalescing::Always, "update a b", "update b c", "update a c");
    check(Coalescing::Always, "resync a", "update a b", "update a b+");
    check(Coalescing::Always, "resync a", "add b", "add b+");
}

#[test]
fn a_delete_replaces_the_events_before_it() {
    check(Coalescing::Always, "add a", "delete b", "delete b");
    check(Coalescing::Always, "update a b", "delete c", "delete c");
    check(Coalescing::Always, "resync a", "delete a", "delete a");
}

#[test]
fn an_object_that_was_seen_live_and_deleted_before_its_added_was_dispatched_vanishes() {
    let live = |text| QueuedEvent {
        may_be_known: false,
        ..notice(text)
    };
    for coalescing in [Coalescing::Always, Coalescing::WhenFull] {
        let mut added = live("add a");
        // Without a permit: the queue is full.
        let deleted = coalescing.coalesce(&mut added, live("delete a"));
        assert!(matches!(deleted, Coalesced::Cancelled(_)));
    }
    check(Coalescing::Always, "add a", "delete a", "delete a");
    // Only what was queued first tells whether a handler knows the object.
    for (mut queued, newer, is_known) in [
        (notice("resync a"), live("add a"), true),
        (live("add a"), notice("resync a"), false),
    ] {
        _ = Coalescing::Always.coalesce(&mut queued, newer);
        assert_eq!(show(&queued), "add a+");
        let deleted = Coalescing::Always.coalesce(&mut queued, live("delete a"));
        assert_eq!(matches!(deleted, Coalesced::Merged(_)), is_known);
    }
    let mut updated = live("update a b");
    let deleted = Coalescing::Always.coalesce(&mut updated, live("delete b"));
    assert!(
        matches!(deleted, Coalesced::Merged(_)),
        "its added was dispatched"
    );
}

#[test]
fn a_pending_call_gets_the_newest_object_and_keeps_its_action() {
    for (pending, newer, then) in [
        ("add a", "update a b", "add b"),
        ("update a b", "update b c", "update a c"),
        ("update a b", "resync c", "update a c"),
        ("resync a", "update a b", "update a b"),
        ("resync a", "resync b", "resync b"),
        ("delete a", "add b", "delete a"),
    ] {
        let mut call = RepeatableCall {
            event: notice(pending).event,
            is_deferred: false,
            attempt: 1,
            state: None,
            failed: None,
            reasons: Reasons::default(),
            origin: TraceParent::default(),
        };
        call.refresh(&notice(newer).event);
        let shown = QueuedEvent {
            event: call.event,
            ..notice("add a")
        };
        assert_eq!(show(&shown), then, "{pending}, then {newer}");
    }
}

#[test]
fn a_resync_does_not_replace_an_event() {
    for coalescing in [Coalescing::WhenFull, Coalescing::Always] {
        check(coalescing, "add a", "resync a", "add a+");
        check(coalescing, "update a b", "resync b", "update a b+");
        check(coalescing, "resync a", "resync a", "resync a+");
    }
}

#[test]
fn the_flag_of_a_resync_is_kept() {
    let mut first = notice("update a b");
    for (newer, shown) in [
        ("resync b", "update a b+"),
        ("update b c", "update a c+"),
        ("delete d", "delete d"),
    ] {
        let second = Coalescing::Always.coalesce(&mut first, notice(newer));
        assert!(matches!(second, Coalesced::Merged(_)));
        assert_eq!(show(&first), shown, "{newer}");
    }
}

#[test]
fn the_flag_of_a_requested_resync_is_kept() {
    for (older, newer) in [(true, false), (false, true)] {
        let mut first = notice("update a b");
        first.requested_by_mapper = older;
        let mut second = notice("update b c");
        second.requested_by_mapper = newer;
        let coalesced = Coalescing::Always.coalesce(&mut first, second);
        assert!(matches!(coalesced, Coalesced::Merged(_)));
        assert!(first.requested_by_mapper);
    }
}

#[test]
fn no_event_is_coalesced_into_a_delete() {
    for coalescing in [Coalescing::WhenFull, Coalescing::Always] {
        check(coalescing, "delete a", "add b", "delete a, add b");
        check(coalescing, "delete a", "resync a", "delete a, resync a");
    }
}

#[test]
fn every_event_is_dispatched_separately_while_the_queue_is_not_full() {
    for (older, newer) in [
        ("add a", "update a b"),
        ("update a b", "update b c"),
        ("update a b", "delete b"),
        ("resync a", "update a b"),
    ] {
        check(
            Coalescing::WhenFull,
            older,
            newer,
            &format!("{older}, {newer}"),
        );
    }
}

#[test]
fn a_partly_dispatched_event_is_not_coalesced() {
    let mut older = notice("update a b");
    older.last_called = Some(HandlerPosition::of((Role::Watcher, HandlerId(0))));
    assert!(
        Coalescing::Always
            .coalesce(&mut older, notice("update b c"))
            .is_separate()
    );
}

#[test]
fn an_object_is_identified_by_its_uid_and_a_state_by_its_address() {
    let object = |uid: &str| -> Arc<dyn ErasedObject> {
        let mut map = ConfigMap::default();
        map.metadata.uid = Some(uid.to_owned());
        Arc::new(map)
    };
    let added = |object: &Arc<dyn ErasedObject>| QueuedEvent {
        event: Event::Added(Arc::clone(object)),
        ..notice("add a")
    };
    let (first, again, other) = (object("1"), object("1"), object("2"));
    assert_eq!(added(&first).address(), added(&first).address());
    assert!(added(&first).is_same_object(&added(&first)));
    assert_ne!(added(&first).address(), added(&again).address());
    assert!(added(&first).is_same_object(&added(&again)));
    assert!(!added(&first).is_same_object(&added(&other)));
    let pending = RepeatableCall {
        event: added(&first).event,
        is_deferred: false,
        attempt: 1,
        state: None,
        failed: None,
        reasons: Reasons::default(),
        origin: TraceParent::default(),
    };
    assert_eq!(pending.address(), added(&first).address());
}

#[test]
fn positions_have_the_order_of_the_chain() {
    let chain = [
        (Role::Watcher, HandlerId(0)),
        (Role::Watcher, HandlerId(7)),
        (Role::Reconciler, HandlerId(0)),
        (Role::Reconciler, HandlerId(3)),
    ];
    assert!(chain.is_sorted());
    assert!(chain.map(HandlerPosition::of).is_sorted_by(|a, b| a < b));
}

#[track_caller]
fn check(coalescing: Coalescing, older: &str, newer: &str, last_called: &str) {
    let mut first = notice(older);
    let mut all = Vec::new();
    // The queue is not full.
    let permit = EventBudget::new(NonZeroUsize::MIN).take();
    let newer_event = QueuedEvent {
        permit,
        ..notice(newer)
    };
    let second = coalescing.coalesce(&mut first, newer_event);
    match second {
        Coalesced::Separate(second) => all.extend([show(&first), show(&second)]),
        Coalesced::Merged(_) => all.push(show(&first)),
        Coalesced::Cancelled(_) => all.push("nothing".to_owned()),
    }
    assert_eq!(
        all.join(", "),
        last_called,
        "{older} and then {newer}, {coalescing:?}"
    );
}

fn notice(text: &str) -> QueuedEvent {
    let words: Vec<_> = text.split(' ').collect();
    let object = |name: &str| -> Arc<dyn ErasedObject> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        Arc::new(map)
    };
    let event = match *words {
        ["add", a] => Event::Added(object(a)),
        ["update", a, b] => Event::Updated {
            old: LazyObject::from_erased(object(a)),
            new: object(b),
        },
        ["delete", a] => Event::Deleted {
            last: object(a),
            missed: false,
        },
        ["resync", a] => Event::Resynced(object(a)),
        _ => panic!("no such event: {text}"),
    };
    QueuedEvent {
        from_list: true,
        ..QueuedEvent::new(event, Reasons::default(), Moment::default())
    }
}

fn show(notice: &QueuedEvent) -> String {
    let resynced = if notice.resynced { "+" } else { "" };
    let event = match &notice.event {
        Event::Added(a) => format!("add {}", a.key()),
        Event::Updated { old, new } => format!("update {} {}", old.key(), new.key()),
        Event::Deleted { last, .. } => format!("delete {}", last.key()),
        Event::Resynced(a) => format!("resync {}", a.key()),
        _ => "synced".to_owned(),
    };
    event + resynced
}

/// A handler that fails first after its finalizer could not be written begins a schedule of its own,
/// and a finalizer that fails between two failures of its handler keeps that of the handler.
#[test]
fn finalizers_and_handlers_have_schedules_of_their_own() {
    let second = |number| Moment::default() + Duration::from_secs(number);
    let delay = |seconds| Some(Duration::from_secs(seconds));
    let outage = RetrySchedule::default()
        .after_failure(second(1), None, (0, true), delay(1))
        .after_failure(second(2), None, (0, true), delay(2));
    assert_eq!(
        (outage.finalizer_failures, outage.first_delay),
        (2, Duration::from_secs(1))
    );
    let early = RetrySchedule {
        kept_due: Some(second(300)),
        ..outage
    };
    assert_eq!(early.kept_by_failure(second(3), true), Some(second(300)));
    assert_eq!(early.kept_by_failure(second(3), false), None);
    let handler = early.after_failure(second(3), None, (1, false), delay(10));
    assert_eq!(
        (handler.finalizer_failures, handler.first_delay),
        (0, Duration::from_secs(10))
    );

    let early = RetrySchedule {
        kept_due: Some(second(300)),
        ..handler
    };
    assert_eq!(early.kept_by_failure(second(4), true), Some(second(300)));
    let finalizer = early.after_failure(second(4), Some(second(300)), (1, true), delay(296));
    assert_eq!(finalizer.first_delay, Duration::from_secs(10));
    // A second attempt of the handler restores its own least time between two early calls.
    let between = handler.after_failure(second(20), None, (1, true), delay(1));
    let again = between.after_failure(second(21), None, (2, false), delay(20));
    assert_eq!(again.first_delay, Duration::from_secs(20));
}
