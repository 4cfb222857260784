//! Which method is called, with which object.

use windlass_informer::{Informer, Scripted};

use crate::support::{
    Recorder, Running, config, quiet, recreated, secs, start_empty, start_recreated,
};

/// Rows: CK-01, CK-12, CK-13, CK-15, CK-17, CK-19, CK-24
#[tokio::test(start_paused = true)]
async fn adds_and_updates_are_upserts_and_deletes_get_the_last_known_object() {
    let (script, recorder) = Recorder::new();
    let running = Running::start(quiet(&recorder, 1));
    assert_eq!(
        recorder.take().await,
        "begun",
        "no call before the first list"
    );
    let mut node = config("node", 1);
    node.metadata.namespace = None;
    script.list([config("a", 2), node]).await.expect("it runs");
    let mut lines: Vec<_> = (recorder.take().await.split(", "))
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert_eq!(lines, ["upsert node 1", "upsert shop/a 2"]);

    script.apply(config("a", 3)).await.expect("it runs");
    assert_eq!(recorder.take().await, "upsert shop/a 3");
    script.delete(config("a", 4)).await.expect("it runs");
    assert_eq!(recorder.take().await, "delete shop/a 4");
    running.stop().await.expect("no error");
}

/// Rows: CK-13, CK-14
#[tokio::test(start_paused = true)]
async fn an_upsert_gets_the_object_of_the_store_and_none_if_it_was_deleted() {
    let (script, recorder) = Recorder::new();
    let running = start_empty(&script, &recorder).await;
    // The only worker is busy, so that the events of `a` wait.
    recorder.hold();
    script.apply(config("busy", 1)).await.expect("it runs");
    recorder.until_running(1).await;
    script
        .list([config("busy", 1), config("a", 2)])
        .await
        .expect("it runs");
    script.apply(config("a", 3)).await.expect("it runs");
    recorder.release().await;
    assert_eq!(recorder.take().await, "upsert shop/busy 1, upsert shop/a 3");

    // Gone when the call would begin, and only a delete follows.
    recorder.hold();
    script.apply(config("busy", 4)).await.expect("it runs");
    recorder.until_running(1).await;
    script.apply(config("a", 5)).await.expect("it runs");
    script.delete(config("a", 6)).await.expect("it runs");
    recorder.release().await;
    assert_eq!(recorder.take().await, "upsert shop/busy 4, delete shop/a 6");
    running.stop().await.expect("no error");
}

/// Rows: CK-30
#[tokio::test(start_paused = true)]
async fn a_recreated_object_is_only_upserted() {
    let (script, recorder) = Recorder::new();
    let running = start_empty(&script, &recorder).await;
    script.apply(config("a", 1)).await.expect("it runs");
    recorder.hold();
    script.apply(config("busy", 2)).await.expect("it runs");
    recorder.until_running(1).await;
    script.delete(config("a", 3)).await.expect("it runs");
    script.apply(recreated("a", 4)).await.expect("it runs");
    recorder.release().await;
    assert_eq!(
        recorder.take().await,
        "upsert shop/a 1, upsert shop/busy 2, upsert shop/a 4"
    );
    tokio::time::sleep(secs(60)).await;
    assert_eq!(recorder.take().await, "", "no delete follows");

    // Later deletes are not affected.
    script.delete(recreated("a", 4)).await.expect("it runs");
    assert_eq!(recorder.take().await, "delete shop/a 4");
    running.stop().await.expect("no error");
}

/// The events of the successor vanish, so the deferred delete of the first object must be made.
///
/// Rows: CK-30
#[tokio::test(start_paused = true)]
async fn an_object_that_was_recreated_and_deleted_is_deleted_once() {
    let (script, recorder) = Recorder::new();
    // The delete is processed while the successor is in the store, and its `Created` waits.
    let running = start_recreated(&script, &recorder).await;
    script.delete(recreated("a", 4)).await.expect("it runs");
    recorder.release().await;
    assert_eq!(recorder.take().await, "upsert shop/busy 2, delete shop/a 3");
    tokio::time::sleep(secs(60)).await;
    assert_eq!(recorder.take().await, "", "once");
    running.stop().await.expect("no error");
}

/// The delete was deferred, and the one of the successor, which a relist has shown, is not dropped.
///
/// Rows: CK-30
#[tokio::test(start_paused = true)]
async fn a_deferred_delete_is_not_made_after_that_of_the_successor() {
    let (script, recorder) = Recorder::new();
    let running = start_empty(&script, &recorder).await;
    script.apply(config("a", 1)).await.expect("it runs");
    let _ = recorder.take().await;
    recorder.hold();
    script.apply(config("busy", 2)).await.expect("it runs");
    recorder.until_running(1).await;
    let objects = [config("busy", 2), recreated("a", 3), config("other", 4)];
    script.list(objects).await.expect("it runs");
    // The delete is processed, and then another object before the rest of `a`.
    recorder.release_one().await;
    assert_eq!(
        recorder.take().await,
        "upsert shop/busy 2, upsert shop/other 4"
    );
    script.delete(recreated("a", 3)).await.expect("it runs");
    recorder.release().await;
    tokio::time::sleep(secs(60)).await;
    assert_eq!(recorder.take().await, "delete shop/a 3");
    running.stop().await.expect("no error");
}

/// Rows: CK-29
#[tokio::test(start_paused = true)]
async fn a_delete_that_only_a_relist_shows_gets_the_last_known_object() {
    let (script, recorder) = Recorder::new();
    let running = start_empty(&script, &recorder).await;
    let objects = [config("a", 1), config("b", 2)];
    script.list(objects).await.expect("it runs");
    let _ = recorder.take().await;
    script.list([config("a", 1)]).await.expect("it runs");
    assert_eq!(recorder.take().await, "delete shop/b 2");
    running.stop().await.expect("no error");
}

/// Rows: CK-34
#[tokio::test(start_paused = true)]
async fn an_object_that_existed_only_while_it_waited_gets_no_call() {
    let (script, recorder) = Recorder::new();
    let running = start_empty(&script, &recorder).await;
    recorder.hold();
    script.apply(config("busy", 1)).await.expect("it runs");
    recorder.until_running(1).await;
    script.apply(config("a", 2)).await.expect("it runs");
    script.delete(config("a", 3)).await.expect("it runs");
    recorder.release().await;
    assert_eq!(recorder.take().await, "upsert shop/busy 1");
    running.stop().await.expect("no error");
}

/// Rows: CK-33
#[tokio::test(start_paused = true)]
async fn a_resync_upserts_each_object() {
    let (script, source) = Scripted::new();
    let recorder = Recorder::of(Informer::builder(source).resync(secs(600)).build());
    let running = Running::start(quiet(&recorder, 1));
    script
        .list([config("a", 1), config("b", 2)])
        .await
        .expect("it runs");
    let _ = recorder.take().await;
    tokio::time::sleep(secs(1800)).await;
    let lines = recorder.take().await;
    for object in ["upsert shop/a 1", "upsert shop/b 2"] {
        assert!(lines.matches(object).count() >= 2, "{lines}");
    }
    running.stop().await.expect("no error");
}

/// Rows: CK-25, CK-32
#[tokio::test(start_paused = true)]
async fn calls_of_different_objects_overlap_unless_there_is_one_worker() {
    for (workers, most) in [(16, 3), (1, 1)] {
        let (script, recorder) = Recorder::new();
        let running = start_with(&script, &recorder, workers).await;
        recorder.hold();
        for name in ["a", "b", "c"] {
            script.apply(config(name, 1)).await.expect("it runs");
        }
        recorder.until_running(most).await;
        // No call blocks the informer.
        script.apply(config("d", 2)).await.expect("it runs");
        script.apply(config("a", 3)).await.expect("it runs");
        let key = windlass_informer::ObjectKey::new("a").within("shop");
        crate::support::settle().await;
        let newest = recorder.informer.store().get(&key).expect("it exists");
        assert_eq!(crate::support::value(&newest), "3");
        recorder.release().await;
        let _ = recorder.take().await;
        let four_objects = 4;
        assert!(recorder.most_at_once() <= four_objects.min(workers));
        assert!(recorder.most_at_once() >= most);
        running.stop().await.expect("no error");
    }
}

async fn start_with(
    script: &windlass_informer::Script<k8s_openapi::api::core::v1::ConfigMap>,
    recorder: &Recorder,
    workers: usize,
) -> Running {
    let running = Running::start(quiet(recorder, workers));
    script.list([]).await.expect("it runs");
    let _ = recorder.take().await;
    running
}
