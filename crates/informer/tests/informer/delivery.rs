//! What subscribers receive: replays, requested resyncs, and subscribers that leave.

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering},
};

use kube::ResourceExt as _;
use tokio_util::sync::CancellationToken;
use windlass_informer::{Event, Informer, ObjectKey, Scripted};

use crate::running::{config, receive, run, start};

/// A subscriber that is dropped receives nothing, and blocks no other.
#[tokio::test(start_paused = true)]
async fn a_requested_object_is_delivered_once_to_its_requester() {
    let (script, mut running) = start();
    let mut other = running.informer.subscribe();
    let resync = running.events.resync_handle();
    let list = [config("a", "1"), config("b", "1")];
    script.list(list).await.expect("runs");
    let there = ["added a 1", "added b 1", "synced"];
    assert_eq!(receive(&mut running.events, 3).await, there);
    assert_eq!(receive(&mut other, 3).await, there);

    resync.request(["b", "gone", "a", "b"].map(ObjectKey::new));
    let again = running.events.next_envelope().await.expect("runs");
    assert!(again.requested);
    assert_eq!(receive(&mut running.events, 1).await, ["resynced a"]);
    script.apply(config("a", "2")).await.expect("runs");
    let next = running.events.next_envelope().await.expect("runs");
    assert!(!next.requested);
    assert_eq!(receive(&mut other, 1).await, ["updated a 1>2"]);
}

/// A late subscriber can receive the replay in batches. A batch is not longer than requested, and
/// all events are in order.
#[tokio::test(start_paused = true)]
async fn queued_events_can_be_received_in_batches() {
    for (buffer, runs) in [(1, 101), (4, 26), (256, 15)] {
        let (script, source) = Scripted::new();
        let buffer = NonZeroUsize::new(buffer).expect("not zero");
        let informer = Informer::builder(source).buffer(buffer).build();
        let mut running = run(informer);
        let names = (0..100).map(|at| format!("map-{at}"));
        let list: Vec<_> = names.map(|name| config(&name, "1")).collect();
        let tell = script.list(list);
        let take = receive(&mut running.events, 101);
        let (listed, mut there) = tokio::join!(tell, take);
        listed.expect("runs");

        let mut late = running.informer.subscribe();
        let (mut run, mut taken) = (Vec::new(), Vec::new());
        while !late.has_synced() {
            assert!((1..=7).contains(&late.next_envelopes(&mut run, 7).await));
            taken.push(run.len());
        }
        assert_eq!(*taken.last().expect("some"), 101);
        assert!(
            taken.len() >= runs,
            "{} runs of a buffer of {buffer}",
            taken.len()
        );
        let end = run.pop().expect("some").event;
        assert!(matches!(end, Event::Synced));
        let mut names: Vec<_> = (run.iter().filter_map(|envelope| envelope.event.object()))
            .map(|object| format!("added {} 1", object.name_any()))
            .collect();
        there.pop();
        there.sort();
        names.sort();
        assert_eq!(names, there);
    }
}

/// A requested object follows all its earlier events, however many events are queued.
#[tokio::test(start_paused = true)]
async fn a_requested_object_is_delivered_after_earlier_events() {
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).buffer(NonZeroUsize::MIN).build();
    let mut running = run(informer);
    let resync = running.events.resync_handle();
    let tell = async {
        script.list([config("a", "0")]).await.expect("runs");
        for version in 1..100 {
            script
                .apply(config("a", &version.to_string()))
                .await
                .expect("runs");
        }
    };
    let take = async {
        let (mut known, mut again) = (None, 0);
        while known.as_deref() != Some("99") {
            let event = running.events.next().await.expect("runs");
            let Some(object) = event.object() else {
                continue;
            };
            let version = object.resource_version();
            if let Event::Resynced(_) = event {
                assert_eq!(version, known, "it was delivered before it was stored");
                again += 1;
            }
            known = version;
            resync.request([ObjectKey::new("a")]);
        }
        again
    };
    let ((), again) = tokio::join!(tell, take);
    assert!(again > 10, "changes starve what is asked for: {again}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_subscriber_blocks_no_other() {
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).buffer(NonZeroUsize::MIN).build();
    let leaver = informer.subscribe();
    let mut running = run(informer);
    let taken = AtomicUsize::new(0);
    let tell = async {
        script
            .list((0..10).map(|i| config(&format!("c{i}"), "1")))
            .await
            .expect("runs");
    };
    let take = async {
        drop(leaver);
        while taken.load(Ordering::Relaxed) < 11 {
            running.events.next().await.expect("runs");
            taken.fetch_add(1, Ordering::Relaxed);
        }
    };
    tokio::join!(tell, take);
}

/// The request is answered after the replay, although the informer was busy with its first list.
#[tokio::test(start_paused = true)]
async fn an_object_requested_before_the_list_is_delivered_after_it() {
    let (script, source) = Scripted::new();
    let informer = Informer::new(source);
    let stop = CancellationToken::new();
    let first = tokio::spawn(informer.run(stop.clone()));
    script.list([config("a", "1")]).await.expect("runs");
    informer.synced().await.expect("it runs");
    stop.cancel();
    first.await.expect("no panic").expect("stopped");

    let mut running = run(informer);
    running
        .events
        .resync_handle()
        .request([ObjectKey::new("a")]);
    // On paused time: until the informer has nothing else to do.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    script.list([config("a", "1")]).await.expect("runs");
    assert_eq!(
        receive(&mut running.events, 3).await,
        ["added a 1", "synced", "resynced a"]
    );
}
