//! An operator that crashes after each of its writes.

use tokio::time::timeout;

use crate::{
    support::{Rig, Running, pass},
    world::Fault,
};

/// The lifecycle of one object. `crash` is the number of the write after which the operator
/// crashes.
async fn lifecycle<F>(crash: u32, start: impl Fn() -> F, rig: &Rig) -> String
where
    F: Future<Output = Running>,
{
    rig.world.plan(Fault::CrashAfter(crash)).await;
    let mut running = start().await;
    for step in ["create", "update", "delete"] {
        match step {
            "create" => rig.world.create("web", 1).await,
            "update" => rig.world.update("web", 2).await,
            _ => rig.world.delete("web").await,
        }
        let hour = std::time::Duration::from_secs(3600);
        if timeout(hour, rig.world.crash.notified()).await.is_ok() {
            running.crash(rig).await;
            running = start().await;
            pass(3600).await;
        }
        if step != "delete" {
            assert_eq!(
                rig.world.finalizers("web").await,
                "own",
                "crash {crash}, {step}"
            );
        }
    }
    assert_eq!(rig.world.finalizers("web").await, "gone", "crash {crash}");
    running.stop(rig).await;
    rig.logged().await
}

/// Rows: GA-75
#[tokio::test(start_paused = true)]
async fn a_watcher_that_crashes_after_any_write_misses_no_change() {
    for (crash, logged) in [
        (
            1,
            "web [wip], add web=1, web [own], update web=1 web=2, delete web=2, web []",
        ),
        (
            2,
            "web [wip], add web=1, web [own], sync web=1, update web=1 web=2, delete web=2, web []",
        ),
        (
            3,
            "web [wip], add web=1, web [own], update web=1 web=2, delete web=2, web []",
        ),
    ] {
        let rig = Rig::new();
        let lived = lifecycle(crash, || rig.watch(rig.watcher()), &rig).await;
        assert_eq!(lived, logged, "crash {crash}");
    }
}

/// Rows: GA-71
#[tokio::test(start_paused = true)]
async fn a_reconciler_that_crashes_after_any_write_misses_no_change() {
    for (crash, logged) in [
        (
            1,
            "web [wip], created web=1, web [own], updated web=2, deleted web=2, web []",
        ),
        (
            2,
            "web [wip], created web=1, web [own], resynced web=1, updated web=2, deleted web=2, web []",
        ),
        (
            3,
            "web [wip], created web=1, web [own], updated web=2, deleted web=2, web []",
        ),
    ] {
        let rig = Rig::new();
        let lived = lifecycle(crash, || rig.reconcile(rig.reconciler()), &rig).await;
        assert_eq!(lived, logged, "crash {crash}");
    }
}
