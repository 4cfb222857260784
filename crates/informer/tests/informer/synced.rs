//! Waiting for the first list: a result in any case.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use windlass_informer::{
    Changes, Informer, InformerError, Scripted, Source, SyncError, Verb, WatchError,
    WatchErrorCause,
};

use crate::running::{config, within_a_day};

/// How long `synced` waits for a call of `run`.
const GRACE: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn an_informer_that_is_not_run_is_an_error_after_a_grace_period() {
    let (_script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    let began = Instant::now();
    let error = informer.synced().await.expect_err("not run");
    assert!(matches!(error, SyncError::NotRun { .. }), "{error}");
    assert!(error.to_string().contains("Informer::run"), "{error}");
    assert_eq!(began.elapsed().as_secs(), GRACE.as_secs());

    // A call that is not polled is no help.
    let _run = informer.run(CancellationToken::new());
    let error = informer.synced().await.expect_err("not run");
    assert!(matches!(error, SyncError::NotRun { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_is_run_within_the_grace_period_is_waited_for() {
    let (script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    let stop = CancellationToken::new();
    tokio::spawn({
        let (informer, stop) = (informer.clone(), stop.clone());
        async move {
            sleep(GRACE.saturating_sub(Duration::from_secs(1))).await;
            informer.run(stop).await
        }
    });
    tokio::spawn(async move {
        // However long the list takes.
        sleep(GRACE * 100).await;
        script.list([config("a", "1")]).await.expect("runs");
        script
    });
    informer.synced().await.expect("it runs");
    assert!(informer.has_synced());
}

/// A handover between callers is not an end, and each gap starts a new grace period.
#[tokio::test(start_paused = true)]
async fn a_handover_between_callers_does_not_end_the_run() {
    let (script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    let mut waiting = tokio::spawn({
        let informer = informer.clone();
        async move { informer.synced().await }
    });
    let mut run = tokio::spawn(informer.run(CancellationToken::new()));
    for _ in 0..5 {
        sleep(GRACE.saturating_sub(Duration::from_secs(1))).await;
        let next = informer.run(CancellationToken::new());
        run.abort();
        // No call of `run` drives it now.
        sleep(GRACE.saturating_sub(Duration::from_secs(1))).await;
        assert!(!waiting.is_finished());
        run = tokio::spawn(next);
    }
    script.list([config("a", "1")]).await.expect("runs");
    (&mut waiting).await.expect("no panic").expect("synced");
    run.abort();
}

/// The only other call is not polled, so it cannot take over.
#[tokio::test(start_paused = true)]
async fn an_informer_that_has_lost_its_driver_is_an_error() {
    let (_script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    let _other = informer.run(CancellationToken::new());
    let run = tokio::spawn(informer.run(CancellationToken::new()));
    sleep(GRACE * 3).await;
    run.abort();
    run.await.expect_err("aborted");
    let began = Instant::now();
    let error = within_a_day(informer.synced()).await.expect_err("not run");
    assert!(matches!(error, SyncError::NotRun { .. }), "{error}");
    assert_eq!(began.elapsed().as_secs(), GRACE.as_secs());
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_is_stopped_is_an_error_at_once() {
    let (script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    let stop = CancellationToken::new();
    let run = tokio::spawn(informer.run(stop.clone()));
    let waiting = tokio::spawn({
        let informer = informer.clone();
        async move {
            let error = informer.synced().await.expect_err("stopped");
            (error, Instant::now())
        }
    });
    sleep(GRACE * 3).await;
    stop.cancel();
    let stopped = Instant::now();
    let (error, at) = waiting.await.expect("no panic");
    assert!(matches!(error, SyncError::Stopped { .. }), "{error}");
    assert_eq!(at, stopped);
    run.await.expect("no panic").expect("stopped");

    // A later caller may be about to run it again.
    let error = informer.synced().await.expect_err("stopped");
    assert!(matches!(error, SyncError::Stopped { .. }), "{error}");
    assert_eq!(stopped.elapsed().as_secs(), GRACE.as_secs());
    let run = tokio::spawn(informer.run(CancellationToken::new()));
    script.list([config("a", "1")]).await.expect("runs");
    informer.synced().await.expect("it runs again");
    run.abort();
}

/// The previous objects can be obsolete: the informer is synced after its next list.
#[tokio::test(start_paused = true)]
async fn an_informer_that_is_run_again_syncs_again() {
    let (script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    let stop = CancellationToken::new();
    let run = tokio::spawn(informer.run(stop.clone()));
    script.list([config("a", "1")]).await.expect("runs");
    informer.synced().await.expect("it runs");
    stop.cancel();
    run.await.expect("no panic").expect("stopped");
    assert!(!informer.has_synced());
    assert!(!informer.health().synced);

    let run = tokio::spawn(informer.run(CancellationToken::new()));
    let waiting = tokio::spawn({
        let informer = informer.clone();
        async move { informer.synced().await }
    });
    sleep(GRACE * 3).await;
    assert!(!waiting.is_finished());
    script.list([config("a", "1")]).await.expect("runs");
    waiting.await.expect("no panic").expect("synced");
    run.abort();
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_fails_is_an_error_with_the_reason() {
    struct Refused;

    impl Source<ConfigMap> for Refused {
        fn resource(&self) -> String {
            "configmaps".to_owned()
        }

        async fn run(&mut self, _: Changes<ConfigMap>) -> Result<(), WatchError> {
            sleep(Duration::from_secs(30)).await;
            Err(WatchError::new(
                "configmaps",
                Verb::List,
                WatchErrorCause::Invalid {
                    message: "no such field".to_owned(),
                },
            ))
        }
    }

    let informer = Informer::new(Refused);
    let began = Instant::now();
    let run = tokio::spawn(informer.run(CancellationToken::new()));
    for waited in [30, 30 + GRACE.as_secs()] {
        match informer.synced().await.expect_err("it failed") {
            SyncError::Failed {
                source: InformerError::Source { source, .. },
                ..
            } => assert!(source.to_string().contains("no such field"), "{source}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(began.elapsed().as_secs(), waited);
    }
    run.await.expect("no panic").expect_err("it failed");
}
