//! Runs, their state and their metrics.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder};
use tokio_util::sync::CancellationToken;
use windlass_controller::{Failure, KeyedResource, ResourceController, RunError, Runnable as _};
use windlass_informer::{Informer, ObjectKey, Scripted};

use crate::{
    lines::Lines,
    support::{Fails, Recorder, Running, config, quiet, secs, settle},
};

/// The subscriber of the program, or a function of its own.
///
/// Rows: CK-07
#[tokio::test(start_paused = true)]
async fn failed_calls_of_the_given_resource_go_to_the_logger_of_the_program() {
    let (lines, _guard) = Lines::listen();
    let own = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let hook = std::sync::Arc::clone(&own);
    for logs_itself in [false, true] {
        let (script, recorder) = Recorder::new();
        let controller = ResourceController::new(recorder.clone());
        let hook = std::sync::Arc::clone(&hook);
        let controller = controller.with_controller(move |settings| {
            let hook = std::sync::Arc::clone(&hook);
            if logs_itself {
                settings.on_error(move |report| hook.lock().push(report.to_string()))
            } else {
                settings
            }
        });
        let running = Running::start(controller);
        script.list([]).await.expect("it runs");
        recorder.fail(1, Fails::WithError);
        script.apply(config("a", 1)).await.expect("it runs");
        tokio::time::sleep(secs(1)).await;
        let calls = recorder.take().await;
        assert_eq!(calls.matches("upsert shop/a 1").count(), 2, "{calls}");
        running.stop().await.expect("no error");
    }
    let is_about_a = |line: &&String| line.contains("shop/a") && line.contains("not yet");
    let logged = lines.all();
    assert_eq!(logged.iter().filter(is_about_a).count(), 1, "{logged:?}");
    let own = own.lock().clone();
    assert_eq!(own.iter().filter(is_about_a).count(), 1, "{own:?}");
}

/// Rows: CK-08, CK-09, CK-10, CK-23
#[tokio::test(start_paused = true)]
async fn the_state_of_the_informer_is_that_of_the_controller() {
    let (script, recorder) = Recorder::new();
    let controller = quiet(&recorder, 1);
    assert!(!controller.has_synced());
    assert_eq!(controller.last_sync_resource_version(), None);

    let running = Running::start(controller.clone());
    settle().await;
    assert!(!controller.has_synced(), "the list is not complete");
    script.list([config("a", 7)]).await.expect("it runs");
    settle().await;
    assert!(controller.has_synced());
    script.apply(config("a", 9)).await.expect("it runs");
    settle().await;
    assert_eq!(
        controller.last_sync_resource_version().as_deref(),
        Some("9")
    );
    assert_eq!(recorder.informer.store().len(), 1, "callers read the store");
    assert!(!running.has_ended(), "it runs until the stop");
    running.stop().await.expect("no error");
}

/// Creates an informer in each call, as the resources of consul-k8s do.
struct OfManyInformers {
    sources: Mutex<Vec<Scripted<ConfigMap>>>,
    calls: Recorder,
}

impl KeyedResource for OfManyInformers {
    type Object = ConfigMap;

    fn informer(&self) -> Informer<ConfigMap> {
        let source = self.sources.lock().pop();
        Informer::new(source.expect("one informer for each run"))
    }

    async fn upsert(&self, key: &ObjectKey, object: Arc<ConfigMap>) -> Result<(), Failure> {
        self.calls.upsert(key, object).await
    }

    async fn delete(&self, key: &ObjectKey, last: Arc<ConfigMap>) -> Result<(), Failure> {
        self.calls.delete(key, last).await
    }
}

/// Rows: CK-09, CK-10, CK-12
#[tokio::test(start_paused = true)]
async fn a_resource_may_create_its_informer_in_each_call() {
    let (script, source) = Scripted::new();
    let (later, later_source) = Scripted::new();
    let (_unused, recorder) = Recorder::new();
    let controller = ResourceController::new(OfManyInformers {
        // The last one is the first.
        sources: Mutex::new(vec![later_source, source]),
        calls: recorder.clone(),
    });
    let run = || {
        let (controller, stop) = (controller.clone(), CancellationToken::new());
        let stopped = stop.clone();
        (
            stop,
            tokio::spawn(async move { controller.run(stopped).await }),
        )
    };
    for script in [script, later] {
        let (stop, task) = run();
        script.list([config("a", 7)]).await.expect("it runs");
        assert_eq!(recorder.take().await, "upsert shop/a 7");
        script.apply(config("a", 9)).await.expect("it runs");
        assert_eq!(recorder.take().await, "upsert shop/a 9");
        let version = controller.last_sync_resource_version();
        assert_eq!(version.as_deref(), Some("9"));
        stop.cancel();
        task.await.expect("no panic").expect("no error");
    }
}

/// An informer that another user has synced does not make the controller synced.
///
/// Rows: CK-08, CK-09
#[tokio::test(start_paused = true)]
async fn a_controller_that_was_not_run_has_not_synced() {
    let (script, recorder) = Recorder::new();
    let _running = tokio::spawn(recorder.informer.run(CancellationToken::new()));
    script.list([config("a", 7)]).await.expect("it runs");
    recorder.informer.synced().await.expect("it runs");
    let controller = quiet(&recorder, 1);
    assert!(!controller.has_synced());
    assert_eq!(controller.last_sync_resource_version(), None);
    assert_eq!(controller.health().len(), 1, "asked before the run");
    assert!(!controller.has_synced());
}

/// Rows: CK-11
#[tokio::test(start_paused = true)]
async fn a_second_run_is_refused_while_the_first_is_active_and_accepted_later() {
    let (script, recorder) = Recorder::new();
    let controller = quiet(&recorder, 1);
    let registry = Registry::new();
    for collector in controller.prometheus_collectors() {
        registry.register(collector).expect("no name twice");
    }
    let first = Running::start(controller.clone());
    script.list([config("a", 1)]).await.expect("it runs");
    assert_eq!(recorder.take().await, "begun, upsert shop/a 1");
    let second = Running::start(controller.clone());
    let error = second.ended().await.expect_err("the first one is active");
    assert!(matches!(error, RunError::AlreadyRuns), "{error}");
    assert!(controller.has_synced(), "the first run is not affected");
    first.stop().await.expect("no error");
    assert_eq!(recorder.take().await, "stopping, ended");

    let third = Running::start(controller.clone());
    settle().await;
    assert!(!controller.has_synced(), "this run has not synced");
    script
        .list([config("a", 1), config("b", 2)])
        .await
        .expect("it runs");
    let lines = recorder.take().await;
    assert!(
        lines.contains("upsert shop/a 1") && lines.contains("upsert shop/b 2"),
        "{lines}"
    );
    assert!(controller.has_synced());
    // The registry shows the current run.
    let text = TextEncoder::new()
        .encode_to_string(&registry.gather())
        .expect("text");
    let adds = text
        .lines()
        .find(|it| it.starts_with("workqueue_adds_total"));
    assert!(adds.is_some_and(|it| it.ends_with(" 2")), "{adds:?}");
    third.stop().await.expect("no error");
}

/// Rows: CK-11
#[tokio::test(start_paused = true)]
async fn a_dropped_run_is_over() {
    let (script, recorder) = Recorder::new();
    let controller = quiet(&recorder, 1);
    {
        let run = controller.run(CancellationToken::new());
        let stopped = tokio::time::timeout(std::time::Duration::from_secs(1), run).await;
        assert!(stopped.is_err(), "it runs until the stop");
    }
    let again = Running::start(controller);
    script.list([config("a", 1)]).await.expect("it runs");
    assert_eq!(recorder.take().await, "begun, begun, upsert shop/a 1");
    again.stop().await.expect("no error");
}
