//! How a call ends, and when the next one begins.

use windlass_controller::Outcome;

use crate::support::{Log, Rig, config, done, generation, pass, secs};

/// Rows: BO-04, KR-03
#[tokio::test(start_paused = true)]
async fn any_number_of_events_during_a_call_cause_exactly_one_further_call() {
    let log = Log::new();
    let reconciler = log.reconciler(|_| async {
        pass(secs(10)).await;
        Ok(Outcome::done())
    });
    let rig = Rig::start(&log, |builder| builder, reconciler).await;
    for version in 1..=20 {
        rig.apply(generation("web", version)).await;
        if version == 1 {
            assert_eq!(rig.logged().await, "0.0 web@1 for changed");
        }
    }
    pass(secs(100)).await;
    assert_eq!(rig.logged().await, "10.0 web@20 for changed");
    rig.stop().await;
}

/// Rows: BO-05
#[tokio::test(start_paused = true)]
async fn an_event_is_earlier_than_a_requeue_and_drops_it() {
    let log = Log::new();
    let reconciler = log.reconciler(|call| async move {
        Ok(if call == 1 {
            Outcome::requeue_after(secs(60))
        } else {
            Outcome::done()
        })
    });
    let rig = Rig::start(&log, |builder| builder, reconciler).await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "0.0 web@1 for changed");
    pass(secs(20)).await;
    rig.apply(generation("web", 2)).await;
    assert_eq!(rig.logged().await, "20.0 web@2 for changed");
    pass(secs(3600)).await;
    assert_eq!(rig.logged().await, "", "the requeue was dropped");
    rig.stop().await;
}

/// Rows: BO-05
#[tokio::test(start_paused = true)]
async fn a_requeue_reads_the_newest_object() {
    let log = Log::new();
    let reconciler = log.reconciler(|call| async move {
        Ok(if call == 1 {
            Outcome::requeue_after(secs(60))
        } else {
            Outcome::done()
        })
    });
    let rig = Rig::start(&log, |builder| builder, reconciler).await;
    rig.apply(config("web", 1)).await;
    // A change of the status alone, which is filtered.
    pass(secs(20)).await;
    rig.apply(config("web", 2)).await;
    pass(secs(100)).await;
    assert_eq!(
        rig.logged().await,
        "0.0 web@1 for changed, 60.0 web@2 for requeue"
    );
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn again_repeats_the_call_at_once() {
    let log = Log::new();
    let reconciler = log.reconciler(|call| async move {
        Ok(if call < 3 {
            Outcome::again()
        } else {
            Outcome::done()
        })
    });
    let rig = Rig::start(&log, |builder| builder, reconciler).await;
    rig.apply(config("web", 1)).await;
    let calls = "0.0 web@1 for changed, 0.0 web@1 for requeue, 0.0 web@1 for requeue";
    assert_eq!(rig.logged().await, calls);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_exist_is_not_reconciled() {
    let log = Log::new();
    let reconciler = log.reconciler(|_| async { Ok(Outcome::requeue_after(secs(60))) });
    let rig = Rig::start(&log, |builder| builder, reconciler).await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "0.0 web@1 for changed");
    rig.script.delete(config("web", 2)).await.expect("it runs");
    pass(secs(3600)).await;
    assert_eq!(rig.logged().await, "");
    assert_eq!(rig.controller.engine().pending_calls(), 0);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_gets_the_state_of_the_store_after_the_first_list() {
    let log = Log::new();
    let reconciler = log.reconciler(|_| done());
    let rig = Rig::start(&log, |builder| builder, reconciler).await;
    rig.script
        .list([config("a", 1), config("b", 2)])
        .await
        .expect("it runs");
    let calls = rig.logged().await;
    assert!(calls.contains("a@1") && calls.contains("b@2"), "{calls}");
    assert_eq!(rig.controller.informers().len(), 2);
    rig.stop().await;
}

/// Rows: BO-54
#[tokio::test(start_paused = true)]
async fn named_steps_are_timed() {
    let log = Log::new();
    let reconcile = |cx: windlass_controller::Context<k8s_openapi::api::core::v1::ConfigMap>| async move {
        {
            let _step = cx.step("render");
            pass(secs(2)).await;
        }
        let _step = cx.step("apply");
        pass(secs(3)).await;
        Ok::<_, windlass_controller::Failure>(Outcome::done())
    };
    let rig = Rig::start(&log, |builder| builder, reconcile).await;
    let registry = prometheus::Registry::new();
    for collector in rig.controller.engine().prometheus_collectors() {
        registry.register(collector).expect("a new name");
    }
    rig.apply(config("web", 1)).await;
    pass(secs(10)).await;
    let metrics = prometheus::TextEncoder::new().encode_to_string(&registry.gather());
    let metrics = metrics.expect("text");
    for (step, seconds) in [("render", 2), ("apply", 3)] {
        let sum = metrics.lines().find(|line| {
            line.starts_with("reconcile_step_duration_seconds_sum")
                && line.contains(&format!("step=\"{step}\""))
        });
        assert!(
            sum.is_some_and(|line| line.ends_with(&format!(" {seconds}"))),
            "{sum:?}"
        );
    }
    rig.stop().await;
}
