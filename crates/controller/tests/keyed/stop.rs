//! The end of a run: the queue is drained.

use std::time::Duration;

use windlass_controller::{Fence, OnStop, Runnable as _};
use windlass_informer::Change;

use crate::support::{
    Fails, Recorder, Running, config, quiet, recreated, settle, start_empty, start_recreated,
};

/// Rows: CK-28
#[tokio::test(start_paused = true)]
async fn queued_events_are_processed_after_the_stop_and_failed_calls_are_not_repeated() {
    let (script, recorder) = Recorder::new();
    let running = start_empty(&script, &recorder).await;
    // One pending retry, one active call, two queued events.
    recorder.fail(1, Fails::WithError);
    script.apply(config("pending", 1)).await.expect("it runs");
    assert_eq!(recorder.take().await, "upsert shop/pending 1");
    recorder.hold();
    script.apply(config("busy", 2)).await.expect("it runs");
    recorder.until_running(1).await;
    script.apply(config("a", 3)).await.expect("it runs");
    script.apply(config("b", 4)).await.expect("it runs");
    settle().await;
    // Time for the pending retry to come due, while the only worker is busy.
    tokio::time::sleep(Duration::from_millis(50)).await;

    running.stop.cancel();
    settle().await;
    assert!(!running.has_ended(), "calls are active and queued");
    recorder.fail(3, Fails::WithError);
    recorder.release().await;
    running.ended().await.expect("no error");
    let lines = recorder.take().await;
    let calls: Vec<_> = lines
        .split(", ")
        .filter(|it| it.starts_with("upsert"))
        .collect();
    assert_eq!(
        calls,
        ["upsert shop/busy 2", "upsert shop/a 3", "upsert shop/b 4"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_controller_may_abandon_its_queue() {
    let (script, recorder) = Recorder::new();
    let controller = quiet(&recorder, 1).with_controller(|settings| {
        settings
            .concurrency(std::num::NonZeroUsize::MIN)
            .on_stop(OnStop::Abandon)
    });
    let running = Running::start(controller);
    script.list([]).await.expect("it runs");
    let _ = recorder.take().await;
    recorder.hold();
    script.apply(config("busy", 1)).await.expect("it runs");
    recorder.until_running(1).await;
    script.apply(config("a", 2)).await.expect("it runs");
    settle().await;
    running.stop.cancel();
    recorder.release().await;
    running.ended().await.expect("no error");
    assert!(!recorder.take().await.contains("shop/a"));
}

/// Rows: CK-27
#[tokio::test(start_paused = true)]
async fn a_stop_before_the_first_list_causes_no_call() {
    let (script, recorder) = Recorder::new();
    let running = Running::start(quiet(&recorder, 1));
    // A list that does not end.
    script.change(Change::ListStarted).await.expect("it runs");
    script.apply(config("a", 1)).await.expect("it runs");
    settle().await;
    assert!(!running.controller.has_synced());
    running.stop().await.expect("no error");
    assert_eq!(recorder.take().await, "begun, stopping, ended");
}

/// A replica that does not lead has a full queue, and must not wait for the lease.
#[tokio::test(start_paused = true)]
async fn nothing_is_drained_behind_a_closed_fence() {
    let (script, recorder) = Recorder::new();
    let controller = quiet(&recorder, 2);
    controller.set_fence(&Fence::new());
    let running = Running::start(controller);
    script
        .list([config("a", 1), config("b", 2), config("c", 3)])
        .await
        .expect("it runs");
    settle().await;
    let ended = tokio::time::timeout(Duration::from_secs(10), running.stop()).await;
    ended.expect("it does not wait").expect("no error");
    assert_eq!(recorder.take().await, "begun, stopping, ended");
}

/// The delete was deferred, because the store had a successor, whose events then vanish.
///
/// Rows: CK-28, CK-30
#[tokio::test(start_paused = true)]
async fn a_deferred_delete_is_made_after_the_stop() {
    let (script, recorder) = Recorder::new();
    let running = start_recreated(&script, &recorder).await;
    script.apply(config("other", 5)).await.expect("it runs");
    // The delete is processed, and then another object before the rest of `a`.
    recorder.release_one().await;
    assert_eq!(
        recorder.take().await,
        "upsert shop/busy 2, upsert shop/other 5"
    );
    script.delete(recreated("a", 4)).await.expect("it runs");
    settle().await;
    running.stop.cancel();
    recorder.release().await;
    running.ended().await.expect("no error");
    let lines = recorder.take().await;
    assert!(lines.contains("delete shop/a 3"), "{lines}");
}
