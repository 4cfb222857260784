//! What a wrapper remembers belongs to one life of an object: one uid, and one stay in the selector.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use windlass_controller::{
    Action, Failure, FinalizerTiming, OnSelectorExit, Reconciler, Request, Watcher,
};

use crate::{
    support::{Rig, Running, pass},
    world::Fault,
};

/// The wrappers: a watcher, a reconciler, and a reconciler with the finalizer before its first call.
const KINDS: [&str; 3] = ["watcher", "reconciler", "early"];

async fn start(rig: &Rig, kind: &str, exit: OnSelectorExit) -> Running {
    match kind {
        "watcher" => rig.watch(rig.watcher().on_selector_exit(exit)).await,
        "reconciler" => rig.reconcile(rig.reconciler().on_selector_exit(exit)).await,
        _ => {
            let early = rig
                .reconciler()
                .finalizer_timing(FinalizerTiming::BeforeFirstCall);
            rig.reconcile(early.on_selector_exit(exit)).await
        }
    }
}

fn words(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "watcher" => ("add", "delete"),
        _ => ("created", "deleted"),
    }
}

/// An object returns to the selector, and its new add fails.
async fn second_life(rig: &Rig, kind: &str) {
    let (add, _) = words(kind);
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.hide("web").await;
    rig.logged().await;
    assert_eq!(rig.world.finalizers("web").await, "");
    rig.log.fail(add);
    rig.world.show("web").await;
    let logged = rig.logged().await;
    assert!(logged.contains(&format!("{add} web=1")), "{kind} {logged}");
}

/// Rows: GA-76
#[tokio::test(start_paused = true)]
async fn a_second_life_whose_add_failed_is_cleaned_up() {
    for kind in KINDS {
        for exit in [OnSelectorExit::Release, OnSelectorExit::CleanUp] {
            let (_, delete) = words(kind);
            let rig = Rig::new();
            let running = start(&rig, kind, exit).await;
            second_life(&rig, kind).await;
            rig.world.delete("web").await;
            let logged = rig.logged().await;
            assert_eq!(logged, format!("{delete} web=1, web []"), "{kind} {exit:?}");
            running.stop(&rig).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_life_whose_add_failed_leaves_no_finalizer_outside_of_the_selector() {
    for kind in KINDS {
        for exit in [OnSelectorExit::Release, OnSelectorExit::CleanUp] {
            let (_, delete) = words(kind);
            let rig = Rig::new();
            let running = start(&rig, kind, exit).await;
            second_life(&rig, kind).await;
            rig.world.hide("web").await;
            let logged = rig.logged().await;
            let cleaned_up = logged.contains(delete);
            assert_eq!(cleaned_up, exit == OnSelectorExit::CleanUp, "{logged}");
            assert_eq!(rig.world.finalizers("web").await, "", "{kind} {exit:?}");
            running.stop(&rig).await;
        }
    }
}

/// The response to the patch that begins the second life is lost.
#[tokio::test(start_paused = true)]
async fn a_second_life_whose_first_patch_failed_leaves_no_finalizer() {
    for kind in KINDS {
        let rig = Rig::new();
        let running = start(&rig, kind, OnSelectorExit::Release).await;
        rig.world.create("web", 1).await;
        rig.logged().await;
        rig.world.hide("web").await;
        rig.logged().await;
        let writes = rig.world.writes().await;
        rig.world.plan(Fault::LosesReply(writes + 1)).await;
        rig.world.show("web").await;
        rig.logged().await;
        rig.world.hide("web").await;
        rig.logged().await;
        assert_eq!(rig.world.finalizers("web").await, "", "{kind}");
        running.stop(&rig).await;
    }
}

/// A wrapper that receives calls directly.
enum Direct<W, R> {
    Watcher(W),
    Reconciler(R),
}

impl<W, R> Direct<W, R>
where
    W: Watcher<Lease, Error = Failure>,
    R: Reconciler<Lease, Error = Failure>,
{
    async fn call(&self, action: Action, object: &Arc<Lease>) -> Result<(), Failure> {
        let object = Arc::clone(object);
        match (self, action) {
            (Self::Watcher(watcher), Action::Created) => watcher.add(object).await,
            (Self::Watcher(watcher), Action::Deleted) => watcher.delete(object).await,
            (Self::Watcher(watcher), _) => watcher.resync(object).await,
            (Self::Reconciler(reconciler), _) => {
                let request = Request::new(action, object);
                reconciler.reconcile(request).await.map(drop)
            }
        }
    }
}

/// The object is cleaned up outside of the selector, and then an informer that lags shows an older
/// state: nothing is called for it any more.
#[tokio::test(start_paused = true)]
async fn there_is_no_life_after_a_clean_up() {
    for is_watcher in [true, false] {
        for exit in [OnSelectorExit::Release, OnSelectorExit::CleanUp] {
            let rig = Rig::new();
            let wrapped = if is_watcher {
                Direct::Watcher(rig.watcher().sync_to_add().on_selector_exit(exit))
            } else {
                Direct::Reconciler(rig.reconciler().on_selector_exit(exit))
            };
            rig.world.create("web", 1).await;
            let created = rig.world.object("web").await;
            wrapped
                .call(Action::Created, &created)
                .await
                .expect("added");
            let held = rig.world.object("web").await;
            rig.world.delete("web").await;
            rig.logged().await;
            wrapped.call(Action::Deleted, &held).await.expect("deleted");
            let logged = rig.logged().await;
            assert!(logged.ends_with("web=1, web []"), "{logged}");
            assert_eq!(rig.world.finalizers("web").await, "gone");
            for lagging in [&created, &held] {
                for action in [Action::Resynced, Action::Created, Action::Deleted] {
                    wrapped.call(action, lagging).await.expect("ignored");
                    assert_eq!(rig.logged().await, "", "{action:?}");
                }
            }
        }
    }
}

/// D21: another writer has changed the object before the first patch, and the watch lags.
#[tokio::test(start_paused = true)]
async fn the_retry_of_a_clean_up_has_no_older_state() {
    for is_watcher in [true, false] {
        let rig = Rig::new();
        let wrapped = if is_watcher {
            Direct::Watcher(rig.watcher())
        } else {
            Direct::Reconciler(rig.reconciler())
        };
        rig.world.create("web", 1).await;
        let old = rig.world.object("web").await;
        // Both the create and the test of the patch have to see the change.
        rig.world.update("web", 2).await;
        wrapped.call(Action::Created, &old).await.expect("added");
        rig.world.remove("web").await;
        rig.logged().await;
        let (_, delete) = words(if is_watcher { "watcher" } else { "reconciler" });
        for _ in 0..3 {
            rig.log.fail(delete);
            wrapped
                .call(Action::Deleted, &old)
                .await
                .expect_err("fails");
            assert_eq!(rig.logged().await, format!("{delete} web=2"));
        }
        wrapped.call(Action::Deleted, &old).await.expect("succeeds");
        assert_eq!(rig.logged().await, format!("{delete} web=2"));
        pass(1).await;
    }
}
