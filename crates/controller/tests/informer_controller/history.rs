//! A server whose history went back ends the run of a controller.

use std::{error::Error, num::NonZeroUsize, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_controller::{
    Coalescing, InformerController, InformerControllerBuilder, OnStop, Outcome, Request, RunError,
};
use windlass_informer::{Change, HistoryWentBack};

use crate::support::{Log, Refused, Rig, Running, ask, config, pass, settle};

/// The history goes back, and a list follows.
async fn restore(running: &Running) {
    let script = &running.rig.script;
    let went_back = Change::HistoryWentBack(HistoryWentBack {
        seen: "9".to_owned(),
        listed: "4".to_owned(),
    });
    script.change(went_back).await.expect("it runs");
    // The controller may have ended already, and its informer with it.
    let list = script.list([config("web", 3)]);
    _ = tokio::time::timeout(Duration::from_secs(1), list).await;
    settle().await;
}

/// Decision: D25
#[tokio::test(start_paused = true)]
async fn a_server_whose_history_went_back_ends_the_run() {
    let builders: [fn() -> InformerControllerBuilder; 3] = [
        InformerController::builder,
        || InformerController::builder().coalescing(Coalescing::Always),
        || InformerController::builder().on_stop(OnStop::Drain),
    ];
    for builder in builders {
        let rig = Rig::new(builder());
        rig.watch(rig.log.watcher("w"));
        let running = rig.start_empty().await;
        running.apply(config("web", 9)).await;
        assert_eq!(running.logged().await, "w add web=9");
        restore(&running).await;
        assert!(running.has_ended());
        assert_eq!(running.logged().await, "", "no call is of the new history");
        let error = running.ended().await.expect_err("it went back");
        let shown = error.to_string();
        assert!(shown.contains("\"configs\""), "{shown}");
        assert!(shown.contains("start it again"), "{shown}");
        let source = error.source().expect("what was seen").to_string();
        assert!(source.contains("version 4"), "{source}");
        assert!(source.contains("version 9"), "{source}");
        assert!(matches!(error, RunError::HistoryWentBack { .. }));
    }
}

/// What is queued was of the old history, so that it is not drained either. An active call ends.
#[tokio::test(start_paused = true)]
async fn queued_events_and_pending_calls_of_the_old_history_are_abandoned() {
    for on_stop in [OnStop::Abandon, OnStop::Drain] {
        let builder = InformerController::builder();
        let rig = Rig::new(builder.on_stop(on_stop).concurrency(NonZeroUsize::MIN));
        let log = rig.log.clone();
        rig.reconcile(move |request: Request<ConfigMap>| {
            let log = log.clone();
            async move { slow(&log, &request).await }
        });
        let running = rig.start_empty().await;
        for name in ["a", "b"] {
            running.apply(config(name, 9)).await;
        }
        assert_eq!(running.logged().await, "created a=9");
        restore(&running).await;
        assert!(!running.has_ended(), "the active call is not dropped");
        pass(60).await;
        assert_eq!(running.logged().await, "a ended");
        let error = running.ended().await.expect_err("it went back");
        assert!(matches!(error, RunError::HistoryWentBack { .. }));
    }
}

/// What a controller has not seen cannot be obsolete for it.
#[tokio::test(start_paused = true)]
async fn a_controller_that_shares_the_informer_later_is_not_ended() {
    let rig = Rig::new(InformerController::builder());
    let keeps_running = rig.informer.run(rig.stop.clone());
    tokio::spawn(keeps_running);
    let informer = rig.informer.clone();
    let running = rig.start_empty().await;
    running.apply(config("web", 9)).await;
    restore(&running).await;
    assert!(running.has_ended());

    let later = Rig::new(InformerController::builder());
    later.controller.remove_informer(&later.informer);
    let added = later.controller.add_informer(&later.kind, &informer);
    added.expect("the first controller has ended");
    later.watch(later.log.watcher("w"));
    let later = later.start();
    assert_eq!(later.logged().await, "w add web=3");
    running.apply(config("web", 5)).await;
    assert_eq!(later.logged().await, "w update web=3 web=5");
    later.stop().await.expect("it stops");
}

async fn slow(log: &Log, request: &Request<ConfigMap>) -> Result<Outcome, Refused> {
    log.say(ask(request));
    pass(10).await;
    log.say(format_args!("{} ended", request.key().name()));
    Ok(Outcome::requeue_after(Duration::from_secs(1)))
}
