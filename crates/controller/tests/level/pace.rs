//! Debounce and rate limits.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use crate::support::{Log, Rig, done, generation, pass, secs};

/// Rows: BO-22
#[tokio::test(start_paused = true)]
async fn a_rate_limit_postpones_calls_and_loses_no_change() {
    let log = Log::new();
    let two = NonZeroU32::new(2).expect("not zero");
    let limited =
        |builder: windlass_controller::ControllerBuilder<_>| builder.rate_limit(two, secs(20));
    let rig = Rig::start(&log, limited, log.reconciler(|_| done())).await;
    for version in 1..=5 {
        rig.apply(generation("web", version)).await;
        pass(Duration::from_millis(10)).await;
    }
    // Another object has a limit of its own.
    rig.apply(generation("blog", 6)).await;
    let calls = "0.0 web@1 for changed, 0.0 web@2 for changed, 0.0 blog@6 for changed";
    assert_eq!(rig.logged().await, calls);
    pass(secs(9)).await;
    assert_eq!(rig.logged().await, "");
    pass(secs(1000)).await;
    // The last change is not lost, and there is one call for all that waited.
    assert_eq!(rig.logged().await, "10.0 web@5 for changed, requeue");
    rig.stop().await;
}

/// Rows: KR-11
#[tokio::test(start_paused = true)]
async fn the_concurrency_bounds_the_calls_for_different_objects() {
    for (concurrency, calls) in [
        (1, ["0.0 a", "10.0 b", "20.0 c"]),
        (2, ["0.0 a", "0.0 b", "10.0 c"]),
        (16, ["0.0 a", "0.0 b", "0.0 c"]),
    ] {
        let log = Log::new();
        let concurrent = |builder: windlass_controller::ControllerBuilder<_>| {
            builder.concurrency(NonZeroUsize::new(concurrency).expect("not zero"))
        };
        let reconciler = log.reconciler(|_| async {
            pass(secs(10)).await;
            done().await
        });
        let rig = Rig::start(&log, concurrent, reconciler).await;
        for (name, version) in [("a", 1), ("b", 2), ("c", 3)] {
            rig.apply(generation(name, version)).await;
        }
        pass(secs(100)).await;
        let logged = rig.logged().await;
        let begun: Vec<_> = logged
            .split(", ")
            .filter_map(|line| line.split('@').next())
            .collect();
        assert_eq!(begun, calls, "{concurrency}");
        rig.stop().await;
    }
}

/// Rows: KR-11
#[tokio::test(start_paused = true)]
async fn a_debounced_object_is_reconciled_after_a_quiet_time_and_at_most_after_the_longest_wait() {
    let log = Log::new();
    let debounced = |builder: windlass_controller::ControllerBuilder<_>| {
        builder.debounce(Duration::from_millis(500), secs(2))
    };
    let rig = Rig::start(&log, debounced, log.reconciler(|_| done())).await;
    // Kubernetes' own kube-runtime never calls in this sequence.
    for version in 1..=10 {
        rig.apply(generation("web", version)).await;
        pass(Duration::from_millis(400)).await;
    }
    pass(secs(100)).await;
    assert_eq!(
        rig.logged().await,
        "2.0 web@5 for changed, requeue, 4.0 web@10 for changed, requeue"
    );
    rig.apply(generation("web", 11)).await;
    pass(secs(10)).await;
    let calls = rig.logged().await;
    assert!(calls.ends_with("web@11 for changed, requeue"), "{calls}");
    rig.stop().await;
}
