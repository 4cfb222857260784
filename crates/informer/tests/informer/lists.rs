//! Which events come from a list, and which from a watch.

use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_informer::{
    Change, DecodeError, Event, HealthState, HistoryWentBack, Identity, Informer, ObjectKey,
    Scripted, Subscription,
};

use crate::running::{config, run, start, within_a_day};

/// The next events, each with whether it comes from a list; so it is when it is about an object
/// of any kind.
async fn receive(events: &mut Subscription<ConfigMap>, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        let envelope = events.next_envelope().await.expect("the informer runs");
        let from = if envelope.from_list { "list" } else { "live" };
        let name = envelope.event.object().map(|object| object.name_any());
        let action = envelope.event.action();
        let any = envelope.into_erased_pinned();
        assert_eq!(any.from_list, from == "list");
        let name = name.map_or(String::new(), |name| format!(" {name}"));
        all.push(format!("{from} {action}{name}"));
    }
    all
}

#[tokio::test(start_paused = true)]
async fn an_event_states_whether_it_is_from_a_list() {
    let (script, mut running) = start();
    script.list([config("a", "1")]).await.expect("runs");
    script.apply(config("b", "2")).await.expect("runs");
    script.apply(config("b", "3")).await.expect("runs");
    script.delete(config("b", "4")).await.expect("runs");
    script.list([config("c", "5")]).await.expect("runs");
    script.apply(config("d", "6")).await.expect("runs");
    assert_eq!(
        receive(&mut running.events, 8).await,
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
    let mut replay = receive(&mut late, 3).await;
    replay[..2].sort();
    assert_eq!(replay, ["list CREATE c", "list CREATE d", "live SYNCED"]);
    script.apply(config("e", "7")).await.expect("runs");
    assert_eq!(receive(&mut late, 1).await, ["live CREATE e"]);
}

/// A list that breaks off and begins again is a list all the time.
#[tokio::test(start_paused = true)]
async fn events_of_an_aborted_list_are_from_a_list() {
    let (script, mut running) = start();
    script.change(Change::ListStarted).await.expect("runs");
    script.apply(config("a", "1")).await.expect("runs");
    let broke = windlass_informer::WatchError::new(
        "configmaps",
        windlass_informer::Verb::List,
        windlass_informer::WatchErrorCause::Silent {
            limit: std::time::Duration::from_secs(30),
        },
    );
    let wait = std::time::Duration::from_secs(1);
    script.interrupt(broke, wait).await.expect("runs");
    let list = [config("a", "1"), config("b", "1")];
    script.list(list).await.expect("runs");
    assert_eq!(
        receive(&mut running.events, 3).await,
        ["list CREATE a", "list CREATE b", "live SYNCED"]
    );
}

/// The list can have contained the object, which therefore is not new.
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
        finalizers: vec![],
    };
    script.change(Change::ListStarted).await.expect("runs");
    script.change(undecodable).await.expect("runs");
    let ended = Change::ListEnded {
        resource_version: None,
    };
    script.change(ended).await.expect("runs");
    script.apply(object).await.expect("runs");
    assert_eq!(
        receive(&mut running.events, 2).await,
        ["live SYNCED", "list CREATE bad"]
    );
}

#[tokio::test(start_paused = true)]
async fn events_replayed_after_a_restart_are_from_a_list() {
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
    let mut events = receive(&mut running.events, 4).await;
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

/// A subscription learns that the history went back before the first event of the new history, also
/// if it was added while the list of the new history was incomplete, and not if it was added later.
#[tokio::test(start_paused = true)]
async fn a_subscription_learns_that_the_history_went_back_before_its_next_event() {
    let (script, mut running) = start();
    script.list([config("a", "10")]).await.expect("runs");
    assert_eq!(receive(&mut running.events, 2).await.len(), 2);
    let mut signal = Box::pin(running.events.history_went_back());
    assert_eq!((&mut signal).now_or_never(), None);

    let why = went_back("10", "5");
    let change = Change::HistoryWentBack(why.clone());
    script.change(change).await.expect("runs");
    script.change(Change::ListStarted).await.expect("runs");
    let object = Change::Applied(config("a", "5").into());
    script.change(object).await.expect("runs");
    let event = running.events.next_envelope().await.expect("runs").event;
    assert_eq!(event.action(), "UPDATE");
    assert_eq!((&mut signal).now_or_never(), Some(why.clone()));

    let mut during = running.informer.subscribe();
    during.next_envelope().await.expect("runs");
    let during = during.history_went_back().now_or_never();
    assert_eq!(during, Some(why.clone()));
    let ended = Change::ListEnded {
        resource_version: Some("5".to_owned()),
    };
    script.change(ended).await.expect("runs");
    assert_eq!(receive(&mut running.events, 1).await, ["live SYNCED"]);
    let mut later = running.informer.subscribe();
    assert_eq!(receive(&mut later, 2).await.len(), 2);
    assert_eq!(later.history_went_back().now_or_never(), None);
    assert_eq!(running.informer.history_went_back(), Some(why));
}

/// A requested list is followed by `Synced` once more, and by nothing for unchanged objects.
#[tokio::test(start_paused = true)]
async fn a_relist_that_is_requested_ends_with_synced() {
    let (script, mut running) = start();
    script.list([config("a", "1")]).await.expect("runs");
    assert_eq!(
        receive(&mut running.events, 2).await,
        ["list CREATE a", "live SYNCED"]
    );
    running.informer.relist();
    // On paused time: until the source was started again.
    tokio::time::sleep(Duration::from_secs(1)).await;
    script.apply(config("late", "1")).await.expect("runs");
    let list = [config("a", "1"), config("b", "2")];
    script.list(list).await.expect("runs");
    script.list([config("b", "2")]).await.expect("runs");
    assert_eq!(
        receive(&mut running.events, 3).await,
        ["list CREATE b", "live SYNCED", "list DELETE a"]
    );
}

/// Also by objects that the store has already, or that do not decode; not by the same number of
/// objects again.
#[tokio::test(start_paused = true)]
async fn a_list_makes_progress_with_each_object_more_than_before() {
    let (script, running) = start();
    let informer = &running.informer;
    let wait = || async {
        // On paused time: until the informer has nothing else to do.
        tokio::time::sleep(Duration::from_secs(1)).await;
        Instant::now()
    };
    let undecodable = || Change::Undecodable {
        identity: Identity {
            key: ObjectKey::new("bad"),
            uid: None,
            resource_version: Some("1".to_owned()),
        },
        error: DecodeError::Syntax { line: 1, column: 1 },
        finalizers: vec![],
    };
    let ended = || Change::ListEnded {
        resource_version: Some("7".to_owned()),
    };
    assert_eq!(informer.list_version(), None);
    for change in [Change::ListStarted, Change::Connected] {
        script.change(change).await.expect("runs");
    }
    wait().await;
    assert_eq!(informer.last_list_progress(), None);
    let mut last = None;
    for change in [Change::Applied(config("a", "1").into()), undecodable()] {
        script.change(change).await.expect("runs");
        let now = wait().await;
        let progress = informer.last_list_progress();
        assert!(progress > last && progress <= Some(now), "{progress:?}");
        last = progress;
    }
    script.change(ended()).await.expect("runs");
    wait().await;
    assert_eq!(informer.list_version().as_deref(), Some("7"));
    // An event is no progress of a list.
    script.apply(config("b", "2")).await.expect("runs");
    // Neither are as many objects as before.
    script.change(Change::ListStarted).await.expect("runs");
    for name in ["a", "b"] {
        script.apply(config(name, "3")).await.expect("runs");
    }
    wait().await;
    assert_eq!(informer.last_list_progress(), last);
    script.apply(config("c", "3")).await.expect("runs");
    wait().await;
    assert!(informer.last_list_progress() > last);
}

/// A source that is run again drops the changes before its next list, because they belong to the
/// previous run, but not the errors.
#[tokio::test(start_paused = true)]
async fn a_script_that_is_run_again_skips_objects_before_its_list_and_no_error() {
    let (script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    for is_first in [true, false] {
        let stop = CancellationToken::new();
        let run = tokio::spawn(informer.run(stop.clone()));
        if !is_first {
            script.apply(config("old", "1")).await.expect("runs");
            let broke = windlass_informer::WatchError::new(
                "configmaps",
                windlass_informer::Verb::List,
                windlass_informer::WatchErrorCause::Silent {
                    limit: Duration::from_secs(30),
                },
            );
            let wait = Duration::from_secs(1);
            script.interrupt(broke, wait).await.expect("runs");
            let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
            within_a_day(informer.until(down)).await;
            let change = Change::HistoryWentBack(went_back("10", "1"));
            script.change(change).await.expect("runs");
        }
        script.list([config("a", "1")]).await.expect("runs");
        within_a_day(informer.synced()).await.expect("it runs");
        assert_eq!(informer.store().keys(), [ObjectKey::new("a")]);
        assert_eq!(informer.history_went_back().is_some(), !is_first);
        stop.cancel();
        run.await.expect("no panic").expect("stopped");
    }
}

fn went_back(seen: &str, listed: &str) -> HistoryWentBack {
    HistoryWentBack {
        seen: seen.to_owned(),
        listed: listed.to_owned(),
    }
}
