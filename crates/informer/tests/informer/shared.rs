//! An informer that several callers run, and that is run again.

use std::{
    panic::panic_any,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::{sync::Barrier, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use windlass_informer::{
    Change, Changes, HealthState, Informer, InformerError, ObjectKey, Script, Scripted, Source,
    Subscription, Verb, WatchError, WatchErrorCause,
};

use crate::running::{config, receive};

/// A script that counts how often it is run.
struct Counted {
    source: Scripted<ConfigMap>,
    runs: Arc<AtomicUsize>,
}

impl Source<ConfigMap> for Counted {
    fn resource(&self) -> String {
        "counted".to_owned()
    }

    async fn run(&mut self, changes: Changes<ConfigMap>) -> Result<(), WatchError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.source.run(changes).await
    }
}

/// A caller of `run` in a task of its own.
struct Caller {
    stop: CancellationToken,
    task: JoinHandle<Result<(), InformerError>>,
}

impl Caller {
    fn of(informer: &Informer<ConfigMap>) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(informer.run(stop.clone()));
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("no panic").expect("stopped");
    }
}

fn counted() -> (Script<ConfigMap>, Informer<ConfigMap>, Arc<AtomicUsize>) {
    let (script, source) = Scripted::new();
    let runs = Arc::default();
    let source = Counted {
        source,
        runs: Arc::clone(&runs),
    };
    let informer = Informer::builder(source).buffer(std::num::NonZeroUsize::MIN);
    (script, informer.build(), runs)
}

/// Lets all tasks run until they wait, on paused time.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Returns whether no event arrives within an hour.
async fn is_silent(events: &mut Subscription<ConfigMap>) -> bool {
    timeout(Duration::from_secs(3600), events.next())
        .await
        .is_err()
}

/// The subscription has a buffer of one event, so each driver leaves in the middle of a delivery;
/// by its token, or because its future is dropped.
///
/// Rows: CK-11
#[tokio::test(start_paused = true)]
async fn a_cancelled_caller_hands_over_the_run_without_losing_events() {
    let (script, informer, runs) = counted();
    let mut callers: Vec<_> = (0..6).map(|_| Caller::of(&informer)).collect();
    let mut events = informer.subscribe();
    let write = async {
        script.list([config("a", "0")]).await.expect("runs");
        for version in 1..60 {
            let version = version.to_string();
            script.apply(config("a", &version)).await.expect("runs");
        }
    };
    let read = async {
        assert_eq!(receive(&mut events, 2).await, ["added a 0", "synced"]);
        for version in 1..60 {
            let update = format!("updated a {}>{version}", version - 1);
            assert_eq!(receive(&mut events, 1).await, [update]);
            if version % 10 == 0 {
                let caller = callers.remove(0);
                if version % 20 == 0 {
                    caller.stop().await;
                } else {
                    caller.task.abort();
                    caller.task.await.expect_err("aborted");
                }
            }
        }
    };
    tokio::join!(write, read);
    assert_eq!(callers.len(), 1);
    assert_eq!(runs.load(Ordering::Relaxed), 1, "the list was taken again");
    assert!(matches!(informer.health().state, HealthState::Watching));
}

/// The new driver is woken by what the old one waited for: time, too.
#[tokio::test(start_paused = true)]
async fn a_caller_that_takes_over_waits_for_the_same_tasks() {
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).resync(Duration::from_secs(64));
    let informer = informer.build();
    let (first, second) = (Caller::of(&informer), Caller::of(&informer));
    let mut events = informer.subscribe();
    script.list([config("a", "1")]).await.expect("runs");
    assert_eq!(receive(&mut events, 2).await, ["added a 1", "synced"]);
    first.stop().await;
    assert_eq!(receive(&mut events, 1).await, ["resynced a"]);
    script.apply(config("a", "2")).await.expect("runs");
    assert_eq!(receive(&mut events, 1).await, ["updated a 1>2"]);
    events.resync_handle().request([ObjectKey::new("a")]);
    assert_eq!(receive(&mut events, 1).await, ["resynced a"]);
    let mut late = informer.subscribe();
    assert_eq!(receive(&mut late, 2).await, ["added a 2", "synced"]);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_of_run_counts_before_it_is_polled() {
    let (script, informer, runs) = counted();
    let first = Caller::of(&informer);
    settle().await;
    let stop = CancellationToken::new();
    let second = informer.run(stop.clone());
    let mut events = informer.subscribe();
    first.stop().await;
    let task = tokio::spawn(second);
    script.list([config("a", "1")]).await.expect("runs");
    assert_eq!(receive(&mut events, 2).await, ["added a 1", "synced"]);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    stop.cancel();
    task.await.expect("no panic").expect("stopped");
    assert!(events.next().await.is_none());
}

/// The list of a new run is compared with the store: the same state is not stored again, and what
/// is missing is removed, in whichever list it was seen before.
#[tokio::test(start_paused = true)]
async fn an_informer_that_has_stopped_can_be_run_again() {
    let (script, informer, runs) = counted();
    let store = informer.store();
    let caller = Caller::of(&informer);
    let mut events = informer.subscribe();
    script.list([config("a", "1")]).await.expect("runs");
    assert_eq!(receive(&mut events, 2).await, ["added a 1", "synced"]);
    let take = receive(&mut events, 1);
    let again = [config("a", "1"), config("b", "1")];
    let (listed, added) = tokio::join!(script.list(again), take);
    listed.expect("runs");
    assert_eq!(added, ["added b 1"]);
    let kept = store.get(&ObjectKey::new("b")).expect("there");
    caller.stop().await;
    assert!(events.next().await.is_none(), "the run has ended");
    assert!(matches!(informer.health().state, HealthState::Stopped));
    assert!(!informer.has_synced());
    assert_eq!(store.len(), 2, "the store is kept");

    let mut early = informer.subscribe();
    let caller = Caller::of(&informer);
    let mut events = informer.subscribe();
    settle().await;
    assert!(matches!(informer.health().state, HealthState::Listing));
    // A list that breaks off, with `a` gone meanwhile.
    script.change(Change::ListStarted).await.expect("runs");
    script.apply(config("b", "1")).await.expect("runs");
    assert!(is_silent(&mut early).await, "served from an old store");
    assert!(is_silent(&mut events).await, "served from an old store");
    assert!(!informer.has_synced());
    let list = [config("b", "1"), config("c", "1")];
    script.list(list).await.expect("runs");
    for events in [&mut early, &mut events] {
        let mut there = receive(events, 3).await;
        there[..2].sort();
        assert_eq!(there, ["added b 1", "added c 1", "synced"]);
    }
    assert!(!store.contains(&ObjectKey::new("a")));
    let same = store.get(&ObjectKey::new("b")).expect("there");
    assert!(Arc::ptr_eq(&kept, &same), "it was stored again");
    let (deleted, event) = tokio::join!(script.delete(config("b", "2")), receive(&mut events, 1));
    deleted.expect("runs");
    assert_eq!(event, ["deleted b 2"]);
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    caller.stop().await;
}

/// A subscription that was not served yet ends with the run it belongs to.
#[tokio::test(start_paused = true)]
async fn a_subscription_ends_with_its_run() {
    let (_script, informer, _) = counted();
    let caller = Caller::of(&informer);
    let mut events = informer.subscribe();
    caller.stop().await;
    assert!(events.next().await.is_none());
    let mut events = informer.subscribe();
    assert!(is_silent(&mut events).await, "it belongs to the next run");
}

/// An informer is freed when its users have left: no reference cycle keeps it.
#[tokio::test(start_paused = true)]
async fn an_informer_that_is_not_run_is_freed() {
    let (_script, informer, runs) = counted();
    let first = Caller::of(&informer);
    let second = informer.run(CancellationToken::new());
    settle().await;
    first.stop().await;
    drop(informer);
    assert_eq!(Arc::strong_count(&runs), 2, "the source is there");
    drop(second);
    assert_eq!(Arc::strong_count(&runs), 1, "the source is leaked");
}

/// A source that ends at once, as `ends` has it, and that follows its script from the second
/// run on.
struct Ends<F> {
    source: Scripted<ConfigMap>,
    ends: Option<F>,
}

impl<F> Source<ConfigMap> for Ends<F>
where
    F: FnOnce() -> WatchError + Send + 'static,
{
    fn resource(&self) -> String {
        "configmaps".to_owned()
    }

    async fn run(&mut self, changes: Changes<ConfigMap>) -> Result<(), WatchError> {
        match self.ends.take() {
            Some(ends) => {
                // The other callers have come.
                settle().await;
                Err(ends())
            }
            None => self.source.run(changes).await,
        }
    }
}

/// Two callers of a source that ends as `ends` has it, which then can be run again. Returns what
/// both were delivered.
async fn failure(ends: impl FnOnce() -> WatchError + Send + 'static) -> InformerError {
    let (script, source) = Scripted::new();
    let ends = Some(ends);
    let informer = Informer::new(Ends { source, ends });
    let (first, second) = (Caller::of(&informer), Caller::of(&informer));
    let mut events = informer.subscribe();
    let first = first.task.await.expect("no panic").expect_err("it failed");
    // This one begins another run, though the second caller has not left the last one.
    let third = Caller::of(&informer);
    let second = second.task.await.expect("no panic").expect_err("it failed");
    assert_eq!(first.to_string(), second.to_string());
    assert!(events.next().await.is_none());

    let mut events = informer.subscribe();
    script.list([config("a", "1")]).await.expect("runs");
    assert_eq!(receive(&mut events, 2).await, ["added a 1", "synced"]);
    third.stop().await;
    first
}

/// Rows: GA-22
#[tokio::test(start_paused = true)]
async fn a_permanent_error_is_returned_to_every_caller() {
    let failed = failure(|| {
        WatchError::new(
            "configmaps",
            Verb::List,
            WatchErrorCause::Invalid {
                message: "no such selector".to_owned(),
            },
        )
    });
    match failed.await {
        InformerError::Source { source, .. } => {
            assert!(
                matches!(source.cause, WatchErrorCause::Invalid { .. }),
                "{source:?}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_panics_is_an_error_of_every_caller() {
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a payload that panics, too");
        }
    }

    let failed = failure(|| panic!("{}", "no ".repeat(1000))).await;
    let text = failed.to_string();
    assert!(text.contains("panicked: no no no"), "{text}");
    assert!(text.len() < 512, "{text}");
    let failed = failure(|| panic_any(Bomb)).await;
    assert!(matches!(failed, InformerError::Panicked { .. }));
}

/// Callers join and leave on several threads, and each sees a history without a gap.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_that_start_and_stop_on_threads_lose_no_events() {
    const VERSIONS: usize = 20_000;
    let (script, source) = Scripted::new();
    let informer = Informer::new(source);
    let stay = Caller::of(&informer);
    // Each user has ended its first run before the first change.
    let first_runs = Arc::new(Barrier::new(5));
    let users: Vec<_> = (0..4)
        .map(|_| {
            let (informer, first_runs) = (informer.clone(), Arc::clone(&first_runs));
            tokio::spawn(async move {
                let mut last = 0;
                let mut runs = 0;
                while last < VERSIONS {
                    let stop = CancellationToken::new();
                    let run = informer.run(stop.clone());
                    let mut events = informer.subscribe();
                    let read = async {
                        let (mut known, mut left) = (None, if runs == 0 { 1 } else { 50 });
                        while left > 0 && known != Some(VERSIONS) {
                            let event = events.next().await.expect("it is run");
                            let Some(object) = event.object() else {
                                continue;
                            };
                            let version = object.metadata.resource_version.as_deref();
                            let version: usize = version.expect("set").parse().expect("a number");
                            let expected = known.map_or(version, |known| known + 1);
                            assert_eq!(version, expected, "an event is missing");
                            known = Some(version);
                            left -= 1;
                        }
                        stop.cancel();
                        known
                    };
                    let (ended, known) = tokio::join!(run, read);
                    ended.expect("stopped");
                    last = known.expect("some");
                    runs += 1;
                    if runs == 1 {
                        first_runs.wait().await;
                    }
                }
                runs
            })
        })
        .collect();
    script.list([config("a", "0")]).await.expect("runs");
    first_runs.wait().await;
    for version in 1..=VERSIONS {
        let version = version.to_string();
        script.apply(config("a", &version)).await.expect("runs");
    }
    for user in users {
        assert!(user.await.expect("no gap") > 1);
    }
    stay.stop().await;
    assert_eq!(
        informer.last_sync_resource_version(),
        Some(VERSIONS.to_string())
    );
}
