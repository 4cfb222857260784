//! Objects that leave the selector of their informer.

use windlass_controller::OnSelectorExit;

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
    let running = rig
        .watch(rig.watcher().on_selector_exit(OnSelectorExit::CleanUp))
        .await;
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
        .reconcile(rig.reconciler().on_selector_exit(OnSelectorExit::CleanUp))
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
        .reconcile(rig.reconciler().on_selector_exit(OnSelectorExit::Report))
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
    for leaving in [
        OnSelectorExit::Release,
        OnSelectorExit::CleanUp,
        OnSelectorExit::Report,
    ] {
        let rig = Rig::new();
        let running = rig.watch(rig.watcher().on_selector_exit(leaving)).await;
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
    rig.world.delete("web").await;
    // Once: the object is gone when its clean-up has succeeded.
    assert_eq!(rig.said().await, "delete web=1, web []");
    assert_eq!(rig.world.finalizers("web").await, "gone");
    pass(60).await;
    assert_eq!(rig.said().await, "");
    running.stop(&rig).await;
}
