//! An early call: a mapped object whose retry is not due is called at once, and the retry keeps its
//! time.

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_controller::{ExponentialBackoff, Failure, InformerController, Outcome, Request};

use super::themes::{Themes, map, rig, start, used_by};
use crate::support::{Log, Running, config, generation, pass, secs};

/// A site whose calls fail with delays of 8, 16, 32 ... seconds. Each call is logged with its
/// attempt, and so is the delay of each retry.
async fn failing() -> (Running, Themes) {
    let log = Log::default();
    let hook = log.clone();
    let builder = InformerController::builder()
        .retry_policy(ExponentialBackoff::forever(secs(8)))
        .on_error(move |report| {
            let delay = report.retry_in.expect("it is retried");
            hook.say(format_args!("in {}s", delay.as_secs_f64().round()));
        });
    let (mut rig, themes) = rig(builder);
    rig.log = log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(format_args!("attempt {}", request.attempt()));
        async { Err::<Outcome, _>(Failure::new("no")) }
    });
    map(&rig, &themes.kind, used_by);
    let running = start(rig, &themes).await;
    running.apply(config("site-1", 0)).await;
    assert_eq!(running.logged().await, "attempt 0, in 8s");
    pass(8).await;
    assert_eq!(running.logged().await, "attempt 1, in 16s");
    (running, themes)
}

/// D37. Rows: BO-21
#[tokio::test(start_paused = true)]
async fn an_early_call_that_fails_keeps_the_time_and_the_attempt_of_the_retry() {
    let (running, themes) = failing().await;
    themes.apply(config("dark", 1)).await.expect("it runs");
    assert_eq!(running.logged().await, "attempt 2, in 16s", "at once");
    // At most once in the first delay, however often the theme changes.
    for number in 0..20 {
        let theme = config(&format!("theme-{number}"), 1);
        themes.apply(theme).await.expect("it runs");
        assert_eq!(running.logged().await, "");
    }
    pass(7).await;
    assert_eq!(running.logged().await, "");
    pass(1).await;
    assert_eq!(running.logged().await, "attempt 2, in 8s");
    pass(7).await;
    assert_eq!(running.logged().await, "");
    pass(1).await;
    // The retry itself, at its time.
    assert_eq!(running.logged().await, "attempt 2, in 32s");
    running.stop().await.expect("it stops");
}

/// Ten events in a second neither lead to the longest delay nor remove it.
#[tokio::test(start_paused = true)]
async fn many_early_calls_do_not_advance_the_retry() {
    let (running, themes) = failing().await;
    for number in 0..16 {
        let theme = config(&format!("theme-{number}"), 1);
        themes.apply(theme).await.expect("it runs");
        pass(1).await;
    }
    let logged = running.logged().await;
    assert_eq!(
        logged,
        "attempt 2, in 16s, attempt 2, in 8s, attempt 2, in 32s"
    );
    running.stop().await.expect("it stops");
}

/// D19: a new generation is no early call.
#[tokio::test(start_paused = true)]
async fn a_new_generation_after_an_early_call_starts_a_new_count() {
    let (running, themes) = failing().await;
    themes.apply(config("dark", 1)).await.expect("it runs");
    running.logged().await;
    running.apply(generation(config("site-1", 1), 2)).await;
    assert_eq!(running.logged().await, "attempt 0, in 8s");
    running.stop().await.expect("it stops");
}

/// Rows: BO-21
#[tokio::test(start_paused = true)]
async fn an_early_call_that_succeeds_ends_the_retries() {
    let (rig, themes) = rig(InformerController::builder()
        .retry_policy(ExponentialBackoff::forever(secs(100)))
        .on_error(|_| {}));
    let failing = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        failing.say(format_args!("attempt {}", request.attempt()));
        let failed = request.attempt() == 0;
        async move {
            if failed {
                return Err(Failure::new("no"));
            }
            Ok(Outcome::done())
        }
    });
    map(&rig, &themes.kind, used_by);
    let running = start(rig, &themes).await;
    running.apply(config("site-1", 0)).await;
    assert_eq!(running.logged().await, "attempt 0");
    themes.apply(config("dark", 1)).await.expect("it runs");
    assert_eq!(running.logged().await, "attempt 1");
    pass(3600).await;
    assert_eq!(running.logged().await, "");
    running.stop().await.expect("it stops");
}
