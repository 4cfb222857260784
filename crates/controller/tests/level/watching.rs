//! The watches of a controller: their backoff, and events that need no finalizer.

use std::{sync::Arc, time::Duration};

use http::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    Context, Controller, Failure, InformerController, MissingKind, Outcome, SimpleWatcher, Watch,
};
use windlass_informer::{Backoff, Informer, Scripted};

use crate::support::{Log, Rig, config, done, pass, secs};

/// The times between the lists of a watch that always fails, in seconds.
async fn delays(watch: Watch<ConfigMap>) -> Vec<f64> {
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let requests = Arc::clone(&times);
    let refuse = tower::service_fn(move |_: Request<Body>| {
        requests.lock().push(Instant::now());
        async {
            let response = Response::builder()
                .status(StatusCode::INTERNAL_SERVER_ERROR)
                .body(Body::empty());
            response.map_err(std::io::Error::other)
        }
    });
    let builder = Controller::builder(Client::new(refuse, "default"), watch).seed(1);
    let builder = builder.missing_kind(MissingKind::Wait);
    let reconcile = |_: Context<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) };
    let controller = builder.build(reconcile).expect("good settings");
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(stop).await }
    });
    pass(secs(600)).await;
    stop.cancel();
    running
        .await
        .expect("no panic")
        .expect("a graceful shutdown");
    let times = times.lock();
    let delays = times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_secs_f64());
    delays.collect()
}

/// Rows: KR-13
#[tokio::test(start_paused = true)]
async fn the_backoff_of_a_failed_watch_is_that_of_client_go_and_can_be_replaced() {
    let default = delays(Watch::all()).await;
    // Twice as long each time, with a jitter of up to half of it.
    for (delay, longest) in default
        .iter()
        .zip([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0])
    {
        assert!(
            (longest / 2.0..=longest + 0.01).contains(delay),
            "{delay} of {default:?}"
        );
    }
    assert!(default.len() > 8, "{default:?}");
    let quick = Backoff::new(Duration::from_millis(100), secs(1)).expect("a backoff");
    let replaced = delays(Watch::all().settings(move |list| list.backoff(quick))).await;
    assert!(replaced.len() > 550, "{}", replaced.len());
    assert!(replaced.iter().all(|delay| *delay < 1.01), "{replaced:?}");
}

/// A `Watcher` of the same informer gets the final delete, with the last state.
///
/// Rows: BO-55
#[tokio::test(start_paused = true)]
async fn a_watcher_on_the_informer_of_a_controller_gets_each_event_and_the_final_delete() {
    let log = Log::new();
    let rig = Rig::start(&log, |builder| builder, log.reconciler(|_| done())).await;
    let informer = rig.controller.informers().informers().remove(0);
    let events = InformerController::new();
    let configs = events.kind::<ConfigMap>("configs").expect("a new name");
    events
        .add_informer(&configs, &informer)
        .expect("a new informer");
    let lines = log.clone();
    let watcher = SimpleWatcher::new().on_delete(move |last: Arc<ConfigMap>| {
        let version = last.metadata.resource_version.clone().unwrap_or_default();
        lines.say(format_args!("deleted web@{version}"));
        std::future::ready(Ok::<_, Failure>(()))
    });
    events.add_watcher(&configs, watcher).expect("an informer");
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { events.run(stop).await }
    });
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "0.0 web@1 for changed");
    rig.script.delete(config("web", 2)).await.expect("it runs");
    assert_eq!(
        rig.logged().await,
        "0.0 deleted web@2",
        "no call of the reconciler"
    );
    stop.cancel();
    running
        .await
        .expect("no panic")
        .expect("a graceful shutdown");
    rig.stop().await;
}

/// For example because the next watch of the same namespace was refused.
///
/// Rows: BO-43
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_removed_before_it_runs_stops_no_calls() {
    let log = Log::new();
    let rig = Rig::start(&log, |builder| builder, log.reconciler(|_| done())).await;
    let (_script, source) = Scripted::<ConfigMap>::new();
    let informers = rig.controller.informers();
    let added = informers
        .add(Watch::from(Informer::new(source)))
        .expect("it runs");
    assert!(informers.remove(&added));
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "0.0 web@1 for changed");
    rig.stop().await;
}
