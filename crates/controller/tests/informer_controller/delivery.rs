//! The bounds of the queue, and what waits at a bound.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::Semaphore;
use windlass_controller::{Coalescing, InformerController, Outcome, Request};

use crate::support::{Refused, Rig, Running, ask, config, reborn, settle};

/// A controller whose reconciler waits to be let on, call by call.
async fn gated(
    delivery: Coalescing,
    queue: usize,
    concurrency: usize,
) -> (Running, Arc<Semaphore>) {
    let builder = InformerController::builder()
        .coalescing(delivery)
        .queue(NonZeroUsize::new(queue).expect("not zero"))
        .concurrency(NonZeroUsize::new(concurrency).expect("not zero"));
    let rig = Rig::new(builder);
    let gate = Arc::new(Semaphore::new(0));
    let (log, pass) = (rig.log.clone(), Arc::clone(&gate));
    rig.reconcile(move |request: Request<ConfigMap>| {
        let (log, pass) = (log.clone(), Arc::clone(&pass));
        async move {
            log.say(ask(&request));
            pass.acquire().await.expect("open").forget();
            Ok::<_, Refused>(Outcome::done())
        }
    });
    (rig.start_empty().await, gate)
}

#[tokio::test(start_paused = true)]
async fn every_event_is_dispatched_while_the_queue_is_not_full() {
    for (delivery, expected) in [
        (
            Coalescing::WhenFull,
            "updated web=2, updated web=3, updated web=4, deleted web=4, created web=5",
        ),
        (Coalescing::Always, "deleted web=4, created web=5"),
    ] {
        let (running, gate) = gated(delivery, 100, 4).await;
        running.apply(config("web", 1)).await;
        assert_eq!(running.logged().await, "created web=1");
        for value in 2..=4 {
            running.apply(config("web", value)).await;
        }
        running.apply(reborn("web", 5)).await;
        settle().await;
        gate.add_permits(100);
        assert_eq!(running.logged().await, expected, "{delivery:?}");
        running.stop().await.expect("it stops");
    }
}

/// Rows: BO-04
#[tokio::test(start_paused = true)]
async fn a_coalesced_update_has_the_oldest_undispatched_state() {
    let (running, gate) = gated(Coalescing::Always, 100, 4).await;
    running.rig.watch(running.rig.log.watcher("w"));
    running.apply(config("web", 1)).await;
    running.logged().await;
    for value in 2..=9 {
        running.apply(config("web", value)).await;
    }
    settle().await;
    gate.add_permits(100);
    assert_eq!(
        running.logged().await,
        "w update web=1 web=9, updated web=9"
    );
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn concurrency_is_limited_as_configured() {
    let (running, gate) = gated(Coalescing::WhenFull, 100, 3).await;
    for name in ["a", "b", "c", "d", "e"] {
        running.apply(config(name, 1)).await;
    }
    assert_eq!(
        running.logged().await,
        "created a=1, created b=1, created c=1"
    );
    gate.add_permits(1);
    assert_eq!(running.logged().await, "created d=1");
    gate.add_permits(4);
    assert_eq!(running.logged().await, "created e=1");
    running.stop().await.expect("it stops");
}

/// A resync of an object waits, which its handler therefore knows. Its informer is removed and added
/// again, so that it is shown as new, and it is deleted.
#[tokio::test(start_paused = true)]
async fn a_delete_of_an_object_that_is_shown_again_while_its_resync_waits_is_dispatched() {
    let (running, gate) = gated(Coalescing::Always, 100, 1).await;
    let (script, source) = windlass_informer::Scripted::new();
    let minute = Duration::from_secs(60);
    let informer = windlass_informer::Informer::builder(source)
        .resync(minute)
        .build();
    let (controller, kind) = (&running.rig.controller, &running.rig.kind);
    controller.add_informer(kind, &informer).expect("added");
    script.list([config("web", 1)]).await.expect("it runs");
    gate.add_permits(1);
    assert_eq!(running.logged().await, "created web=1");

    // This call does not end before all is queued.
    running.apply(config("busy", 1)).await;
    assert_eq!(running.logged().await, "created busy=1");
    tokio::time::sleep(2 * minute).await;
    assert!(controller.remove_informer(&informer));
    settle().await;
    controller
        .add_informer(kind, &informer)
        .expect("added again");
    script.list([config("web", 1)]).await.expect("it runs");
    settle().await;
    script.delete(config("web", 2)).await.expect("it runs");
    settle().await;
    gate.add_permits(100);
    assert_eq!(running.logged().await, "deleted web=2");
    running.stop().await.expect("it stops");
}

/// The periodic resyncs of many objects do not delay a change.
#[tokio::test(start_paused = true)]
async fn a_change_does_not_wait_for_resyncs() {
    let (running, gate) = gated(Coalescing::WhenFull, 100, 1).await;
    let (script, source) = windlass_informer::Scripted::new();
    let minute = Duration::from_secs(60);
    let informer = windlass_informer::Informer::builder(source).resync(minute);
    (running.rig.controller)
        .add_informer(&running.rig.kind, &informer.build())
        .expect("added");
    let objects = ["r1", "r2", "r3"].map(|name| config(name, 1));
    script.list(objects).await.expect("it runs");
    gate.add_permits(3);
    running.logged().await;
    // Each object is resynced once in a minute, and the first of these calls does not end.
    tokio::time::sleep(2 * minute).await;
    assert!(running.logged().await.starts_with("resynced r"));
    running.apply(config("web", 1)).await;
    settle().await;
    gate.add_permits(1);
    assert_eq!(running.logged().await, "created web=1");
    gate.add_permits(100);
    running.stop().await.expect("it stops");
}

/// Changes have priority over the objects of the first list.
#[tokio::test(start_paused = true)]
async fn a_change_does_not_wait_for_the_first_list() {
    let (running, gate) = gated(Coalescing::WhenFull, 100, 1).await;
    let (script, source) = windlass_informer::Scripted::new();
    let informer = windlass_informer::Informer::new(source);
    (running.rig.controller)
        .add_informer(&running.rig.kind, &informer)
        .expect("added");
    script
        .list(["l1", "l2", "l3"].map(|name| config(name, 1)))
        .await
        .expect("it runs");
    assert_eq!(running.logged().await, "created l1=1");
    running.apply(config("web", 1)).await;
    settle().await;
    gate.add_permits(100);
    assert_eq!(
        running.logged().await,
        "created web=1, created l2=1, created l3=1"
    );
    running.stop().await.expect("it stops");
}
