//! Several informers of one kind, one of which lags behind the others.

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_controller::InformerController;
use windlass_informer::{Informer, Script, Scripted};

use crate::support::{Rig, config, settle};

/// More deletes than are remembered of a kind.
const DELETES: u32 = 10_100;

/// An informer that is silent has not passed the deletes that another one shows. When too many of
/// them are remembered, it lists again. What it shows until then may be what was deleted, so no
/// handler gets it; what is in the list exists, and gets to the handlers, whatever its version.
///
/// D21. Rows: GA-28
#[tokio::test(start_paused = true)]
async fn an_informer_that_lags_lists_again_when_too_many_deletes_are_remembered() {
    let rig = Rig::new(InformerController::builder());
    let (lagging, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    (rig.controller.add_informer(&rig.kind, &informer)).expect("another one of the kind");
    let watcher = rig.log.watcher("w");
    rig.watch(watcher);
    let running = rig.start_empty().await;
    list(&lagging, []).await;

    running.apply(config("late", 1)).await;
    running.delete(config("late", 2)).await;
    assert_eq!(running.logged().await, "w add late=1, w delete late=2");
    for version in (3..).step_by(2).take(DELETES as usize) {
        let name = format!("short-lived-{version}");
        running.apply(config(&name, version)).await;
        running.delete(config(&name, version + 1)).await;
    }
    running.logged().await;

    // From the watch that is then stopped.
    lagging.apply(config("late", 1)).await.expect("it runs");
    assert_eq!(running.logged().await, "");
    list(&lagging, [config("alive", 5)]).await;
    assert_eq!(running.logged().await, "w add alive=5");
    assert!(informer.has_synced());

    // It continues as before.
    let last = 3 + 2 * DELETES;
    lagging.apply(config("alive", last)).await.expect("it runs");
    let updated = format!("w update alive=5 alive={last}");
    assert_eq!(running.logged().await, updated);
    running.stop().await.expect("it stops");
}

/// Every informer has passed the deletes: none lists again, however many they are.
#[tokio::test(start_paused = true)]
async fn informers_that_do_not_lag_do_not_list_again() {
    let rig = Rig::new(InformerController::builder());
    let (other, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    (rig.controller.add_informer(&rig.kind, &informer)).expect("another one of the kind");
    let watcher = rig.log.watcher("w");
    rig.watch(watcher);
    let running = rig.start_empty().await;
    list(&other, []).await;
    for version in (3..).step_by(2).take(DELETES as usize) {
        let name = format!("short-lived-{version}");
        running.apply(config(&name, version)).await;
        running.delete(config(&name, version + 1)).await;
        if version % 1_001 == 0 {
            let heartbeat = config("heartbeat", version + 1);
            other.apply(heartbeat).await.expect("it runs");
        }
    }
    running.logged().await;
    // A source that was started again would drop this.
    let newest = config("heartbeat", 1_000_000);
    other.apply(newest).await.expect("it runs");
    let logged = running.logged().await;
    assert!(logged.ends_with("heartbeat=1000000"), "{logged}");
    running.stop().await.expect("it stops");
}

/// The first informer lags behind one that was added later. The handlers get the newest state with
/// its next event, or when it is removed.
///
/// Rows: GA-28
#[tokio::test(start_paused = true)]
async fn a_newer_state_follows_the_next_event_of_the_first_informer_or_its_removal() {
    for is_removed in [false, true] {
        let rig = Rig::new(InformerController::builder());
        let watcher = rig.log.watcher("w");
        rig.watch(watcher);
        let running = rig.start();
        list(&running.rig.script, [config("web", 1)]).await;
        assert_eq!(running.logged().await, "w add web=1");

        let (ahead, source) = Scripted::<ConfigMap>::new();
        let informer = Informer::new(source);
        let controller = &running.rig.controller;
        (controller.add_informer(&running.rig.kind, &informer)).expect("another one of the kind");
        list(&ahead, [config("web", 3)]).await;
        assert_eq!(running.logged().await, "");
        if is_removed {
            assert!(controller.remove_informer(&running.rig.informer));
            assert_eq!(running.logged().await, "w add web=3");
        } else {
            running.apply(config("web", 2)).await;
            let updated = "w update web=1 web=2, w update web=2 web=3";
            assert_eq!(running.logged().await, updated);
        }
        running.stop().await.expect("it stops");
    }
}

async fn list(script: &Script<ConfigMap>, objects: impl IntoIterator<Item = ConfigMap>) {
    script.list(objects).await.expect("it runs");
    settle().await;
}
