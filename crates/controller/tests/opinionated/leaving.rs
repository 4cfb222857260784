//! Objects that leave the selector of their informer.

use windlass_controller::{Leaving, Watcher as _};

use crate::support::{Rig, pass};

#[tokio::test(start_paused = true)]
async fn what_leaves_the_selector_is_let_go_and_comes_back_as_new() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.said().await;
    rig.world.hide("web").await;
    assert_eq!(rig.said().await, "web []");
    rig.world.show("web").await;
    assert_eq!(rig.said().await, "web [wip], add web=1, web [own]");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn what_leaves_the_selector_is_cleaned_up_if_that_is_wanted() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher().on_leave(Leaving::CleanUp)).await;
    rig.world.create("web", 1).await;
    rig.said().await;
    rig.log.fail("delete");
    rig.world.hide("web").await;
    assert_eq!(rig.said().await, "delete web=1");
    pass(60).await;
    assert_eq!(rig.said().await, "delete web=1, web []");
    running.stop(&rig).await;

    let rig = Rig::new();
    let running = rig
        .reconcile(rig.reconciler().on_leave(Leaving::CleanUp))
        .await;
    rig.world.create("web", 1).await;
    rig.said().await;
    rig.world.hide("web").await;
    assert_eq!(rig.said().await, "deleted web=1, web []");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn what_leaves_the_selector_stays_as_it_is_if_that_is_wanted() {
    let rig = Rig::new();
    let running = rig
        .reconcile(rig.reconciler().on_leave(Leaving::Report))
        .await;
    rig.world.create("web", 1).await;
    rig.said().await;
    rig.world.hide("web").await;
    assert_eq!(rig.said().await, "");
    assert_eq!(rig.world.finalizers("web").await, "own");
    rig.world.show("web").await;
    assert_eq!(rig.said().await, "resynced web=1");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn what_leaves_the_selector_while_it_dies_is_cleaned_up_whatever_is_wanted() {
    for leaving in [Leaving::Release, Leaving::CleanUp, Leaving::Report] {
        let rig = Rig::new();
        let running = rig.watch(rig.watcher().on_leave(leaving)).await;
        rig.world.create("web", 1).await;
        rig.said().await;
        rig.log.fail("delete");
        rig.world.delete("web").await;
        assert_eq!(rig.said().await, "delete web=1");
        rig.world.hide("web").await;
        pass(60).await;
        assert_eq!(rig.said().await, "delete web=1, web []", "{leaving:?}");
        running.stop(&rig).await;
    }
}

/// Rows: GA-82
#[tokio::test(start_paused = true)]
async fn a_real_delete_is_told_to_nobody() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.said().await;
    // By hand, as of an object that is nowhere.
    let mut last = k8s_openapi::api::coordination::v1::Lease::default();
    last.metadata.name = Some("nowhere".to_owned());
    last.metadata.namespace = Some("shop".to_owned());
    last.metadata.uid = Some("uid".to_owned());
    last.metadata.finalizers = Some(vec![crate::world::OWN.to_owned()]);
    rig.watcher()
        .delete(last.into())
        .await
        .expect("nothing to do");
    assert_eq!(rig.said().await, "");
    running.stop(&rig).await;
}
