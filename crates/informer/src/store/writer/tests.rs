//! Tests of `writer.rs`.

use k8s_openapi::api::core::v1::ConfigMap;

use super::{Delta, Writer};
use crate::{Event, Identity, ObjectIdentity, ObjectKey, Uid, store::Store};

#[test]
fn each_change_is_one_delta() {
    check(
        "apply a 1 u, apply a 1 u, apply a 2 u, delete a 3 u, delete a 3 u",
        "+1 ~1>2 -3",
    );
}

#[test]
fn an_older_state_is_dropped() {
    check("apply a 5 u, apply a 4 u", "+5");
}

#[test]
fn a_new_uid_is_a_delete_and_an_add() {
    check("apply a 1 u, apply a 2 v", "+1 -1? +2");
}

#[test]
fn a_late_change_of_a_predecessor_is_dropped() {
    check(
        "apply a 1 u, apply a 3 v, delete a 2 u, apply a 1 u",
        "+1 -1? +3",
    );
}

#[test]
fn a_list_shows_deletes() {
    check(
        "apply a 1 u, apply b 2 v, begin, apply b 2 v, end",
        "+1 +2 -1?",
    );
}

#[test]
fn an_incomplete_list_shows_no_deletes() {
    check(
        "apply a 1 u, apply b 2 v, begin, apply a 1 u, begin, apply b 2 v, apply a 1 u, end",
        "+1 +2",
    );
}

#[test]
fn an_undecodable_object_is_not_deleted() {
    check("apply a 1 u, begin, keep a 2 u, end", "+1");
}

#[test]
fn the_predecessor_of_an_undecodable_object_is_deleted() {
    check("apply a 1 u, keep a 2 v", "+1 -1?");
}

#[test]
fn an_undecodable_predecessor_is_dropped() {
    check("apply a 5 v, keep a 2 u", "+5");
}

/// Rows: BO-01
#[test]
fn after_a_restore_the_store_becomes_equal_to_the_list() {
    check(
        "apply a 50 u, apply b 60 v, apply c 70 w, back, begin, apply a 5 x, apply b 6 v, end",
        "+50 +60 +70 -50? +5 ~60>6 -70?",
    );
    // The list breaks off, and is taken again.
    check(
        "apply a 50 u, apply b 60 v, back, begin, apply a 5 u, begin, apply a 5 u, apply b 6 v, end",
        "+50 +60 ~50>5 ~60>6",
    );
    // A version that both histories have is not the same state.
    check("apply a 5 u, back, begin, apply a 5 u, end", "+5 ~5>5");
}

#[test]
fn an_undecodable_object_after_a_restore_is_replaced_by_its_next_state() {
    check(
        "apply a 50 u, back, begin, keep a 5 u, end, apply a 6 u, apply a 5 u",
        "+50 ~50>6",
    );
}

#[test]
fn non_numeric_versions_are_ordered_by_arrival() {
    check("apply a y u, apply a x u, apply a x u", "+y ~y>x");
}

#[test]
fn a_list_counts_the_objects_that_it_shows() {
    let mut writer = Writer::new(Store::new(Vec::new(), std::sync::Arc::default()));
    for (name, shown) in [("a", 1), ("b", 2), ("a", 2)] {
        writer.apply(object(name, "1", "u").into()).for_each(drop);
        assert_eq!(writer.store.shown(), shown);
    }
    writer.begin();
    assert_eq!(writer.store.shown(), 0);
    writer.apply(object("a", "2", "u").into()).for_each(drop);
    writer.keep(&identity("b", "1", "u")).for_each(drop);
    writer.keep(&identity("b", "1", "u")).for_each(drop);
    assert_eq!(writer.store.shown(), 2);
}

#[test]
fn a_state_is_identified_by_uid_and_version() {
    let mut writer = Writer::new(Store::new(Vec::new(), std::sync::Arc::default()));
    assert_eq!(writer.apply(object("a", "5", "u").into()).count(), 1);
    let store = writer.store.clone();
    let known = |object| store.known(&object).is_some();
    assert!(known(identity("a", "5", "u")));
    assert!(!known(identity("a", "6", "u")));
    assert!(!known(identity("a", "5", "v")));
    assert!(!known(identity("b", "5", "u")));
    writer.begin_epoch();
    assert!(!known(identity("a", "5", "u")), "another history");
}

/// Runs `script`. `events` are its events: `+` added, `~` updated, `-` deleted (`?` for a
/// missed delete), with resource versions.
#[track_caller]
fn check(script: &str, events: &str) {
    let mut writer = Writer::new(Store::new(Vec::new(), std::sync::Arc::default()));
    let mut all = Vec::new();
    for step in script.split(", ") {
        match step.split(' ').collect::<Vec<_>>()[..] {
            ["apply", name, version, uid] => {
                all.extend(writer.apply(object(name, version, uid).into()));
            }
            ["keep", name, version, uid] => {
                all.extend(writer.keep(&identity(name, version, uid)));
            }
            ["delete", name, version, uid] => {
                let last = object(name, version, uid).into();
                all.extend(writer.delete(&identity(name, version, uid), Some(last)));
            }
            ["begin"] => writer.begin(),
            ["back"] => writer.begin_epoch(),
            ["end"] => {
                for key in writer.unmarked() {
                    all.extend(writer.sweep(&key));
                }
            }
            _ => panic!("no such step: {step}"),
        }
    }
    let all: Vec<String> = all.into_iter().map(say).collect();
    assert_eq!(all.join(" "), events, "{script}");
}

fn say(delta: Delta<ConfigMap>) -> String {
    let version = |object: &dyn ObjectIdentity| {
        let version = object.resource_version().map(str::to_owned);
        version.expect("each object has one")
    };
    let (_, event, _) = delta.into_event().expect("it is decoded");
    match event {
        Event::Added(object) => format!("+{}", version(&*object)),
        Event::Updated { old, new } => format!("~{}>{}", version(&old), version(&*new)),
        Event::Deleted { last, missed } => {
            format!("-{}{}", version(&*last), if missed { "?" } else { "" })
        }
        Event::Resynced(_) | Event::Synced => unreachable!("a writer never says so"),
    }
}

fn object(name: &str, version: &str, uid: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.resource_version = Some(version.to_owned());
    object.metadata.uid = Some(uid.to_owned());
    object
}

fn identity(name: &str, version: &str, uid: &str) -> Identity {
    Identity {
        key: ObjectKey::new(name),
        uid: Some(Uid::from(uid)),
        resource_version: Some(version.to_owned()),
    }
}
