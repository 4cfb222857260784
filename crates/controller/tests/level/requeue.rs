//! Requeues from other code.

use std::{thread, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_controller::{ControllerBuilder, RequeueHandle, Trigger};
use windlass_informer::ObjectKey;

use crate::support::{Log, Rig, config, done, generation, pass, secs};

/// A controller of two objects that says nothing until they are requeued.
async fn start(log: &Log) -> (Rig, RequeueHandle) {
    let (requeue, trigger) = Trigger::requeue();
    let rig = Rig::start(log, with(trigger), log.reconciler(|_| done())).await;
    for name in ["a", "b"] {
        rig.apply(config(name, 1)).await;
    }
    assert!(rig.logged().await.starts_with("0.0 a@1"));
    (rig, requeue)
}

fn with(
    trigger: Trigger,
) -> impl FnOnce(ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap> {
    |mut builder| {
        builder.trigger(trigger);
        builder
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name)
}

/// Rows: BO-49
#[tokio::test(start_paused = true)]
async fn a_further_requeue_of_an_object_replaces_its_time() {
    let log = Log::new();
    let (rig, requeue) = start(&log).await;
    requeue.requeue_after(key("a"), secs(10));
    requeue.requeue_after(key("b"), secs(12));
    requeue.requeue_after(key("nothing"), secs(1));
    pass(secs(5)).await;
    requeue.requeue_after(key("a"), secs(10));
    pass(secs(100)).await;
    let later = "12.0 b@1 for trigger, 15.0 a@1 for trigger";
    assert_eq!(
        rig.logged().await,
        later,
        "one call each, and a at its later time"
    );

    requeue.requeue_after(key("a"), secs(30));
    requeue.requeue_after(key("a"), Duration::MAX);
    requeue.requeue_after(key("a"), secs(2));
    pass(secs(100)).await;
    assert_eq!(
        rig.logged().await,
        "107.0 a@1 for trigger",
        "at its earlier time"
    );

    // A call in the meantime leaves the time.
    requeue.requeue_after(key("a"), secs(10));
    rig.apply(generation("a", 2)).await;
    assert_eq!(rig.logged().await, "205.0 a@2 for changed");
    pass(secs(100)).await;
    assert_eq!(rig.logged().await, "215.0 a@2 for trigger");
    rig.stop().await;
}

/// Rows: BO-49
#[tokio::test(start_paused = true)]
async fn a_time_can_be_cancelled_and_all_times_can_be_cleared() {
    let log = Log::new();
    let (rig, requeue) = start(&log).await;
    for name in ["a", "b"] {
        requeue.requeue_after(key(name), secs(10));
    }
    pass(secs(5)).await;
    requeue.cancel(&key("a"));
    requeue.cancel(&key("nothing"));
    pass(secs(100)).await;
    assert_eq!(rig.logged().await, "10.0 b@1 for trigger", "not a");

    for name in ["a", "b"] {
        requeue.requeue_after(key(name), secs(10));
    }
    pass(secs(5)).await;
    // Also what the trigger has not seen yet.
    requeue.requeue_after(key("a"), secs(7));
    requeue.clear();
    pass(secs(100)).await;
    assert_eq!(rig.logged().await, "");

    requeue.clear();
    requeue.requeue_after(key("a"), secs(10));
    requeue.cancel(&key("a"));
    requeue.requeue_after(key("a"), secs(20));
    pass(secs(100)).await;
    assert_eq!(rig.logged().await, "230.0 a@1 for trigger");
    rig.stop().await;
}

/// Rows: BO-49
#[tokio::test(start_paused = true)]
async fn times_are_kept_before_the_start_and_set_from_any_thread() {
    let log = Log::new();
    let (requeue, trigger) = Trigger::requeue();
    requeue.requeue_after(key("a"), secs(10));
    let other = requeue.clone();
    let set = thread::spawn(move || other.requeue_after(key("b"), secs(20)));
    set.join().expect("it needs no runtime");
    pass(secs(4)).await;
    let rig = Rig::start(&log, with(trigger), log.reconciler(|_| done())).await;
    for name in ["a", "b"] {
        rig.apply(config(name, 1)).await;
    }
    assert!(rig.logged().await.starts_with("4.0 a@1"));
    pass(secs(100)).await;
    let calls = rig.logged().await;
    assert!(calls.starts_with("10.0 a@1 for trigger, "), "{calls}");
    // A thread without a runtime has another clock.
    assert!(calls.ends_with(" b@1 for trigger"), "{calls}");
    assert_eq!(calls.matches("for trigger").count(), 2, "{calls}");
    rig.stop().await;
}
