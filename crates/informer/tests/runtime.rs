//! A stream of kube's own watcher as the source of an informer.
#![cfg(feature = "kube-runtime")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    ResourceExt as _,
    runtime::watcher::{self, Event as RuntimeEvent},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_informer::{ErrorChain, Event, HealthState, Informer, WatcherStream};

/// A watch that exists already is used as it is, whatever it comes from.
///
/// Rows: GA-48
#[tokio::test(start_paused = true)]
async fn a_stream_of_kubes_watcher_is_a_source_and_deletes_during_gaps_are_found() {
    let events = [
        RuntimeEvent::Init,
        RuntimeEvent::InitApply(config("a", "1")),
        RuntimeEvent::InitApply(config("b", "1")),
        RuntimeEvent::InitDone,
        RuntimeEvent::Apply(config("a", "2")),
        RuntimeEvent::Init,
        RuntimeEvent::InitApply(config("a", "2")),
        RuntimeEvent::InitDone,
        RuntimeEvent::Delete(config("a", "3")),
    ];
    let source = WatcherStream::new("configmaps", move || stream::iter(events.clone()).map(Ok));
    let informer = Informer::new(source);
    let mut events = informer.subscribe();
    let stop = CancellationToken::new();
    let run = informer.run(stop.clone());
    let look = async {
        let mut received = Vec::new();
        while received.len() < 6 {
            received.push(match events.next().await.expect("the informer runs") {
                Event::Added(object) => format!("added {}", object.name_any()),
                Event::Updated { new, .. } => format!("updated {}", new.name_any()),
                Event::Deleted { last, missed: true } => format!("missed {}", last.name_any()),
                Event::Deleted { last, .. } => format!("deleted {}", last.name_any()),
                _ => "synced".to_owned(),
            });
        }
        stop.cancel();
        received
    };
    let (ended, received) = tokio::join!(run, look);
    ended.expect("stopped");
    // kube's watcher never reports that `b` was deleted.
    assert_eq!(
        received,
        [
            "added a",
            "added b",
            "synced",
            "updated a",
            "missed b",
            "deleted a"
        ]
    );
}

/// kube's watcher does not say when it is connected again; an event says it, and so does
/// that no other error follows for long.
///
/// Rows: GA-48, BO-27
#[tokio::test(start_paused = true)]
async fn a_stream_recovers_from_an_error_without_a_relist() {
    let (mut sender, events) = futures::channel::mpsc::channel(16);
    let mut events = Some(events);
    let source = WatcherStream::new("configmaps", move || events.take().expect("started once"));
    let informer = Informer::new(source);
    let running = tokio::spawn({
        let informer = informer.clone();
        async move { informer.run(CancellationToken::new()).await }
    });
    let running = AbortOnDropHandle::new(running);
    let mut send = |event| sender.try_send(event).expect("it is read");
    let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
    let watching = |state: &HealthState| matches!(state, HealthState::Watching);

    // A list that fails is not up before one is whole.
    send(Ok(RuntimeEvent::Init));
    send(Err(broken()));
    within_an_hour(informer.until(down)).await;
    // On paused time, as below: longer than an error keeps a stream down.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(down(&informer.health().state), "{}", informer.health());
    send(Ok(RuntimeEvent::Init));
    send(Ok(RuntimeEvent::InitApply(config("a", "1"))));
    // On paused time: until they were taken.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!watching(&informer.health().state), "{}", informer.health());
    send(Err(broken()));
    send(Ok(RuntimeEvent::InitApply(config("b", "1"))));
    // On paused time: until it was taken.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!watching(&informer.health().state), "{}", informer.health());
    send(Ok(RuntimeEvent::InitDone));
    within_an_hour(informer.until(watching)).await;

    // An event.
    send(Err(broken()));
    within_an_hour(informer.until(down)).await;
    send(Ok(RuntimeEvent::Apply(config("a", "2"))));
    within_an_hour(informer.until(watching)).await;

    // No other error.
    send(Err(broken()));
    within_an_hour(informer.until(down)).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    send(Err(broken()));
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(down(&informer.health().state), "{}", informer.health());
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(watching(&informer.health().state), "{}", informer.health());
    drop(running);
}

/// A kind where nothing happens is not a connection that is half open: kube's watcher says nothing
/// of bookmarks.
#[tokio::test(start_paused = true)]
async fn a_stream_without_events_stays_healthy() {
    let events = [RuntimeEvent::Init, RuntimeEvent::InitDone];
    let quiet = move || {
        stream::iter(events.clone())
            .map(Ok)
            .chain(stream::pending())
    };
    let informer: Informer<ConfigMap> = Informer::new(WatcherStream::new("configmaps", quiet));
    let running = tokio::spawn({
        let informer = informer.clone();
        async move { informer.run(CancellationToken::new()).await }
    });
    let _running = AbortOnDropHandle::new(running);
    let watching = |state: &HealthState| matches!(state, HealthState::Watching);
    within_an_hour(informer.until(watching)).await;
    assert_eq!(&*informer.health().resource, "configmaps");
    for _ in 0..48 {
        // Virtual time: longer than any limit on silence.
        tokio::time::sleep(Duration::from_secs(1800)).await;
        assert!(watching(&informer.health().state), "{}", informer.health());
    }
}

/// An object that does not decode is not quoted in the error of a stream.
#[tokio::test(start_paused = true)]
async fn an_error_of_a_stream_quotes_no_object() {
    let malformed = || {
        let error = serde_json::from_str::<u8>("\"canary\"").expect_err("no number");
        Err(watcher::Error::WatchFailed(kube::Error::SerdeError(error)))
    };
    let source = WatcherStream::new("configmaps", move || {
        stream::iter([malformed()]).chain(stream::pending())
    });
    let informer: Informer<ConfigMap> = Informer::new(source);
    let running = tokio::spawn({
        let informer = informer.clone();
        async move { informer.run(CancellationToken::new()).await }
    });
    let _running = AbortOnDropHandle::new(running);
    let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
    let health = within_an_hour(informer.until(down)).await;
    let HealthState::Down { error } = health.state else {
        panic!("{health}");
    };
    let error = ErrorChain::new(&*error).to_string();
    assert!(
        error.contains("malformed: response: invalid type"),
        "{error}"
    );
    assert!(!error.contains("canary"), "{error}");
}

/// Without a response there is no status that the server answered.
#[tokio::test(start_paused = true)]
async fn a_stream_without_a_connection_is_reported_as_one() {
    let refused = || {
        let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = kube::Error::Service(Box::new(error));
        Err(watcher::Error::InitialListFailed(error))
    };
    let source = WatcherStream::new("configmaps", move || {
        stream::iter([refused()]).chain(stream::pending())
    });
    let informer: Informer<ConfigMap> = Informer::new(source);
    let _running = AbortOnDropHandle::new(tokio::spawn(informer.run(CancellationToken::new())));
    let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
    let health = within_an_hour(informer.until(down)).await;
    let HealthState::Down { error } = health.state else {
        panic!("{health}");
    };
    assert_eq!(error.reason(), "connection", "{error}");
    assert!(!error.to_string().contains("answered"), "{error}");
}

/// kube's watcher sends its next request as soon as it is polled after an error.
#[tokio::test(start_paused = true)]
async fn a_stream_that_only_has_errors_is_polled_with_a_backoff() {
    let polls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&polls);
    let source = WatcherStream::new("configmaps", move || {
        let count = Arc::clone(&count);
        // Kube's watcher does this: each attempt begins with a failing list.
        stream::repeat_with(move || match count.fetch_add(1, Ordering::SeqCst) % 2 {
            0 => Ok(RuntimeEvent::Init),
            _ => Err(broken()),
        })
    });
    let informer = Informer::<ConfigMap>::new(source);
    let stop = CancellationToken::new();
    let ten_minutes = async {
        tokio::time::sleep(Duration::from_secs(600)).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(informer.run(stop.clone()), ten_minutes);
    ended.expect("stopped");
    let polls = polls.load(Ordering::SeqCst);
    assert!((20..=100).contains(&polls), "{polls} events in ten minutes");
}

/// Time is paused; a test that waits for what never comes must end.
async fn within_an_hour<T>(waiting: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(3600), waiting).await;
    waited.expect("what the test waits for does not come")
}

fn broken() -> watcher::Error {
    watcher::Error::WatchFailed(kube::Error::LinesCodecMaxLineLengthExceeded)
}

fn config(name: &str, version: &str) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(name.to_owned());
    config.metadata.uid = Some(format!("uid-{name}"));
    config.metadata.resource_version = Some(version.to_owned());
    config
}
