//! Histories of one object that two informers show.

use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

#[test]
fn each_version_is_emitted_once_whichever_informer_delivers_it() {
    check("a+1 b+1 a~2 b~2", "+1 ~1>2");
    check("a+1 a~2 b+1 b~2 b~3 a~3", "+1 ~1>2 ~2>3");
}

#[test]
fn versions_never_go_back() {
    check("a+1 a~5 b+3 b~4 b~6", "+1 ~1>5 ~5>6");
}

/// Rows: GA-90
#[test]
fn an_object_is_deleted_when_no_informer_holds_it() {
    check("a+1 b+1 a-2 b-2", "+1 -2");
    check("a+1 b+1 a-3 b~2 b-3", "+1 ~1>2 -3");
    check("a+1 b+4 a-5", "+1 ~1>4");
}

#[test]
fn an_object_that_moves_between_informers_is_updated_or_deleted_and_added() {
    check("a+1 b+2 a-2", "+1 ~1>2");
    check("a+1 a-2 b+2", "+1 -2 +2");
}

#[test]
fn a_lagging_informer_does_not_restore_deleted_objects() {
    check("a+1 a-5 b+1 b~2 b-5", "+1 -5");
    check("a+1 a-5 b+1 b-5 a+6", "+1 -5 +6");
    // The object left b, returned, and was deleted. b delivers all this late.
    check("b+1 a+3 a-4 b-2 b+3 b-4", "+1 ~1>3 -3");
}

#[test]
fn a_resync_has_the_newest_state() {
    check("a+1 b+4 a=1", "+1 ~1>4 =4");
}

#[test]
fn objects_of_a_single_informer_are_added_again_after_its_return() {
    check("a+1 b+1 !a a+1", "+1");
    check("a+1 !a a+1", "+1 +1");
}

#[test]
fn an_earlier_informer_keeps_its_objects() {
    // The store of the first one holds version 3, and its events up to 2 were passed on.
    check("@3 b+3 a~3", "~2>3");
    check("@3 b+4 a~3 a~4", "~2>3 ~3>4");
    check("@3 b+4 a-3", "~3>4");
    check("@- b+4 a-3 b~5", "+4 ~4>5");
    check("@3 a-4 b+3", "-4");
    // The second one has lost it: the first one continues.
    check("@3 b+4 b-5 a~3", "~2>3 ~3>4");
}

#[test]
fn a_newer_state_of_another_informer_is_emitted_after_that_of_the_first() {
    check("@3 b+4 a~3 ?a", "~2>3 ~3>4");
    check("@3 b+4 a=3 ?a", "=3 ~3>4");
    check("@3 b+4 a~3 a-4 b-4", "~2>3 ~3>4 -4");
}

#[test]
fn an_object_of_the_first_informer_after_a_delete_is_added() {
    check("@- b+4 b-5 a~4 a~5", "+4 -5 +5");
}

#[test]
fn another_informer_takes_over_the_objects_of_a_removed_one() {
    check("@3 b+3 ?a b=3 b~4", "+3 ~3>4");
    check("@3 b+3 ?a b~4", "+4");
    check("@3 b+3 ?a b-4", "-4");
    // The store of the removed one was ahead.
    check("@5 b+3 ?a b=3 b~4 b~6", "+5 ~5>6");
}

#[test]
fn late_events_of_a_removed_informer_are_dropped() {
    check("a+1 b+1 ?a a~2 a+9 b-3", "+1 -3");
    check("a+1 ?a a~2 b+3", "+1 +3");
}

#[test]
fn a_resync_does_not_change_the_progress_of_an_informer() {
    let mut merge = merge(false);
    let nothing = |_: InformerId, _: &ObjectKey, _: &str| None;
    merge.apply(informer_event(0, event("+", "9"), 0), &nothing);
    merge.apply(informer_event(0, event("=", "3"), 0), &nothing);
    let passed = merge.member(id(0)).map(|it| it.last_version.number);
    assert_eq!(passed, Some(Some(9)));
}

#[test]
fn non_numeric_versions_have_the_order_of_arrival() {
    check("a+x b+y a~x", "+x ~x>y ~y>x");
}

#[test]
fn a_restore_begins_a_new_epoch() {
    let mut merge = merge(false);
    let nothing = |_: InformerId, _: &ObjectKey, _: &str| None;
    let mut apply = |event, epoch| merge.apply(informer_event(0, event, epoch), &nothing);
    assert!(apply(Event::Added(object("9")), 0).is_some());
    let deleted = Event::Deleted {
        last: object("9"),
        missed: true,
    };
    assert!(apply(deleted, 0).is_some());
    assert!(apply(Event::Added(object("4")), 0).is_none(), "it is older");
    assert!(apply(Event::Added(object("4")), 1).is_some());
}

#[test]
fn an_informer_that_is_added_after_a_restore_has_the_same_epoch() {
    let mut merge = merge(false);
    let nothing = |_: InformerId, _: &ObjectKey, _: &str| None;
    let apply = |merge: &mut Merge, shown| merge.apply(shown, &nothing).map(|it| it.restored);
    let restored = Event::Added(object("4"));
    assert!(apply(&mut merge, informer_event(0, restored, 1)).is_some());
    merge.remove(id(1), &nothing);
    // The informer was not registered during the restore, and has counted no epoch.
    merge.add(id(1), false, 0);
    let newer = Event::Added(object("6"));
    assert_eq!(apply(&mut merge, informer_event(1, newer, 0)), Some(false));
    let older = Event::Added(object("5"));
    assert_eq!(apply(&mut merge, informer_event(0, older, 1)), None);
}

#[test]
fn when_one_informer_detects_a_restore_the_others_relist() {
    let mut merge = merge(false);
    // The store of the second informer.
    let lookup =
        |informer: InformerId, _: &ObjectKey, _: &str| (informer == id(1)).then(|| object("3"));
    let apply = |merge: &mut Merge, shown| {
        let merged: Option<MergedEvent> = merge.apply(shown, &lookup);
        merged.map(|it| (show(&it.event), it.restored))
    };
    let added = informer_event(0, event("+", "9"), 0);
    assert_eq!(apply(&mut merge, added), Some(("+9".to_owned(), false)));
    // The informer lists for the first time after the restore, which it cannot detect.
    let listed = informer_event(1, event("+", "3"), 0);
    assert_eq!(apply(&mut merge, listed), None, "it may be from the past");
    let gone = informer_event(0, event("-", "9"), 1);
    assert_eq!(apply(&mut merge, gone), None, "the other one has it");
    assert_eq!(merge.take_lagging(), [id(1)]);
    merge.synced(id(1), 0, Some(5), &lookup);
    let released = merge.take_released();
    let released = released.iter().map(|it| (show(&it.event), it.restored));
    assert!(released.eq([("~9>3".to_owned(), true)]));
    // Another list of it is of the same epoch.
    merge.synced(id(1), 0, Some(6), &lookup);
    assert!(merge.take_released().is_empty() && merge.take_lagging().is_empty());
}

#[test]
fn a_list_that_can_be_older_than_the_restore_is_repeated() {
    let mut merge = merge(false);
    let nothing = |_: InformerId, _: &ObjectKey, _: &str| None;
    for uid in 0..=Tombstones::MAX {
        merge.add_tombstone(Uid::from(&*uid.to_string()), Version::default());
    }
    let late = merge.take_lagging();
    assert!(late.contains(&id(1)), "it lists for the tombstones");
    merge.apply(informer_event(0, event("+", "4"), 1), &nothing);
    assert!(merge.take_lagging().is_empty());
    merge.synced(id(1), 0, Some(50), &nothing);
    assert_eq!(merge.take_lagging(), [id(1)]);
    merge.synced(id(1), 0, Some(50), &nothing);
    assert!(merge.take_lagging().is_empty());
}

#[test]
fn the_number_of_tombstones_is_bounded() {
    let mut merge = merge(false);
    for uid in 0..Tombstones::MAX + 10 {
        merge.add_tombstone(Uid::from(&*uid.to_string()), Version::default());
    }
    assert_eq!(merge.tombstones.len(), Tombstones::MAX);
}

#[test]
fn objects_of_a_lagging_informer_are_withheld_until_it_has_passed_the_deletes() {
    // Which version it has shown everything up to, what is in its store, what was emitted.
    for (up_to, stored, emitted) in [
        (Some(20), Some("5"), "+5"),
        (Some(20), Some("25"), "+25"),
        (None, Some("5"), "+5"),
        (Some(20), None, ""),
        (Some(9), Some("5"), ""),
    ] {
        let mut merge = merge(false);
        let lookup = |_: InformerId, _: &ObjectKey, _: &str| stored.map(object);
        merge.synced(id(0), 0, Some(50), &lookup);
        let version = |number| Version {
            epoch: 0,
            number: Some(number),
        };
        for uid in 0..Tombstones::MAX {
            merge.add_tombstone(Uid::from(&*format!("other-{uid}")), version(10));
        }
        assert!(merge.take_lagging().is_empty());
        merge.add_tombstone(Uid::from("one-more"), version(11));
        assert_eq!(merge.take_lagging(), [id(1)]);
        merge.add_tombstone(Uid::from("yet-one"), version(12));
        assert!(merge.take_lagging().is_empty(), "it lists already");

        let mut listed = informer_event(1, event("+", "5"), 0);
        listed.live = false;
        assert!(merge.apply(listed, &lookup).is_none());
        merge.synced(id(1), 0, up_to, &lookup);
        let released = merge.take_released();
        let released: Vec<_> = released.iter().map(|it| show(&it.event)).collect();
        assert_eq!(released.join(" "), emitted, "{up_to:?} {stored:?}");
        assert!(merge.take_lagging().is_empty(), "{up_to:?} {stored:?}");
        let gone = merge.apply(informer_event(1, event("-", "30"), 0), &lookup);
        assert_eq!(gone.is_some(), !emitted.is_empty());
    }
}

/// Also without a list, when its watch shows something newer.
#[test]
fn withheld_objects_are_released_when_the_watch_has_passed_the_deletes() {
    let mut merge = merge(false);
    let lookup = |_: InformerId, _: &ObjectKey, uid: &str| (uid == "u").then(|| object("5"));
    for uid in 0..=Tombstones::MAX {
        let version = Version {
            epoch: 0,
            number: Some(10),
        };
        merge.add_tombstone(Uid::from(&*format!("other-{uid}")), version);
    }
    let mut listed = informer_event(1, event("+", "5"), 0);
    listed.live = false;
    assert!(merge.apply(listed, &lookup).is_none());
    for (version, emitted) in [("9", ""), ("10", "+5")] {
        let mut newer = ConfigMap::default();
        newer.metadata.name = Some("newer".to_owned());
        newer.metadata.uid = Some(format!("newer-{version}"));
        newer.metadata.resource_version = Some(version.to_owned());
        merge.apply(informer_event(1, Event::Added(Arc::new(newer)), 0), &lookup);
        let released = merge.take_released();
        let released: Vec<_> = released.iter().map(|it| show(&it.event)).collect();
        assert_eq!(released.join(" "), emitted, "{version}");
    }
}

#[test]
fn only_objects_that_wait_for_events_of_a_removed_informer_are_resynced() {
    // The events of a were passed on before b was there; its store has version 3.
    let lookup =
        |informer: InformerId, _: &ObjectKey, _: &str| (informer == id(0)).then(|| object("3"));
    let mut merge = merge(true);
    merge.apply(informer_event(1, event("+", "4"), 0), &lookup);
    let resynced = merge.remove(id(0), &lookup);
    assert_eq!(resynced, [(id(1), object("3").key())]);

    // Its next event was passed on: nothing waits.
    let mut merge = self::merge(true);
    merge.apply(informer_event(1, event("+", "4"), 0), &lookup);
    merge.apply(informer_event(0, event("~", "4"), 0), &lookup);
    assert!(merge.remove(id(0), &lookup).is_empty());

    // The one that waits for it is removed, and then nothing does.
    let mut merge = self::merge(true);
    merge.apply(informer_event(1, event("+", "4"), 0), &lookup);
    assert!(merge.remove(id(1), &lookup).is_empty());
}

#[test]
fn a_lagging_informer_that_missed_a_restore_catches_up_with_its_list() {
    for counted in [0, 1] {
        let mut merge = merge(false);
        let lookup = |_: InformerId, _: &ObjectKey, _: &str| Some(object("5"));
        merge.synced(id(0), 1, Some(50), &lookup);
        let version = |number| Version {
            epoch: 1,
            number: Some(number),
        };
        for uid in 0..=Tombstones::MAX {
            merge.add_tombstone(Uid::from(&*format!("other-{uid}")), version(10));
        }
        assert_eq!(merge.take_lagging(), [id(1)]);
        // In the epoch of the dropped tombstones, whether the informer has noticed it or not.
        let mut listed = informer_event(1, event("+", "5"), counted);
        (listed.live, listed.restored) = (false, true);
        assert!(merge.apply(listed, &lookup).is_none());
        let again = informer_event(1, event("~", "6"), counted);
        assert!(merge.apply(again, &lookup).is_none());
        merge.synced(id(1), counted, Some(20), &lookup);
        let released = merge.take_released();
        let released: Vec<_> = released
            .iter()
            .map(|it| (show(&it.event), it.restored))
            .collect();
        assert_eq!(released, [("+5".to_owned(), true)]);
        merge.add_tombstone(Uid::from("one-more"), version(12));
        assert!(merge.take_lagging().is_empty(), "it has passed that");
    }
}

/// The list can be older than the delete that the informer has to pass. Without the request there
/// is no other list, and the watch of the old history never passes that delete.
#[test]
fn after_a_restore_a_list_from_before_a_dropped_tombstone_is_requested_again() {
    let mut merge = merge(false);
    let lookup = |_: InformerId, _: &ObjectKey, _: &str| Some(object("5"));
    merge.synced(id(0), 1, Some(50), &lookup);
    assert_eq!(merge.take_lagging(), [id(1)]);
    let version = Version {
        epoch: 1,
        number: Some(10),
    };
    for uid in 0..=Tombstones::MAX {
        merge.add_tombstone(Uid::from(&*format!("other-{uid}")), version);
    }
    let mut listed = informer_event(1, event("+", "5"), 0);
    listed.live = false;
    assert!(merge.apply(listed, &lookup).is_none());
    merge.synced(id(1), 0, Some(9), &lookup);
    assert!(merge.take_released().is_empty());
    assert_eq!(merge.take_lagging(), [id(1)]);
    merge.synced(id(1), 0, Some(10), &lookup);
    let released = merge.take_released();
    let released: Vec<_> = released.iter().map(|it| show(&it.event)).collect();
    assert_eq!(released, ["+5"]);
    assert!(merge.take_lagging().is_empty());
}

#[test]
fn a_withheld_informer_has_the_objects_that_another_one_shows() {
    let mut merge = merge(false);
    let lookup = |_: InformerId, _: &ObjectKey, _: &str| Some(object("5"));
    let mut apply = |informer: usize, what: &str, version: &str| {
        let shown = informer_event(informer, event(what, version), 0);
        let merged = merge.apply(shown, &lookup);
        merged.map_or_else(String::new, |merged| show(&merged.event))
    };
    assert_eq!(apply(0, "+", "1"), "+1");
    assert_eq!(apply(0, "-", "10"), "-10");
    assert_eq!(apply(1, "+", "5"), "", "from before the delete");
    assert_eq!(apply(0, "+", "12"), "+12");
    assert_eq!(apply(0, "-", "14"), "", "the other one has it");
    assert_eq!(apply(1, "-", "14"), "-14");
}

/// Its own history was passed on before, so that its updates are no new objects.
#[test]
fn an_update_of_an_unknown_object_is_withheld_unless_the_informer_is_older() {
    for (preceding, informer, is_emitted) in [(false, 1, false), (true, 0, true)] {
        let mut merge = merge(preceding);
        let nothing = |_: InformerId, _: &ObjectKey, _: &str| None;
        let version = Version {
            epoch: 0,
            number: Some(10),
        };
        for uid in 0..=Tombstones::MAX {
            merge.add_tombstone(Uid::from(&*format!("other-{uid}")), version);
        }
        let updated = informer_event(informer, event("~", "5"), 0);
        let merged = merge.apply(updated, &nothing);
        assert_eq!(merged.is_some(), is_emitted, "{preceding}");
    }
}

/// A second informer that has not detected that the history went back.
#[test]
fn an_object_that_only_an_informer_of_an_earlier_epoch_shows_is_of_the_newest() {
    let mut merge = merge(false);
    let nothing = |_: InformerId, _: &ObjectKey, _: &str| None;
    let mut apply = |informer, what: &str, version: &str, epoch| {
        let merged = merge.apply(
            informer_event(informer, event(what, version), epoch),
            &nothing,
        );
        merged.map(|it| (show(&it.event), it.restored))
    };
    let emitted = |event: &str, restored| Some((event.to_owned(), restored));
    assert_eq!(apply(0, "+", "4", 1), emitted("+4", true));
    assert_eq!(apply(0, "-", "4", 1), emitted("-4", false));
    assert_eq!(apply(1, "+", "5", 0), emitted("+5", false));
    // The second one detects it: the earlier state may have been of the old history.
    assert_eq!(apply(1, "~", "6", 1), emitted("~5>6", true));
    assert_eq!(apply(1, "~", "7", 1), emitted("~6>7", false));
}

#[test]
fn an_object_that_an_informer_of_the_newest_epoch_shows_is_not_replaced_by_an_earlier_epoch() {
    let mut merge = merge(false);
    let nothing = |_: InformerId, _: &ObjectKey, _: &str| None;
    let mut apply = |informer, what: &str, version: &str, epoch| {
        let merged = merge.apply(
            informer_event(informer, event(what, version), epoch),
            &nothing,
        );
        merged.map(|it| (show(&it.event), it.restored))
    };
    let emitted = |event: &str, restored| Some((event.to_owned(), restored));
    assert_eq!(apply(0, "+", "4", 1), emitted("+4", true));
    assert_eq!(apply(1, "+", "9", 0), None);
    assert_eq!(apply(0, "~", "5", 1), emitted("~4>5", false));
}

#[test]
fn a_removed_tombstone_leaves_the_others() {
    let mut tombstones = Tombstones::default();
    let version = |number| Version {
        epoch: 0,
        number: Some(number),
    };
    let (first, second) = (Uid::from("first"), Uid::from("second"));
    tombstones.insert(first.clone(), version(1));
    tombstones.insert(second.clone(), version(2));
    tombstones.remove(&first);
    assert_eq!(tombstones.get(&first), None);
    assert_eq!(tombstones.get(&second), Some(version(2)));
    assert_eq!(
        (tombstones.len(), tombstones.oldest()),
        (1, Some(version(2)))
    );
}

/// Applies the events of the informers a and b to one object: `a+1` added, `a~2` updated,
/// `a-3` deleted, `a=4` resynced, `?a` removes a, `!a` also adds it again. A
/// script that begins with `@3` has an informer a that was there before, whose store holds version
/// 3 (`@-`: nothing).
#[track_caller]
fn check(script: &str, emitted: &str) {
    let mut steps: Vec<_> = script.split(' ').collect();
    let stored = steps[0].strip_prefix('@').map(str::to_owned);
    if stored.is_some() {
        steps.remove(0);
    }
    let mut merge = merge(stored.is_some());
    let lookup = |informer: InformerId, _: &ObjectKey, _: &str| {
        let stored = stored.as_deref().filter(|it| *it != "-")?;
        (informer == id(0)).then(|| object(stored))
    };
    let mut all = Vec::new();
    for step in steps {
        if let Some(name) = step.strip_prefix(['!', '?']) {
            let informer = id(usize::from(name == "b"));
            merge.remove(informer, &lookup);
            if step.starts_with('!') {
                merge.add(informer, false, 0);
            }
            continue;
        }
        let informer = usize::from(step.starts_with('b'));
        let event = event(&step[1..2], &step[2..]);
        all.extend(merge.apply(informer_event(informer, event, 0), &lookup));
        all.extend(merge.take_released());
    }
    let all: Vec<_> = all.iter().map(|it| show(&it.event)).collect();
    assert_eq!(all.join(" "), emitted, "{script}");
}

fn informer_event(informer: usize, event: AnyEvent, epoch: u32) -> InformerEvent {
    InformerEvent {
        informer: id(informer),
        event,
        epoch,
        live: true,
        restored: epoch > 0,
    }
}

fn merge(preceding: bool) -> Merge {
    let mut merge = Merge::default();
    merge.add(id(0), preceding, 0);
    merge.add(id(1), false, 0);
    merge
}

fn id(index: usize) -> InformerId {
    use std::sync::OnceLock;
    static IDS: OnceLock<[InformerId; 2]> = OnceLock::new();
    let new = || {
        let (_, source) = windlass_informer::Scripted::<ConfigMap>::new();
        windlass_informer::Informer::new(source).id()
    };
    IDS.get_or_init(|| [new(), new()])[index]
}

fn event(what: &str, version: &str) -> AnyEvent {
    let new = object(version);
    match what {
        "+" => Event::Added(new),
        "~" => {
            let before = version.parse::<u64>().map(|it| it - 1);
            let old = before.map_or_else(|_| "x".to_owned(), |it| it.to_string());
            let old = LazyObject::from_erased(object(&old));
            Event::Updated { old, new }
        }
        "-" => Event::Deleted {
            last: new,
            missed: false,
        },
        _ => Event::Resynced(new),
    }
}

fn object(version: &str) -> Object {
    let mut object = ConfigMap::default();
    object.metadata.name = Some("web".to_owned());
    object.metadata.uid = Some("u".to_owned());
    object.metadata.resource_version = Some(version.to_owned());
    Arc::new(object)
}

fn show(event: &AnyEvent) -> String {
    let version = |object: &dyn ObjectIdentity| object.resource_version().unwrap_or("?").to_owned();
    match event {
        Event::Added(object) => format!("+{}", version(&**object)),
        Event::Updated { old, new } => format!("~{}>{}", version(old), version(&**new)),
        Event::Deleted { last, .. } => format!("-{}", version(&**last)),
        Event::Resynced(object) => format!("={}", version(&**object)),
        _ => "?".to_owned(),
    }
}
