//! Which events come from a list, and which from a watch.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use tokio_util::sync::CancellationToken;
use windlass_informer::{
    Change, DecodeError, Event, Identity, Informer, ObjectKey, Scripted, Subscription,
};

use crate::running::{config, run, start};

/// The next events, each with whether it comes from a list; so it is when it is about an object
/// of any kind.
async fn told(events: &mut Subscription<ConfigMap>, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        let told = events.next_envelope().await.expect("the informer runs");
        let from = if told.from_list { "list" } else { "live" };
        let name = told.event.object().map(|object| object.name_any());
        let action = told.event.action();
        let any = told.into_erased();
        assert_eq!(any.from_list, from == "list");
        let name = name.map_or(String::new(), |name| format!(" {name}"));
        all.push(format!("{from} {action}{name}"));
    }
    all
}

#[tokio::test(start_paused = true)]
async fn an_event_says_whether_it_comes_from_a_list() {
    let (script, mut running) = start();
    script.list([config("a", "1")]).await.expect("runs");
    script.apply(config("b", "2")).await.expect("runs");
    script.apply(config("b", "3")).await.expect("runs");
    script.delete(config("b", "4")).await.expect("runs");
    script.list([config("c", "5")]).await.expect("runs");
    script.apply(config("d", "6")).await.expect("runs");
    assert_eq!(
        told(&mut running.events, 8).await,
        [
            "list CREATE a",
            "live SYNCED",
            "live CREATE b",
            "live UPDATE b",
            "live DELETE b",
            "list CREATE c",
            "list DELETE a",
            "live CREATE d",
        ]
    );

    // A replay is a list, of objects that were seen live too.
    let mut late = running.informer.subscribe();
    let mut replay = told(&mut late, 3).await;
    replay[..2].sort();
    assert_eq!(replay, ["list CREATE c", "list CREATE d", "live SYNCED"]);
    script.apply(config("e", "7")).await.expect("runs");
    assert_eq!(told(&mut late, 1).await, ["live CREATE e"]);
}

/// A list that breaks off and begins again is a list all the time.
#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_is_a_list() {
    let (script, mut running) = start();
    script.change(Change::ListStarted).await.expect("runs");
    script.apply(config("a", "1")).await.expect("runs");
    let broke = windlass_informer::WatchError::Silent {
        resource: std::sync::Arc::from("configmaps"),
        verb: windlass_informer::Verb::List,
        limit: std::time::Duration::from_secs(30),
    };
    let wait = std::time::Duration::from_secs(1);
    script.interrupt(broke, wait).await.expect("runs");
    let list = [config("a", "1"), config("b", "1")];
    script.list(list).await.expect("runs");
    assert_eq!(
        told(&mut running.events, 3).await,
        ["list CREATE a", "list CREATE b", "live SYNCED"]
    );
}

/// It may have been in the list, so it must not count as new.
#[tokio::test(start_paused = true)]
async fn an_object_that_decodes_late_counts_as_from_a_list() {
    let (script, mut running) = start();
    let object = config("bad", "1");
    let undecodable = Change::Undecodable {
        identity: Identity {
            key: ObjectKey::new("bad"),
            uid: None,
            resource_version: Some("1".to_owned()),
        },
        error: DecodeError::Syntax { line: 1, column: 1 },
    };
    script.change(Change::ListStarted).await.expect("runs");
    script.change(undecodable).await.expect("runs");
    let ended = Change::ListEnded {
        resource_version: None,
    };
    script.change(ended).await.expect("runs");
    script.apply(object).await.expect("runs");
    assert_eq!(
        told(&mut running.events, 2).await,
        ["live SYNCED", "list CREATE bad"]
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_replayed_after_a_restart_comes_from_a_list() {
    let (script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    let stop = CancellationToken::new();
    let first = tokio::spawn(informer.run(stop.clone()));
    script.list([config("a", "1")]).await.expect("runs");
    informer.synced().await.expect("it runs");
    stop.cancel();
    first.await.expect("no panic").expect("stopped");

    let mut running = run(informer);
    let list = [config("a", "1"), config("b", "2")];
    script.list(list).await.expect("runs");
    script.apply(config("c", "3")).await.expect("runs");
    let mut events = told(&mut running.events, 4).await;
    events[..2].sort();
    assert_eq!(
        events,
        [
            "list CREATE a",
            "list CREATE b",
            "live SYNCED",
            "live CREATE c"
        ]
    );
    running
        .events
        .resync_handle()
        .request([ObjectKey::new("a")]);
    let again = running.events.next_envelope().await.expect("runs");
    assert!(!again.from_list && again.requested);
    assert!(matches!(again.event, Event::Resynced(_)));
}
