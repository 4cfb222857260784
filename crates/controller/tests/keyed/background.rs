//! The background task and nested controllers.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    Background, Failure, Fence, KeyedResource, ResourceController, RunError, Runnable,
};
use windlass_informer::{Informer, ObjectKey, Scripted};

use crate::support::{Recorder, Running, config, quiet, secs, settle};

/// Rows: CK-04, CK-05, CK-06
#[tokio::test(start_paused = true)]
async fn the_background_task_begins_first_and_ends_last() {
    let (script, recorder) = Recorder::new();
    let running = Running::start(quiet(&recorder, 1));
    script.list([config("a", 1)]).await.expect("it runs");
    assert_eq!(recorder.take().await, "begun, upsert shop/a 1");
    recorder.hold();
    script.apply(config("a", 2)).await.expect("it runs");
    recorder.until_running(1).await;

    // It sees the stop at once, although a call is active.
    running.stop.cancel();
    assert_eq!(recorder.take().await, "upsert shop/a 2, stopping");
    recorder.release().await;
    tokio::time::sleep(secs(4)).await;
    assert!(!running.has_ended(), "it waits for the background task");
    running.ended().await.expect("no error");
    assert_eq!(recorder.take().await, "ended");
}

/// Rows: CK-05, CK-06
#[tokio::test(start_paused = true)]
async fn the_background_task_ends_also_when_the_run_fails() {
    let (script, recorder) = Recorder::new();
    let running = Running::start(
        quiet(&recorder, 1).with_controller(|settings| settings.cache_sync_timeout(Some(secs(30)))),
    );
    let error = running.ended().await.expect_err("no list");
    assert!(matches!(error, RunError::NotSynced { .. }), "{error}");
    assert_eq!(recorder.take().await, "begun, stopping, ended");
    drop(script);
}

/// Runs a nested controller in the background, or panics.
struct Parent {
    informer: Informer<ConfigMap>,
    nested: Option<ResourceController<Recorder>>,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl KeyedResource for Parent {
    type Object = ConfigMap;

    fn informer(&self) -> Informer<ConfigMap> {
        self.informer.clone()
    }

    async fn upsert(&self, _: &ObjectKey, _: Arc<ConfigMap>) -> Result<(), Failure> {
        self.log.lock().push("upsert");
        Ok(())
    }

    async fn delete(&self, _: &ObjectKey, _: Arc<ConfigMap>) -> Result<(), Failure> {
        Ok(())
    }

    async fn background(&self, scope: Background) {
        let Some(nested) = self.nested.clone() else {
            tokio::time::sleep(secs(1)).await;
            panic!("out of sockets");
        };
        scope.run(nested).await.expect("no error");
        self.log.lock().push("nested ended");
    }
}

/// Rows: CK-35
#[tokio::test(start_paused = true)]
async fn a_background_task_that_panics_ends_the_run() {
    let (script, source) = Scripted::new();
    let (nested_script, nested) = Recorder::new();
    let parent = ResourceController::new(Parent {
        informer: Informer::new(source),
        nested: None,
        log: Arc::default(),
    });
    let parent = parent.nest(quiet(&nested, 1));
    let running = tokio::spawn(async move { parent.run(CancellationToken::new()).await });
    script.list([]).await.expect("it runs");
    nested_script.list([]).await.expect("it runs");
    let ended = tokio::time::timeout(secs(60), running).await;
    let error = ended
        .expect("it ends")
        .expect("no panic")
        .expect_err("it panicked");
    let RunError::Background { message } = &error else {
        panic!("{error}");
    };
    assert_eq!(message, "out of sockets");
    assert_eq!(
        nested.take().await,
        "begun, stopping, ended",
        "the nested one ended before"
    );
}

/// Rows: CK-04, CK-35
#[tokio::test(start_paused = true)]
async fn nested_controllers_run_behind_the_same_fence_and_end_before_the_run_returns() {
    let (script, source) = Scripted::new();
    let (inner_script, inner) = Recorder::new();
    let (nested_script, nested) = Recorder::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    let parent = ResourceController::new(Parent {
        informer: Informer::new(source),
        nested: Some(quiet(&inner, 1).with_name("inner")),
        log: Arc::clone(&log),
    });
    let parent = parent.nest(quiet(&nested, 1).with_name("nested"));
    let fence = Fence::new();
    parent.set_fence(&fence);
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (parent, stop) = (parent.clone(), stop.clone());
        async move { parent.run(stop).await }
    });
    for script in [&script, &inner_script, &nested_script] {
        script.list([config("a", 1)]).await.expect("it runs");
    }
    assert_eq!(inner.take().await, "begun", "no call without the lease");
    assert_eq!(nested.take().await, "begun");
    assert_eq!(log.lock().len(), 0);
    fence.open_until(fence.now() + Duration::from_secs(3600));
    assert_eq!(inner.take().await, "upsert shop/a 1");
    assert_eq!(nested.take().await, "upsert shop/a 1");
    assert_eq!(*log.lock(), ["upsert"]);
    // The health of a nested controller is that of its parent.
    assert_eq!(parent.health().len(), 2);

    stop.cancel();
    settle().await;
    assert!(
        !running.is_finished(),
        "the nested ones wait for their background tasks"
    );
    running.await.expect("no panic").expect("no error");
    assert_eq!(inner.take().await, "stopping, ended");
    assert_eq!(nested.take().await, "stopping, ended");
    assert_eq!(*log.lock(), ["upsert", "nested ended"]);
}

/// Rows: CK-35
#[tokio::test(start_paused = true)]
async fn the_failure_of_a_nested_controller_ends_the_run() {
    let (script, recorder) = Recorder::new();
    let (_nested_script, nested) = Recorder::new();
    let nested = quiet(&nested, 1)
        .with_name("unsynced")
        .with_controller(|settings| settings.cache_sync_timeout(Some(secs(30))));
    let running = Running::start(quiet(&recorder, 1).nest(nested));
    script.list([]).await.expect("it runs");
    let error = running.ended().await.expect_err("the nested one fails");
    let RunError::Nested { name, source } = &error else {
        panic!("{error}");
    };
    assert_eq!(name, "unsynced");
    assert!(source.to_string().contains("without progress"), "{source}");
    assert_eq!(recorder.take().await, "begun, stopping, ended");
}
