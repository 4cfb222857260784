//! Failed calls.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_controller::{DeadLetter, ResourceController};

use crate::support::{
    Fails, Recorder, Running, config, quiet, recreated, secs, settle, start_empty,
};

/// Rows: CK-18, CK-26
#[tokio::test(start_paused = true)]
async fn an_upsert_is_repeated_five_times_then_reported_and_the_next_event_begins_anew() {
    let (script, recorder) = Recorder::new();
    let times = Arc::new(Mutex::new(Vec::new()));
    let exhausted = Arc::new(Mutex::new(Vec::new()));
    let (on_error, on_exhausted) = (Arc::clone(&times), Arc::clone(&exhausted));
    let controller = ResourceController::new(recorder.clone()).with_controller(move |settings| {
        let (on_error, on_exhausted) = (Arc::clone(&on_error), Arc::clone(&on_exhausted));
        settings
            .on_error(move |report| on_error.lock().push((Instant::now(), report.retry_in)))
            .on_exhausted(move |letter: DeadLetter| {
                on_exhausted
                    .lock()
                    .push((letter.key.to_string(), letter.attempts));
                async {}
            })
    });
    let running = Running::start(controller);
    script.list([]).await.expect("it runs");
    let _ = recorder.take().await;

    recorder.fail(7, Fails::WithError);
    script.apply(config("a", 1)).await.expect("it runs");
    tokio::time::sleep(secs(1)).await;
    assert_eq!(recorder.take().await, ["upsert shop/a 1"; 6].join(", "));
    let times: Vec<_> = std::mem::take(&mut *times.lock());
    let delays: Vec<_> = times
        .windows(2)
        .map(|it| (it[1].0 - it[0].0).as_millis())
        .collect();
    assert_eq!(delays, [5, 10, 20, 40, 80]);
    assert_eq!(
        times[5].1, None,
        "the last failure is reported without a retry"
    );
    assert_eq!(*exhausted.lock(), [("shop/a".to_owned(), 6)]);

    // The seventh failure is a first one.
    script.apply(config("a", 2)).await.expect("it runs");
    tokio::time::sleep(secs(1)).await;
    assert_eq!(recorder.take().await, ["upsert shop/a 2"; 2].join(", "));
    running.stop().await.expect("no error");
}

/// Rows: CK-14
#[tokio::test(start_paused = true)]
async fn a_repeated_upsert_gets_the_newest_object_and_none_if_it_was_deleted() {
    let (script, recorder) = Recorder::new();
    let running = start_empty(&script, &recorder).await;
    // The change comes between the failure and the retry.
    recorder.fail(1, Fails::WithError);
    recorder.hold();
    script.apply(config("a", 1)).await.expect("it runs");
    recorder.until_running(1).await;
    script.apply(config("a", 2)).await.expect("it runs");
    recorder.release().await;
    tokio::time::sleep(secs(1)).await;
    let lines = recorder.take().await;
    assert!(
        lines.starts_with("upsert shop/a 1, upsert shop/a 2"),
        "{lines}"
    );
    assert_eq!(lines.matches("shop/a 1").count(), 1, "{lines}");

    recorder.fail(1, Fails::WithError);
    recorder.hold();
    script.apply(config("a", 3)).await.expect("it runs");
    recorder.until_running(1).await;
    script.delete(config("a", 4)).await.expect("it runs");
    recorder.release().await;
    tokio::time::sleep(secs(1)).await;
    assert_eq!(recorder.take().await, "upsert shop/a 3, delete shop/a 4");
    running.stop().await.expect("no error");
}

/// Rows: CK-20
#[tokio::test(start_paused = true)]
async fn a_delete_is_repeated_with_the_same_object_until_a_successor_exists() {
    let (script, recorder) = Recorder::new();
    let running = start_empty(&script, &recorder).await;
    script.apply(config("a", 1)).await.expect("it runs");
    let _ = recorder.take().await;
    recorder.fail(2, Fails::WithError);
    script.delete(config("a", 2)).await.expect("it runs");
    tokio::time::sleep(secs(1)).await;
    assert_eq!(recorder.take().await, ["delete shop/a 2"; 3].join(", "));

    script.apply(config("a", 3)).await.expect("it runs");
    let _ = recorder.take().await;
    recorder.fail(1, Fails::WithError);
    script.delete(config("a", 4)).await.expect("it runs");
    // Less than the 5 ms until the retry.
    settle().await;
    script.apply(recreated("a", 5)).await.expect("it runs");
    tokio::time::sleep(secs(1)).await;
    assert_eq!(recorder.take().await, "delete shop/a 4, upsert shop/a 5");
    running.stop().await.expect("no error");
}

/// Rows: CK-31
#[tokio::test(start_paused = true)]
async fn a_panic_is_reported_and_its_call_repeated() {
    let (script, recorder) = Recorder::new();
    let reports = Arc::new(Mutex::new(Vec::new()));
    let on_error = Arc::clone(&reports);
    let controller = quiet(&recorder, 1).with_controller(move |settings| {
        let reports = Arc::clone(&on_error);
        settings.on_error(move |report| reports.lock().push(report.to_string()))
    });
    let running = Running::start(controller);
    script.list([]).await.expect("it runs");
    let _ = recorder.take().await;
    recorder.fail(1, Fails::WithPanic);
    script.apply(config("a", 1)).await.expect("it runs");
    script.apply(config("b", 2)).await.expect("it runs");
    tokio::time::sleep(secs(1)).await;
    let lines = recorder.take().await;
    assert_eq!(lines.matches("upsert shop/a 1").count(), 2, "{lines}");
    assert_eq!(lines.matches("upsert shop/b 2").count(), 1, "{lines}");
    let reports = reports.lock().clone();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(
        reports[0].contains("shop/a") && reports[0].contains("the registry does not answer"),
        "{reports:?}"
    );
    running.stop().await.expect("no error");
}

/// Rows: CK-26
#[tokio::test(start_paused = true)]
async fn all_retries_together_are_limited() {
    const OBJECTS: u32 = 150;
    let (script, recorder) = Recorder::new();
    let running = Running::start(quiet(&recorder, 16));
    script.list([]).await.expect("it runs");
    let _ = recorder.take().await;
    recorder.fail(OBJECTS as usize, Fails::WithError);
    for at in 0..OBJECTS {
        script
            .apply(config(&format!("o{at}"), at + 1))
            .await
            .expect("it runs");
    }
    let repeated = |lines: String| lines.split(", ").filter(|it| !it.is_empty()).count();
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let first = repeated(recorder.take().await);
    assert_eq!(first, OBJECTS as usize + 100, "each once, and 100 retries");
    tokio::time::sleep(secs(1)).await;
    let second = repeated(recorder.take().await);
    assert!((9..=11).contains(&second), "10 in a second, not {second}");
    tokio::time::sleep(secs(5)).await;
    assert_eq!(
        second + repeated(recorder.take().await),
        50,
        "all in the end"
    );
    running.stop().await.expect("no error");
}
