//! Level-triggered reconcilers: each call gets the newest object of the stores.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use windlass_controller::{InformerController, Outcome, Priority, Reasons, Request};
use windlass_informer::ObjectKey;

use crate::support::{Refused, Rig, ask, config, settle};

fn level(fails: usize) -> Rig {
    let rig = Rig::new(InformerController::builder().level_triggered());
    let (log, left) = (rig.log.clone(), Arc::new(Mutex::new(fails)));
    let reconcile = move |request: Request<_>| {
        log.say(show(&request));
        let mut left = left.lock();
        let fails = *left > 0;
        *left = left.saturating_sub(1);
        async move {
            if fails {
                Err(Refused("not yet"))
            } else {
                Ok(Outcome::done())
            }
        }
    };
    (rig.controller.add_level_reconciler(&rig.kind, reconcile)).expect("a reconciler");
    rig
}

fn show(request: &Request<k8s_openapi::api::core::v1::ConfigMap>) -> String {
    let version = request.object().metadata.resource_version.as_deref();
    let version = version.unwrap_or("-");
    format!("{}@{version} for {}", request.key(), request.reasons())
}

#[tokio::test(start_paused = true)]
async fn a_wake_calls_the_handler_with_the_newest_object() {
    let running = level(0).start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "shop/web@1 for changed");

    let controller = &running.rig.controller;
    let keys = [
        ObjectKey::new("web").within("shop"),
        ObjectKey::new("nothing"),
    ];
    assert_eq!(
        controller.wake(&running.rig.kind, keys, Priority::Live, Reasons::TRIGGER),
        1
    );
    assert_eq!(running.logged().await, "shop/web@1 for trigger");
    assert_eq!(
        controller.wake_all(&running.rig.kind, Priority::Resync, Reasons::TRIGGER),
        1
    );
    assert_eq!(running.logged().await, "shop/web@1 for trigger");
}

#[tokio::test(start_paused = true)]
async fn a_retry_reads_the_store() {
    let running = level(1).start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "shop/web@1 for changed");
    // Not a new generation, and so the retry waits for its backoff.
    running.apply(config("web", 2)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    settle().await;
    let logged = running.logged().await;
    assert!(logged.starts_with("shop/web@2 for "), "{logged}");
}

/// A handler can be woken for an object before the event of its creation.
#[tokio::test(start_paused = true)]
async fn a_delete_is_dispatched_even_if_the_creation_was_not() {
    let builder = InformerController::builder().level_triggered();
    let rig = Rig::new(builder.concurrency(NonZeroUsize::MIN));
    let gate = Arc::new(Semaphore::new(0));
    let (log, pass) = (rig.log.clone(), Arc::clone(&gate));
    let reconcile = move |request: Request<_>| {
        let (log, pass) = (log.clone(), Arc::clone(&pass));
        async move {
            log.say(ask(&request));
            pass.acquire().await.expect("open").forget();
            Ok::<_, Refused>(Outcome::done())
        }
    };
    (rig.controller.add_level_reconciler(&rig.kind, reconcile)).expect("a reconciler");
    let running = rig.start_empty().await;
    running.apply(config("busy", 1)).await;
    assert_eq!(running.logged().await, "created busy=1");
    running.apply(config("web", 1)).await;
    settle().await;
    (running.rig.script.delete(config("web", 2)).await).expect("it runs");
    settle().await;
    gate.add_permits(2);
    assert_eq!(running.logged().await, "deleted web=2");
}
