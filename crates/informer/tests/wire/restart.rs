//! A list and watch that is stopped and restarted.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt as _, api::ApiResource, api::DynamicObject};
use tokio_util::sync::CancellationToken;
use windlass_informer::{Informer, ListWatch, ObjectKey, Source, Stored};

use crate::{
    server::{Answer, Server},
    text::{END, added, bookmark, end, list},
};

/// Each run of any source that lists and watches begins with a list; the connection of the last
/// run is closed with it.
#[tokio::test(start_paused = true)]
async fn a_list_watch_that_is_run_again_lists_again() {
    let api = |client| Api::<ConfigMap>::default_namespaced(client);
    check(api, "sendInitialEvents").await;
    check(|client| ListWatch::new(api(client)), "sendInitialEvents").await;
    check(
        |client| ListWatch::new(api(client)).raw(),
        "sendInitialEvents",
    )
    .await;
    let pages = |client| ListWatch::new(api(client)).streamed_lists(false);
    check(pages, "limit=500").await;
    let dynamic = |client| {
        let kind = ApiResource::erase::<ConfigMap>(&());
        (
            Api::<DynamicObject>::default_namespaced_with(client, &kind),
            kind,
        )
    };
    check(dynamic, "sendInitialEvents").await;
}

/// The store of the last run is no reason to call the states of a restored server old.
#[tokio::test(start_paused = true)]
async fn an_informer_that_is_run_again_after_a_restore_shows_the_restored_server() {
    let watch = || Answer::lines([]).then_hang_for_good();
    let restored = || Answer::json(200, &list("50", &[("a", 40), ("c", 41)]));
    let server = Server::new([
        Answer::json(200, &list("100", &[("a", 90), ("b", 91)])),
        watch(),
        // One list from the past may come from a replica.
        restored(),
        restored(),
        watch(),
    ]);
    let api = Api::<ConfigMap>::default_namespaced(Client::new(server.clone(), "default"));
    let informer = Informer::new(ListWatch::new(api).streamed_lists(false));
    for (requests, objects, went_back) in [(2, "a=90 b=91", false), (5, "a=40 c=41", true)] {
        let stop = CancellationToken::new();
        let running = tokio::spawn(informer.run(stop.clone()));
        informer.synced().await.expect("it is run");
        server.received(requests).await;
        let store = informer.store();
        let mut all: Vec<_> = (store.keys().iter())
            .filter_map(|key| store.get(key))
            .map(|it| {
                format!(
                    "{}={}",
                    it.name_any(),
                    it.resource_version().unwrap_or_default()
                )
            })
            .collect();
        all.sort();
        assert_eq!(all.join(" "), objects);
        assert_eq!(informer.history_went_back().is_some(), went_back);
        stop.cancel();
        running.await.expect("no panic").expect("stopped");
    }
}

async fn check<K: Stored, S: Source<K>>(source: impl FnOnce(Client) -> S, lists: &str) {
    let answers = |objects: &[(&str, usize)]| {
        if lists == "limit=500" {
            return [
                Answer::json(200, &list("10", objects)),
                Answer::lines([]).then_hang_for_good(),
            ];
        }
        let lines = objects
            .iter()
            .map(|(name, version)| added(name, *version, "1"));
        [
            Answer::lines(lines.chain([END.to_owned()])),
            Answer::lines([]).then_hang_for_good(),
        ]
    };
    let mut script = Vec::from(answers(&[("a", 1), ("b", 2)]));
    script.extend(answers(&[("a", 1), ("c", 3)]));
    let server = Server::new(script);
    let informer = Informer::new(source(Client::new(server.clone(), "default")));
    for (run, names) in [(0, ["a", "b"]), (1, ["a", "c"])] {
        let stop = CancellationToken::new();
        let running = tokio::spawn(informer.run(stop.clone()));
        informer.synced().await.expect("it is run");
        server.received(run * 2 + 2).await;
        let mut keys: Vec<_> = informer.store().keys();
        keys.sort();
        assert_eq!(keys.iter().map(ObjectKey::name).collect::<Vec<_>>(), names);
        stop.cancel();
        running.await.expect("no panic").expect("stopped");
    }
    let asked = server.requests();
    assert_eq!(asked.len(), 4);
    assert!(asked[0].1.contains(lists), "{}", asked[0].1);
    assert!(asked[2].1.contains(lists), "{}", asked[2].1);
}

/// A bookmark says up to where no change was missed, also to the next run.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_older_than_the_last_bookmark_is_stale_for_the_next_run() {
    let server = Server::new([
        Answer::lines([added("a", 1, "1"), END.to_owned(), bookmark(50)]).then_hang_for_good(),
        Answer::lines([end(20)]).then_hang_for_good(),
        Answer::json(200, &list("60", &[("a", 1)])),
        Answer::lines([]).then_hang_for_good(),
    ]);
    let informer = Informer::new(crate::wire::source(&server));
    for (requests, version) in [(1, "50"), (4, "60")] {
        let stop = CancellationToken::new();
        let running = tokio::spawn(informer.run(stop.clone()));
        server.received(requests).await;
        // On paused time: until all answers were taken.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let synced = informer.last_sync_resource_version();
        assert_eq!(synced.as_deref(), Some(version));
        assert_eq!(informer.store().len(), 1);
        stop.cancel();
        running.await.expect("no panic").expect("stopped");
    }
    assert!(server.requests()[2].1.contains("limit=500"));
}
