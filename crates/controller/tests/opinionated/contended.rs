//! Other writers that write at the same time.

use std::error::Error as _;

use windlass_controller::InformerController;

use crate::{
    support::{Rig, pass},
    world::Fault,
};

#[tokio::test(start_paused = true)]
async fn a_lost_race_is_retried_and_keeps_the_write_of_the_other_client() {
    let rig = Rig::new();
    rig.world.plan(Fault::Races(1, "test.windlass.dev/a")).await;
    rig.world.plan(Fault::Races(3, "test.windlass.dev/b")).await;
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    let logged = rig.logged().await;
    assert!(
        logged.starts_with("web [a wip], add web=1, web [a own b]"),
        "{logged}"
    );
    assert_eq!(rig.world.finalizers("web").await, "a own b");
    rig.world.plan(Fault::Races(5, "test.windlass.dev/c")).await;
    rig.world.delete("web").await;
    rig.logged().await;
    assert_eq!(rig.world.finalizers("web").await, "a b c");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn races_without_end_are_an_error_and_not_a_loop() {
    let rig = Rig::new();
    rig.world.plan(Fault::RacesUntil(8)).await;
    let controller = reporting(&rig);
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_watcher(&leases, rig.watcher());
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.world.create("web", 1).await;
    // Eight tries, without waiting; then the retry policy decides.
    let all = "x1 x2 x3 x4 x5 x6 x7 x8";
    let own = "finalizer test.windlass.dev/own of shop/web";
    pass(6).await;
    let logged = rig.logged().await;
    assert!(
        logged.starts_with(&format!(
            "cannot write {own}: other writers, or a mutating webhook, changed its finalizers during each of 8 attempts, web [{all} wip], add web=1, web [{all} own]"
        )),
        "{logged}"
    );
    running.stop(&rig).await;
}

/// A controller that logs each error that it reports.
fn reporting(rig: &Rig) -> InformerController {
    let log = rig.log.clone();
    let controller = InformerController::builder()
        .on_error(move |report| log.say(report.error.source().expect("ours")))
        .build();
    controller.expect("good settings")
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_retried_immediately_and_not_reported() {
    let rig = Rig::new();
    rig.world.plan(Fault::Conflicts(1)).await;
    rig.world.plan(Fault::Conflicts(3)).await;
    let controller = reporting(&rig);
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_watcher(&leases, rig.watcher());
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], add web=1, web [own]");
    rig.world.plan(Fault::Conflicts(5)).await;
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "delete web=1, web []");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_write_to_a_removed_object_is_no_error() {
    let rig = Rig::new();
    // Before the first patch: the object was never passed on as added. A clean-up may come for an
    // object whose add did not succeed.
    rig.world.plan(Fault::Vanishes(1)).await;
    let controller = reporting(&rig);
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_watcher(&leases, rig.watcher());
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "delete web=1");

    // After the add: its clean-up runs with the last state.
    rig.world.plan(Fault::Vanishes(3)).await;
    rig.world.create("blog", 2).await;
    assert_eq!(rig.logged().await, "blog [wip], add blog=2, delete blog=2");
    running.stop(&rig).await;
}

/// Only the `Status` of an API server says that an object does not exist. A proxy can answer 404 by
/// mistake, for example while it has no healthy backend.
#[tokio::test(start_paused = true)]
async fn a_404_of_a_proxy_is_retried_so_that_no_add_and_no_clean_up_is_lost() {
    for write in 1..=3 {
        let rig = Rig::new();
        rig.world.plan(Fault::MisroutedByProxy(write)).await;
        let running = rig.watch(rig.watcher()).await;
        rig.world.create("web", 1).await;
        pass(6).await;
        let added = rig.logged().await;
        assert!(
            added.starts_with("web [wip], add web=1"),
            "write {write}: {added}"
        );
        assert!(added.ends_with("web [own]"), "write {write}: {added}");
        rig.world.delete("web").await;
        pass(6).await;
        let deleted = rig.logged().await;
        assert!(
            deleted.starts_with("delete web=1"),
            "write {write}: {deleted}"
        );
        assert_eq!(rig.world.finalizers("web").await, "gone", "write {write}");
        running.stop(&rig).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_no_race_is_an_error_at_once() {
    let rig = Rig::new();
    rig.world.plan(Fault::Refused(1)).await;
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    // One try, and not eight: the next is for the retry policy.
    assert_eq!(rig.logged().await, "");
    pass(6).await;
    assert_eq!(rig.logged().await, "web [wip], add web=1, web [own]");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_recreated_object_is_distinguished_from_the_deleted_one() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.plan(Fault::Reborn(2)).await;
    rig.world.create("web", 1).await;
    // The finalizer of the first was to be written, and the second is there without any: it
    // is left alone until its event comes, and then begins anew.
    assert_eq!(
        rig.logged().await,
        "web [wip], add web=1, delete web=1, web [wip], add web=1, web [own]"
    );
    running.stop(&rig).await;

    let rig = Rig::new();
    let running = rig.reconcile(rig.reconciler()).await;
    rig.world.plan(Fault::Reborn(2)).await;
    rig.world.create("web", 1).await;
    assert_eq!(
        rig.logged().await,
        "web [wip], created web=1, deleted web=1, web [wip], created web=1, web [own]"
    );
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_recreated_object_with_the_same_finalizers_is_distinguished() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.plan(Fault::RebornAlike(2)).await;
    rig.world.create("web", 1).await;
    // The second was never added, whatever it carries.
    assert_eq!(
        rig.logged().await,
        "web [wip], add web=1, delete web=1, add web=1, web [own]"
    );
    rig.world.plan(Fault::RebornAlike(4)).await;
    rig.world.delete("web").await;
    // The first was cleaned up after; the finalizer of the second stays.
    assert_eq!(rig.logged().await, "delete web=1, sync web=1");
    assert_eq!(rig.world.finalizers("web").await, "own");
    running.stop(&rig).await;
}

/// The clean-up was of an object that exists again: its finalizer stays.
#[tokio::test(start_paused = true)]
async fn the_finalizer_of_an_object_that_a_restore_brought_back_stays() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.plan(Fault::Restored(3)).await;
    rig.world.delete("web").await;
    let logged = rig.logged().await;
    assert!(logged.starts_with("delete web=1"), "{logged}");
    assert!(!logged.contains("web []"), "{logged}");
    assert_eq!(rig.world.finalizers("web").await, "own");
    running.stop(&rig).await;
}

/// This holds for any cause of the conflict, which no event shows.
#[tokio::test(start_paused = true)]
async fn a_finalizer_is_removed_after_a_conflict() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.plan(Fault::Conflicts(3)).await;
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "delete web=1, web []");
    assert_eq!(rig.world.finalizers("web").await, "gone");
    running.stop(&rig).await;
}

/// A mutating webhook is another writer whose change is a part of the answer.
#[tokio::test(start_paused = true)]
async fn a_patch_that_the_server_accepts_and_a_webhook_undoes_is_sent_again() {
    let rig = Rig::new();
    for undone in [1, 3, 5] {
        rig.world.plan(Fault::Undone(undone)).await;
    }
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], add web=1, web [own]");
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "delete web=1, web []");
    assert_eq!(rig.world.finalizers("web").await, "gone");
    running.stop(&rig).await;
}
