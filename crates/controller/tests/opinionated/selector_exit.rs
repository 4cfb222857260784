//! Objects that leave the selector of their informer.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use windlass_controller::{OnSelectorExit, OpinionatedReconciler, Outcome, Request, State};

use crate::{
    lines::Lines,
    support::{Refused, Rig, pass, show, word},
    world::OWN,
};

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selector_is_released_and_returns_as_new() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.hide("web").await;
    assert_eq!(rig.logged().await, "web []");
    rig.world.show("web").await;
    assert_eq!(rig.logged().await, "web [wip], add web=1, web [own]");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selector_is_cleaned_up_if_configured() {
    let rig = Rig::new();
    let running = rig
        .watch(rig.watcher().on_selector_exit(OnSelectorExit::CleanUp))
        .await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.log.fail("delete");
    rig.world.hide("web").await;
    assert_eq!(rig.logged().await, "delete web=1");
    pass(60).await;
    assert_eq!(rig.logged().await, "delete web=1, web []");
    running.stop(&rig).await;

    let rig = Rig::new();
    let running = rig
        .reconcile(rig.reconciler().on_selector_exit(OnSelectorExit::CleanUp))
        .await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.hide("web").await;
    assert_eq!(rig.logged().await, "deleted web=1, web []");
    running.stop(&rig).await;
}

/// A clean-up that failed may have removed a part of what the add has created.
#[tokio::test(start_paused = true)]
async fn an_object_that_returns_after_a_failed_clean_up_is_added_again() {
    const EXIT: OnSelectorExit = OnSelectorExit::CleanUp;
    for is_watcher in [true, false] {
        let rig = Rig::new();
        let (running, add, delete) = if is_watcher {
            let running = rig.watch(rig.watcher().on_selector_exit(EXIT)).await;
            (running, "add", "delete")
        } else {
            let running = rig.reconcile(rig.reconciler().on_selector_exit(EXIT)).await;
            (running, "created", "deleted")
        };
        rig.world.create("web", 1).await;
        rig.logged().await;
        rig.log.fail(delete);
        rig.world.hide("web").await;
        assert_eq!(rig.logged().await, format!("{delete} web=1"));
        rig.world.show("web").await;
        assert_eq!(rig.logged().await, format!("{add} web=1"));
        assert_eq!(rig.world.finalizers("web").await, "own");
        rig.world.update("web", 2).await;
        assert!(rig.logged().await.starts_with("update"));
        rig.world.delete("web").await;
        assert_eq!(rig.logged().await, format!("{delete} web=2, web []"));
        running.stop(&rig).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selector_is_unchanged_if_configured() {
    let rig = Rig::new();
    let running = rig
        .reconcile(rig.reconciler().on_selector_exit(OnSelectorExit::Report))
        .await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    let (lines, guard) = Lines::listen();
    rig.world.hide("web").await;
    assert_eq!(rig.logged().await, "");
    assert_eq!(rig.world.finalizers("web").await, "own");
    drop(guard);
    let all = lines.all();
    let is_report = |line: &&String| line.contains("left the selector with our finalizer");
    let reports: Vec<_> = all.iter().filter(is_report).collect();
    assert_eq!(reports.len(), 1, "{all:#?}");
    for part in ["ERROR", "key=shop/web", OWN] {
        assert!(reports[0].contains(part), "no {part} in {}", reports[0]);
    }
    rig.world.show("web").await;
    assert_eq!(rig.logged().await, "resynced web=1");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_terminating_object_that_leaves_the_selector_is_always_cleaned_up() {
    for leaving in [
        OnSelectorExit::Release,
        OnSelectorExit::CleanUp,
        OnSelectorExit::Report,
    ] {
        let rig = Rig::new();
        let running = rig.watch(rig.watcher().on_selector_exit(leaving)).await;
        rig.world.create("web", 1).await;
        rig.logged().await;
        rig.log.fail("delete");
        rig.world.delete("web").await;
        assert_eq!(rig.logged().await, "delete web=1");
        rig.world.hide("web").await;
        pass(60).await;
        assert_eq!(rig.logged().await, "delete web=1, web []", "{leaving:?}");
        running.stop(&rig).await;
    }
}

/// Rows: GA-82
#[tokio::test(start_paused = true)]
async fn a_real_delete_is_not_reported_as_a_selector_exit() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.delete("web").await;
    // Once: the object is deleted when its clean-up has succeeded.
    assert_eq!(rig.logged().await, "delete web=1, web []");
    assert_eq!(rig.world.finalizers("web").await, "gone");
    pass(60).await;
    assert_eq!(rig.logged().await, "");
    running.stop(&rig).await;
}

/// Until then the object is held, so that a crash does not lose the clean-up.
#[tokio::test(start_paused = true)]
async fn the_finalizer_stays_until_the_clean_up_after_a_selector_exit_is_done() {
    let rig = Rig::new();
    let log = rig.log.clone();
    let twice = move |request: Request<Lease>| {
        let line = format!("{} {}", word(request.action()), show(request.object()));
        log.say(&line);
        let is_first = request.state().is_none() && line.starts_with("deleted");
        async move {
            Ok::<_, Refused>(if is_first {
                Outcome::requeue_after(Duration::from_secs(10)).state(State::new(()))
            } else {
                Outcome::done()
            })
        }
    };
    let wrapped = OpinionatedReconciler::new(rig.finalizers(), twice);
    let running = rig
        .reconcile(wrapped.on_selector_exit(OnSelectorExit::CleanUp))
        .await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.hide("web").await;
    assert_eq!(rig.logged().await, "deleted web=1");
    assert_eq!(rig.world.finalizers("web").await, "own");
    pass(10).await;
    assert_eq!(rig.logged().await, "deleted web=1, web []");
    running.stop(&rig).await;
}
