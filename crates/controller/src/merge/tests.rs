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
    merge.apply(informer_event(0, event("+", "9")), &nothing);
    merge.apply(informer_event(0, event("=", "3")), &nothing);
    let passed = merge.member(id(0)).map(|it| it.last_version.0);
    assert_eq!(passed, Some(Some(9)));
}

#[test]
fn non_numeric_versions_have_the_order_of_arrival() {
    check("a+x b+y a~x", "+x ~x>y ~y>x");
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
        merge.synced(id(0), Some(50), &lookup);
        let version = |number| Version(Some(number));
        for uid in 0..Tombstones::MAX {
            merge.add_tombstone(Uid::from(&*format!("other-{uid}")), version(10));
        }
        assert!(merge.take_lagging().is_empty());
        merge.add_tombstone(Uid::from("one-more"), version(11));
        assert_eq!(merge.take_lagging(), [id(1)]);
        merge.add_tombstone(Uid::from("yet-one"), version(12));
        assert!(merge.take_lagging().is_empty(), "it lists already");

        let mut listed = informer_event(1, event("+", "5"));
        listed.live = false;
        assert!(merge.apply(listed, &lookup).is_none());
        merge.synced(id(1), up_to, &lookup);
        let released = merge.take_released();
        let released: Vec<_> = released.iter().map(show).collect();
        assert_eq!(released.join(" "), emitted, "{up_to:?} {stored:?}");
        assert!(merge.take_lagging().is_empty(), "{up_to:?} {stored:?}");
        let gone = merge.apply(informer_event(1, event("-", "30")), &lookup);
        assert_eq!(gone.is_some(), !emitted.is_empty());
    }
}

/// Also without a list, when its watch shows something newer.
#[test]
fn withheld_objects_are_released_when_the_watch_has_passed_the_deletes() {
    let mut merge = merge(false);
    let lookup = |_: InformerId, _: &ObjectKey, uid: &str| (uid == "u").then(|| object("5"));
    for uid in 0..=Tombstones::MAX {
        let version = Version(Some(10));
        merge.add_tombstone(Uid::from(&*format!("other-{uid}")), version);
    }
    let mut listed = informer_event(1, event("+", "5"));
    listed.live = false;
    assert!(merge.apply(listed, &lookup).is_none());
    for (version, emitted) in [("9", ""), ("10", "+5")] {
        let mut newer = ConfigMap::default();
        newer.metadata.name = Some("newer".to_owned());
        newer.metadata.uid = Some(format!("newer-{version}"));
        newer.metadata.resource_version = Some(version.to_owned());
        merge.apply(informer_event(1, Event::Added(Arc::new(newer))), &lookup);
        let released = merge.take_released();
        let released: Vec<_> = released.iter().map(show).collect();
        assert_eq!(released.join(" "), emitted, "{version}");
    }
}

#[test]
fn only_objects_that_wait_for_events_of_a_removed_informer_are_resynced() {
    // The events of a were passed on before b was there; its store has version 3.
    let lookup =
        |informer: InformerId, _: &ObjectKey, _: &str| (informer == id(0)).then(|| object("3"));
    let mut merge = merge(true);
    merge.apply(informer_event(1, event("+", "4")), &lookup);
    let resynced = merge.remove(id(0), &lookup);
    assert_eq!(resynced, [(id(1), object("3").key())]);

    // Its next event was passed on: nothing waits.
    let mut merge = self::merge(true);
    merge.apply(informer_event(1, event("+", "4")), &lookup);
    merge.apply(informer_event(0, event("~", "4")), &lookup);
    assert!(merge.remove(id(0), &lookup).is_empty());

    // The one that waits for it is removed, and then nothing does.
    let mut merge = self::merge(true);
    merge.apply(informer_event(1, event("+", "4")), &lookup);
    assert!(merge.remove(id(1), &lookup).is_empty());
}

#[test]
fn a_withheld_informer_has_the_objects_that_another_one_shows() {
    let mut merge = merge(false);
    let lookup = |_: InformerId, _: &ObjectKey, _: &str| Some(object("5"));
    let mut apply = |informer: usize, what: &str, version: &str| {
        let shown = informer_event(informer, event(what, version));
        let merged = merge.apply(shown, &lookup);
        merged.map_or_else(String::new, |merged| show(&merged))
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
        let version = Version(Some(10));
        for uid in 0..=Tombstones::MAX {
            merge.add_tombstone(Uid::from(&*format!("other-{uid}")), version);
        }
        let updated = informer_event(informer, event("~", "5"));
        let merged = merge.apply(updated, &nothing);
        assert_eq!(merged.is_some(), is_emitted, "{preceding}");
    }
}

#[test]
fn a_removed_tombstone_leaves_the_others() {
    let mut tombstones = Tombstones::default();
    let version = |number| Version(Some(number));
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
                merge.add(informer, false);
            }
            continue;
        }
        let informer = usize::from(step.starts_with('b'));
        let event = event(&step[1..2], &step[2..]);
        all.extend(merge.apply(informer_event(informer, event), &lookup));
        all.extend(merge.take_released());
    }
    let all: Vec<_> = all.iter().map(show).collect();
    assert_eq!(all.join(" "), emitted, "{script}");
}

fn informer_event(informer: usize, event: AnyEvent) -> InformerEvent {
    InformerEvent {
        informer: id(informer),
        event,
        live: true,
    }
}

fn merge(preceding: bool) -> Merge {
    let mut merge = Merge::default();
    merge.add(id(0), preceding);
    merge.add(id(1), false);
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
