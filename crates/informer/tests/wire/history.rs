//! Stale responses: of a stale replica, and of a cluster that was restored.

use std::time::Duration;

use windlass_informer::{HistoryWentBack, ObjectKey};

use crate::{
    server::{Answer, Server},
    text::{added, bad, bookmark, deleted, end, error, list, modified, object},
    wire::{Wire, source},
};

/// The replica behind a load balancer that is minutes behind would end what is there, and
/// bring back deleted objects.
///
/// Rows: BO-01
#[tokio::test(start_paused = true)]
async fn a_streamed_list_from_the_past_changes_no_objects() {
    let mut wire = Wire::start([
        Answer::lines([
            added("a", 1, "1"),
            end(10),
            added("b", 20, "1"),
            deleted("c", 21),
        ]),
        Answer::lines([error(410, "Expired")]),
        // `c` was there at version 15, and `b` was not yet.
        Answer::lines([added("a", 1, "1"), added("c", 12, "1"), end(15)]).then_hang(),
        Answer::json(200, &list("22", &[("a", 1), ("b", 20)])),
        Answer::lines([added("d", 23, "1")]).then_hang(),
    ]);
    assert_eq!(
        wire.receive(4).await,
        ["added a", "synced", "added b", "added d"]
    );
    assert!(wire.asked(3).contains("limit=500"), "{}", wire.asked(3));
    assert!(
        !wire.asked(3).contains("resourceVersion"),
        "{}",
        wire.asked(3)
    );
    assert_eq!(wire.informer.store().len(), 3);
    assert_eq!(wire.informer.history_went_back(), None);
}

/// An object from before the last version may be one that did not decode then.
#[tokio::test(start_paused = true)]
async fn an_object_that_decodes_since_the_last_list_is_added() {
    let broken = added("old", 3, "1").replace(&object("old", 3, "1"), &bad("old", 3));
    let mut wire = Wire::start([
        Answer::lines([added("a", 1, "1"), broken, end(10)]),
        Answer::lines([error(410, "Expired")]),
        Answer::lines([added("a", 1, "1"), added("old", 3, "1"), end(12)]).then_hang(),
    ]);
    assert_eq!(wire.receive(3).await, ["added a", "synced", "added old"]);
    assert_eq!(wire.server.requests().len(), 3);
}

/// The many deleted objects of a stale replica are not kept in memory until its list ends.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_with_many_deleted_objects_is_aborted() {
    let gone = (0..200).map(|number| added(&format!("gone-{number}"), 5, "1"));
    let mut wire = Wire::start([
        Answer::lines([added("a", 1, "1"), end(10)]),
        Answer::lines([error(410, "Expired")]),
        Answer::lines(gone).then_hang(),
        Answer::json(200, &list("22", &[("a", 1)])),
        Answer::lines([added("d", 23, "1")]).then_hang(),
    ]);
    assert_eq!(wire.receive(3).await, ["added a", "synced", "added d"]);
    let began = wire.server.requests()[2].0;
    assert!(wire.server.requests()[3].0 - began < Duration::from_secs(5));
}

/// The objects of a refused stream are dropped with it.
#[tokio::test(start_paused = true)]
async fn objects_of_a_refused_stream_are_never_delivered() {
    let mut wire = Wire::start([
        Answer::lines([added("a", 1, "1"), end(20)]),
        Answer::lines([error(410, "Expired")]),
        // From a stale replica, as above.
        Answer::lines([added("a", 1, "1"), added("c", 12, "1"), end(15)]).then_hang(),
        Answer::json(200, &list("22", &[("a", 1)])),
        Answer::lines([error(410, "Expired")]),
        Answer::lines([
            added("a", 1, "1"),
            added("d", 25, "1"),
            end(30),
            added("e", 31, "1"),
        ])
        .then_hang(),
    ]);
    assert_eq!(
        wire.receive(4).await,
        ["added a", "synced", "added d", "added e"]
    );
    assert!(wire.asked(5).contains("sendInitialEvents"));
}

/// The same bound in bytes: twenty objects of 1 MiB are too much.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_with_large_deleted_objects_is_aborted() {
    let large = "x".repeat(1024 * 1024);
    let gone = (0..20).map(|number| added(&format!("gone-{number}"), 5, &large));
    let mut wire = Wire::start([
        Answer::lines([added("a", 1, "1"), end(10)]),
        Answer::lines([error(410, "Expired")]),
        Answer::lines(gone).then_hang(),
        Answer::json(200, &list("22", &[("a", 1)])),
        Answer::lines([added("d", 23, "1")]).then_hang(),
    ]);
    assert_eq!(wire.receive(3).await, ["added a", "synced", "added d"]);
    let wait = wire.waits()[2];
    assert!(wait < Duration::from_secs(5), "{wait:?}");
}

/// The cluster was restored from a backup: same names, lower versions, other uids. The watch
/// is silent, because it is one after a version from the future.
///
/// Rows: BO-01
#[tokio::test(start_paused = true)]
async fn a_restored_cluster_is_detected_after_silence_and_its_objects_are_delivered() {
    let restored = list("50", &[("a", 40), ("b", 41), ("c", 45)])
        .replace("uid-a", "uid-a-restored")
        .replace(r#"{"value":"1"}"#, r#"{"value":"restored"}"#);
    let mut wire = Wire::start([
        Answer::lines([
            added("a", 100, "1"),
            added("b", 101, "1"),
            added("d", 102, "1"),
            end(110),
        ])
        .then_hang(),
        Answer::json(200, &list("50", &[("a", 40)])),
        Answer::json(200, &restored),
        Answer::lines([modified("b", 51, "2"), deleted("c", 52)]).then_hang(),
    ]);
    assert_eq!(
        wire.receive(4).await,
        ["added a", "added b", "added d", "synced"]
    );
    assert_eq!(wire.informer.history_went_back(), None);
    assert_eq!(
        wire.receive(8).await,
        [
            "missed a",
            "added a",
            "updated b",
            "added c",
            "missed d",
            "synced",
            "updated b",
            "deleted c"
        ]
    );
    let asked = wire.asked(1);
    assert!(
        asked.contains("limit=1") && !asked.contains("limit=10"),
        "{asked}"
    );
    assert!(!asked.contains("resourceVersion"), "{asked}");
    let asked = wire.asked(2);
    assert!(
        asked.contains("limit=500") && !asked.contains("resourceVersion"),
        "{asked}"
    );
    assert!(
        wire.asked(3).contains("resourceVersion=50"),
        "{}",
        wire.asked(3)
    );
    let store = wire.informer.store();
    let went_back = HistoryWentBack {
        seen: "110".to_owned(),
        listed: "50".to_owned(),
    };
    assert_eq!(wire.informer.history_went_back(), Some(went_back));
    let a = store
        .get(&ObjectKey::new("a").within("default"))
        .expect("there");
    assert_eq!(a.metadata.uid.as_deref(), Some("uid-a-restored"));
    assert_eq!(a.metadata.resource_version.as_deref(), Some("40"));
}

/// No object differs, so that there is no other event.
#[tokio::test(start_paused = true)]
async fn a_restored_cluster_without_objects_is_reported() {
    let mut wire = Wire::start([
        Answer::lines([end(110)]).then_hang(),
        Answer::json(200, &list("50", &[])),
        Answer::json(200, &list("50", &[])),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(wire.receive(2).await, ["synced", "synced"]);
    assert!(wire.informer.history_went_back().is_some());
}

/// Version 40 of `a` can be a different state in each history.
#[tokio::test(start_paused = true)]
async fn a_version_of_another_history_is_not_compared() {
    let restored = list("50", &[("a", 40)]).replace(r#"{"value":"1"}"#, r#"{"value":"restored"}"#);
    let mut wire = Wire::start([
        Answer::lines([added("a", 40, "1"), end(110)]).then_hang(),
        Answer::json(200, &list("50", &[("a", 40)])),
        Answer::json(200, &restored),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(wire.receive(3).await, ["added a", "synced", "updated a"]);
    let a = ObjectKey::new("a").within("default");
    let a = wire.informer.store().get(&a).expect("there");
    assert_eq!(a.data.as_ref().expect("some")["value"], "restored");
}

/// A list may break off when half of it is taken.
#[tokio::test(start_paused = true)]
async fn the_objects_of_a_restored_cluster_are_delivered_despite_a_broken_list() {
    let mut pages = Wire::pages([
        Answer::json(200, &list("100", &[("a", 90), ("b", 91)])),
        Answer::json(410, ""),
        Answer::json(200, &list("50", &[("a", 40)])),
        Answer::json(200, &crate::text::page("50", &[("a", 40)], "more")),
        Answer::json(500, ""),
        Answer::json(410, ""),
        Answer::json(200, &list("51", &[("a", 40), ("b", 41)])),
        Answer::lines([bookmark(60)]).then_hang(),
    ]);
    assert_eq!(
        pages.receive(6).await,
        [
            "added a",
            "added b",
            "synced",
            "updated a",
            "updated b",
            "synced"
        ]
    );
    pages.requests(8).await;
    assert!(pages.informer.history_went_back().is_some());
}

/// A server that is where it was is not listed again.
///
/// Rows: BO-02
#[tokio::test(start_paused = true)]
async fn a_silent_server_with_an_unchanged_version_is_watched_without_a_relist() {
    let server = Server::new([Answer::lines([added("a", 1, "1"), end(10)]).then_hang()]).otherwise(
        |asked| {
            if asked.contains("watch=true") {
                Answer::lines([]).then_hang()
            } else {
                Answer::json(200, &list("10", &[("a", 1)]))
            }
        },
    );
    let wire = Wire::run(source(&server), server);
    wire.requests(40).await;
    let requests = wire.server.requests();
    let lists = requests
        .iter()
        .filter(|(_, asked)| !asked.contains("watch=true"));
    assert!(lists.clone().all(|(_, asked)| asked.contains("limit=1")));
    assert!(lists.count() <= 20);
    let hours = (requests[39].0 - requests[0].0).as_secs_f64() / 3600.0;
    assert!(hours > 0.9, "40 requests in {hours} hours");
}

/// Held back is only what was deleted, however much else a streamed list shows.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_may_show_many_new_and_many_older_objects() {
    let name = |number: usize| format!("o-{number}");
    let known = (0..150).map(|number| added(&name(number), 5, "1"));
    let newer = (150..300).map(|number| added(&name(number), 15, "1"));
    // A replica can show an older state of an object than the one before it.
    let older = (0..150).map(|number| added(&name(number), 4, "1"));
    let mut wire = Wire::start([
        Answer::lines(known.chain([end(10)])),
        Answer::lines([error(410, "Expired")]),
        Answer::lines(older.chain(newer).chain([end(20), added("last", 21, "1")])).then_hang(),
    ]);
    let received = wire.receive(302).await;
    assert_eq!(received[301], "added last");
    assert!(
        received[151..]
            .iter()
            .all(|event| event.starts_with("added "))
    );
    assert_eq!(wire.server.requests().len(), 3);
    assert_eq!(wire.informer.store().len(), 301);
}

/// A bookmark ends a streamed list only if it says so, and a watch never.
#[tokio::test(start_paused = true)]
async fn only_a_marked_bookmark_ends_a_streamed_list() {
    let mut wire = Wire::start([
        Answer::lines([added("a", 1, "1"), bookmark(5), added("b", 2, "1"), end(10)]),
        Answer::lines([added("c", 11, "1"), end(12), added("d", 13, "1")]).then_hang(),
    ]);
    assert_eq!(
        wire.receive(5).await,
        ["added a", "added b", "synced", "added c", "added d"]
    );
    assert_eq!(wire.informer.list_version().as_deref(), Some("10"));
    assert_eq!(wire.informer.store().len(), 4);
}
