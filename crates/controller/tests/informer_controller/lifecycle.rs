//! How a controller starts, runs and stops.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::{sync::Notify, task::yield_now};
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    BuildError, Fence, InformerController, Outcome, Request, RunError, Runnable, SimpleWatcher,
};
use windlass_informer::{HealthState, Informer, Scripted, Source, WatchError, WatchErrorCause};

use crate::support::{KIND, Log, Refused, Rig, config, pass, secs, settle, show};

/// Rows: GA-26, GA-39
#[tokio::test(start_paused = true)]
async fn run_starts_all_informers_and_blocks_until_it_is_stopped() {
    let rig = Rig::new(InformerController::builder());
    let (script, source) = windlass_informer::Scripted::<ConfigMap>::new();
    let second = Informer::new(source);
    let more = rig.controller.kind("more").expect("a new kind");
    rig.controller.add_informer(&more, &second).expect("added");
    let first = rig.informer.clone();
    assert!(matches!(first.health().state, HealthState::NotStarted));

    let running = rig.start();
    settle().await;
    for informer in [&first, &second] {
        assert!(matches!(informer.health().state, HealthState::Listing));
    }
    let controller = running.rig.controller.clone();
    assert!(!controller.has_synced());
    running
        .rig
        .script
        .list([config("web", 1)])
        .await
        .expect("it runs");
    script.list([]).await.expect("it runs");
    settle().await;
    assert!(controller.has_synced());
    let health = controller.health();
    assert_eq!([&*health[0].kind, &*health[1].kind], [KIND, "more"]);
    assert!(health.iter().all(|informer| informer.watch.is_healthy()));

    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!running.has_ended(), "it blocks until it is stopped");
    running.stop().await.expect("it stops");
    for informer in [&first, &second] {
        assert!(matches!(informer.health().state, HealthState::Stopped));
    }
}

/// As an operator does it.
#[tokio::test(start_paused = true)]
async fn it_runs_through_the_trait_of_all_controllers() {
    async fn run(
        controller: impl Runnable<Error = RunError>,
        log: Log,
        list: impl Future<Output = ()> + Send,
    ) {
        assert_eq!(controller.name(), "shop");
        assert_eq!(&*controller.health()[0].kind, KIND);
        assert!(!controller.prometheus_collectors().is_empty());
        let fence = Fence::new();
        controller.set_fence(&fence);
        let stop = CancellationToken::new();
        let test = async {
            list.await;
            assert_eq!(log.take().await, "", "the fence is closed");
            fence.open_until(fence.now() + Duration::from_secs(60));
            assert_eq!(log.take().await, "w add web=1");
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(controller.run(stop.clone()), test);
        ended.expect("it stops");
    }
    let rig = Rig::new(InformerController::builder().name("shop"));
    rig.watch(rig.log.watcher("w"));
    let Rig {
        controller,
        script,
        log,
        ..
    } = rig;
    let list = async move { script.list([config("web", 1)]).await.expect("it runs") };
    run(controller, log, list).await;
}

#[tokio::test(start_paused = true)]
async fn it_runs_once() {
    let running = Rig::new(InformerController::builder()).start_empty().await;
    let controller = running.rig.controller.clone();
    let second = controller.run(CancellationToken::new()).await;
    assert!(matches!(second, Err(RunError::AlreadyRan)), "{second:?}");
    running.stop().await.expect("it stops");
    let third = controller.run(CancellationToken::new()).await;
    assert!(matches!(third, Err(RunError::AlreadyRan)), "{third:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_only_the_calls_in_progress_complete() {
    let rig = Rig::new(InformerController::builder());
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let log = log.clone();
        async move {
            log.say(format_args!("{} begins", show(request.object())));
            // In virtual time: how long the call takes.
            tokio::time::sleep(Duration::from_secs(10)).await;
            log.say(format_args!("{} ends", show(request.object())));
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "web=1 begins");
    let log = running.rig.log.clone();
    running.stop().await.expect("it stops");
    assert_eq!(log.take().await, "web=1 ends");
}

#[tokio::test(start_paused = true)]
async fn a_stop_begins_no_call_of_the_rest_of_the_chain() {
    let rig = Rig::new(InformerController::builder());
    let log = rig.log.clone();
    rig.watch(SimpleWatcher::new().on_add(move |_: Arc<ConfigMap>| {
        let log = log.clone();
        async move {
            // In virtual time: how long the call takes.
            tokio::time::sleep(Duration::from_secs(10)).await;
            log.say("w ends");
            Ok::<_, Refused>(())
        }
    }))
    .reconcile(rig.log.reconciler("r"));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    settle().await;
    let log = running.rig.log.clone();
    running.stop().await.expect("it stops");
    assert_eq!(log.take().await, "w ends");
}

/// A call that waits for the lease has not begun.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_fence() {
    let rig = Rig::new(InformerController::builder());
    let fence = Fence::new();
    rig.controller.set_fence(&fence);
    rig.reconcile(rig.log.reconciler("r"));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    settle().await;
    let log = running.rig.log.clone();
    let stopped = tokio::time::timeout(Duration::from_secs(60), running.stop());
    stopped.await.expect("it ends").expect("it stops");
    assert_eq!(log.take().await, "");
}

/// A source that fails permanently.
struct Hopeless;

impl Source<ConfigMap> for Hopeless {
    fn resource(&self) -> String {
        "hopeless".to_owned()
    }

    async fn run(&mut self, _: windlass_informer::Changes<ConfigMap>) -> Result<(), WatchError> {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Err(WatchError::new(
            "hopeless",
            windlass_informer::Verb::Watch,
            WatchErrorCause::Silent {
                limit: Duration::from_secs(5),
            },
        ))
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_informer_failure_ends_the_run_with_its_reason() {
    let rig = Rig::new(InformerController::builder());
    let other = rig.informer.clone();
    let hopeless = rig.controller.kind("hopeless").expect("a new kind");
    rig.controller
        .add_informer(&hopeless, &Informer::<ConfigMap>::new(Hopeless))
        .expect("added");
    let running = rig.start_empty().await;
    match running.ended().await {
        Err(RunError::Informer { kind, .. }) => assert_eq!(kind, "hopeless"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(other.health().state, HealthState::Stopped));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_drops_the_calls_in_progress() {
    let rig = Rig::new(InformerController::builder());
    let (log, alive) = (rig.log.clone(), Arc::new(()));
    let held = Arc::clone(&alive);
    rig.reconcile(move |_: Request<ConfigMap>| {
        let (log, held) = (log.clone(), Arc::clone(&held));
        async move {
            log.say("begins");
            std::future::pending::<()>().await;
            drop(held);
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let (controller, script) = (rig.controller.clone(), &rig.script);
    let run = tokio::spawn(async move { controller.run(CancellationToken::new()).await });
    script.list([config("web", 1)]).await.expect("it runs");
    assert_eq!(rig.log.take().await, "begins");
    assert_eq!(Arc::strong_count(&alive), 3);
    run.abort();
    settle().await;
    assert_eq!(Arc::strong_count(&alive), 2, "the reconciler's and ours");
    assert!(matches!(rig.informer.health().state, HealthState::Stopped));
}

/// Two controllers can share one informer; the one that starts first runs it.
#[tokio::test(start_paused = true)]
async fn handlers_that_never_wait_still_yield_to_other_tasks() {
    /// Many times more than a worker does at a stretch.
    const OBJECTS: usize = 2_000;
    let of = |number| NonZeroUsize::new(number).expect("not zero");
    let rig = Rig::new(
        InformerController::builder()
            .concurrency(of(1))
            .queue(of(OBJECTS)),
    );
    let (calls, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (called, opened) = (Arc::clone(&calls), Arc::clone(&gate));
    rig.reconcile(move |_: Request<ConfigMap>| {
        let (called, opened) = (Arc::clone(&called), Arc::clone(&opened));
        async move {
            // The first call waits until all the others do.
            if called.fetch_add(1, Ordering::Relaxed) == 0 {
                opened.notified().await;
            }
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let running = rig.start();
    let objects = (0..OBJECTS).map(|at| config(&format!("web-{at}"), 1));
    running.rig.script.list(objects).await.expect("it runs");
    settle().await;

    gate.notify_one();
    // A task among others.
    let look = tokio::spawn(async move {
        let mut looks = 0;
        while calls.load(Ordering::Relaxed) < OBJECTS {
            looks += 1;
            // One look for each call is expected; more mean that a call is missing.
            assert!(looks < 1_000_000, "{calls:?} of {OBJECTS} calls");
            yield_now().await;
        }
        looks
    });
    let looks = look.await.expect("it does not panic");
    assert!(looks > 10, "{looks} looks");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn an_informer_can_be_shared_by_controllers() {
    let rig = Rig::new(InformerController::builder());
    let other = InformerController::new();
    let kind = other.kind(KIND).expect("a new kind");
    other.add_informer(&kind, &rig.informer).expect("added");
    let log = Log::default();
    other
        .add_watcher(&kind, log.watcher("other"))
        .expect("added");
    let stop = CancellationToken::new();
    let running = rig.start_empty().await;
    let second = tokio::spawn({
        let (other, stop) = (other.clone(), stop.clone());
        async move { other.run(stop).await }
    });
    settle().await;
    running.apply(config("web", 1)).await;
    assert_eq!(log.take().await, "other add web=1");
    stop.cancel();
    second.await.expect("no panic").expect("it stops");
    running.stop().await.expect("it stops");
}

/// Rows: GA-40
#[test]
fn an_invalid_namespace_is_refused() {
    let refused = InformerController::builder()
        .metrics_namespace("my operator")
        .build();
    match refused {
        Err(BuildError::MetricsNamespace { namespace, .. }) => {
            assert_eq!(namespace, "my operator");
        }
        other => panic!("{other:?}"),
    }
}

/// An informer that has stopped is started again by the controller that it is added to.
#[tokio::test(start_paused = true)]
async fn an_informer_that_has_stopped_is_started_again() {
    let rig = Rig::new(InformerController::builder());
    let stop = CancellationToken::new();
    stop.cancel();
    rig.informer.run(stop).await.expect("it stops");
    rig.controller
        .add_watcher(&rig.kind, rig.log.watcher("watcher"))
        .expect("added");
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.rig.log.take().await, "watcher add web=1");
    running.stop().await.expect("it stops");
}

/// The settings `start_before_sync` and `cache_sync_timeout`.
#[tokio::test(start_paused = true)]
async fn with_a_start_before_the_sync_no_informer_is_waited_for() {
    let builder = InformerController::builder()
        .start_before_sync(true)
        .cache_sync_timeout(Some(secs(60)));
    let rig = Rig::new(builder);
    let (_silent, source) = Scripted::<ConfigMap>::new();
    let silent = Informer::new(source);
    rig.controller
        .add_informer(&rig.kind, &silent)
        .expect("added");
    rig.watch(rig.log.watcher("w"));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "w add web=1");
    pass(3600).await;
    assert!(!running.has_ended());
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_never_lists_ends_the_run_after_the_timeout() {
    let builder = InformerController::builder().cache_sync_timeout(Some(secs(60)));
    let running = Rig::new(builder).start();
    pass(59).await;
    assert!(!running.has_ended());
    pass(2).await;
    assert!(running.has_ended());
    let error = running.ended().await.expect_err("it has not synced");
    assert!(matches!(error, RunError::NotSynced { .. }), "{error}");
}

/// Also while no event arrives.
#[tokio::test(start_paused = true)]
async fn a_removed_watcher_is_dropped_immediately() {
    let rig = Rig::new(InformerController::builder());
    let owned = Arc::new(());
    let captured = Arc::clone(&owned);
    let watcher = SimpleWatcher::new().on_add(move |_: Arc<ConfigMap>| {
        let _captured = Arc::clone(&captured);
        async { Ok::<_, Refused>(()) }
    });
    let added = rig
        .controller
        .add_watcher(&rig.kind, watcher)
        .expect("added");
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    settle().await;
    assert_eq!(Arc::strong_count(&owned), 2);
    assert!(added.remove());
    settle().await;
    assert_eq!(Arc::strong_count(&owned), 1);
    running.stop().await.expect("it stops");
}
