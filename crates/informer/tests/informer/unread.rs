//! Subscriptions that are not read: they are named, or they lag and start anew.

use std::{num::NonZeroUsize, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use windlass_informer::{Informer, Script, Scripted};

use crate::running::{Running, config, receive, run};

/// An informer whose subscriptions have space for two events.
fn start() -> (Script<ConfigMap>, Running) {
    let (script, source) = Scripted::new();
    let buffer = NonZeroUsize::new(2).expect("not zero");
    (
        script,
        run(Informer::builder(source).buffer(buffer).build()),
    )
}

/// The other readers would otherwise stop, and nothing would say why.
#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_not_read_for_30_seconds_is_named() {
    let (script, mut running) = start();
    let (forgotten, line) = (running.informer.subscribe(), line!());
    script.list([config("a", "1")]).await.expect("runs");
    assert_eq!(
        receive(&mut running.events, 2).await,
        ["added a 1", "synced"]
    );
    script.apply(config("a", "2")).await.expect("runs");
    sleep(Duration::from_secs(29)).await;
    assert!(running.informer.health().is_healthy());
    sleep(Duration::from_secs(2)).await;
    let health = running.informer.health();
    let named = health.unread.as_deref().expect("it is named");
    assert!(named.ends_with(&format!("unread.rs:{line}")), "{named}");
    assert!(!health.is_healthy());
    assert!(health.to_string().contains(named), "{health}");

    // The watch continues as soon as it is read or dropped.
    drop(forgotten);
    assert_eq!(receive(&mut running.events, 1).await, ["updated a 1>2"]);
    sleep(Duration::from_secs(1)).await;
    let health = running.informer.health();
    assert!(health.unread.is_none() && health.is_healthy(), "{health}");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_may_lag_delays_nothing_and_starts_from_the_store_anew() {
    let (script, mut running) = start();
    let mut lagging = running.informer.subscribe().may_lag();
    script.list([config("a", "1")]).await.expect("runs");
    assert_eq!(
        receive(&mut running.events, 2).await,
        ["added a 1", "synced"]
    );
    for version in ["2", "3", "4"] {
        script.apply(config("b", version)).await.expect("runs");
        receive(&mut running.events, 1).await;
    }
    script.delete(config("a", "5")).await.expect("runs");
    assert_eq!(receive(&mut running.events, 1).await, ["deleted a 5"]);
    assert!(running.informer.health().unread.is_none());

    // What it holds, and then the store: the delete in between is not reported.
    assert_eq!(receive(&mut lagging, 2).await, ["added a 1", "synced"]);
    assert_eq!(lagging.lags(), 0);
    assert_eq!(receive(&mut lagging, 2).await, ["added b 4", "synced"]);
    assert_eq!(lagging.lags(), 1);
    script.apply(config("b", "6")).await.expect("runs");
    assert_eq!(receive(&mut lagging, 1).await, ["updated b 4>6"]);
    assert_eq!(lagging.lags(), 1);
}

/// The replay to a subscription that is not read either ends after a second.
#[tokio::test(start_paused = true)]
async fn a_large_store_is_replayed_to_a_lagging_subscription_while_it_reads() {
    let (script, mut running) = start();
    let names: Vec<_> = (0..20).map(|at| format!("map-{at}")).collect();
    let list: Vec<_> = names.iter().map(|name| config(name, "1")).collect();
    let (listed, received) = tokio::join!(script.list(list), receive(&mut running.events, 21));
    listed.expect("runs");
    assert_eq!(received.len(), 21);
    let mut late = running.informer.subscribe().may_lag();
    sleep(Duration::from_secs(10)).await;
    script.apply(config("map-0", "2")).await.expect("runs");
    let limit = Duration::from_secs(5);
    let changed = timeout(limit, receive(&mut running.events, 1)).await;
    assert_eq!(changed.expect("the watch continues"), ["updated map-0 1>2"]);

    let mut events = Vec::new();
    while events.last().is_none_or(|last| last != "synced") {
        events.extend(receive(&mut late, 1).await);
    }
    assert_eq!(late.lags(), 1);
    assert!(events.contains(&"added map-0 2".to_owned()), "{events:?}");
}

/// A subscription belongs to one run, also one that lags.
#[tokio::test(start_paused = true)]
async fn a_lagging_subscription_ends_with_the_run() {
    let (script, source) = Scripted::new();
    let buffer = NonZeroUsize::new(2).expect("not zero");
    let informer = Informer::builder(source).buffer(buffer).build();
    let stop = CancellationToken::new();
    let run = tokio::spawn(informer.run(stop.clone()));
    let mut lagging = informer.subscribe().may_lag();
    let list = [config("a", "1"), config("b", "1")];
    script.list(list).await.expect("runs");
    informer.synced().await.expect("it runs");
    script.apply(config("a", "2")).await.expect("runs");
    sleep(Duration::from_secs(1)).await;
    stop.cancel();
    run.await.expect("no panic").expect("stopped");
    receive(&mut lagging, 2).await;
    let end = timeout(Duration::from_secs(5), lagging.next()).await;
    assert!(end.expect("it does not wait for the next run").is_none());
}
