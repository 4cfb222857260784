//! A list and watch that is stopped and run again.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::ApiResource, api::DynamicObject};
use tokio_util::sync::CancellationToken;
use windlass_informer::{Informer, ListWatch, ObjectKey, Source, Stored};

use crate::{
    server::{Answer, Server},
    text::{END, added, list},
};

/// Each run of any source that lists and watches begins with a list; the connection of the last
/// run is closed with it.
#[tokio::test(start_paused = true)]
async fn a_list_watch_that_is_run_again_lists_again() {
    let api = |client| Api::<ConfigMap>::default_namespaced(client);
    check(api, "sendInitialEvents").await;
    check(|client| ListWatch::new(api(client)), "sendInitialEvents").await;
    check(
        |client| ListWatch::new(api(client)).packed(),
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
