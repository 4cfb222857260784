//! A reconciler whose finalizer is written before its first call.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use windlass_controller::{
    FinalizerTiming, OnSelectorExit, OpinionatedReconciler, Outcome, Reconciler, Request, State,
};

use crate::{
    support::{Refused, Rig, pass, word},
    world::{Fault, short},
};

/// A wrapped reconciler that says which finalizers each object has.
fn early(rig: &Rig) -> OpinionatedReconciler<Lease, impl Reconciler<Lease> + use<>> {
    let log = rig.log.clone();
    let reconciler = move |request: Request<Lease>| {
        let word = word(request.action());
        let done = log.call(
            word,
            format_args!("{word} with [{}]", short(request.object())),
        );
        async move { done.map(|()| Outcome::done()) }
    };
    OpinionatedReconciler::new(rig.finalizers(), reconciler)
        .finalizer_timing(FinalizerTiming::BeforeFirstCall)
}

#[tokio::test(start_paused = true)]
async fn the_first_call_has_the_object_with_the_finalizer_after_one_patch() {
    let rig = Rig::new();
    let running = rig.reconcile(early(&rig)).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [own], created with [own]");
    pass(3600).await;
    assert_eq!(
        rig.logged().await,
        "",
        "the event of the patch is no change"
    );
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "updated with [own]");
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "deleted with [own], web []");
    pass(3600).await;
    assert_eq!(rig.logged().await, "");
    assert_eq!(rig.world.finalizers("web").await, "gone");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_first_call_that_fails_is_repeated_as_created() {
    let rig = Rig::new();
    let running = rig.reconcile(early(&rig)).await;
    rig.log.fail("created");
    rig.log.fail("created");
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [own], created with [own]");
    // A new generation ends the backoff.
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "created with [own]");
    pass(5).await;
    assert_eq!(rig.logged().await, "created with [own]");
    rig.world.update("web", 3).await;
    assert_eq!(rig.logged().await, "updated with [own]");
    running.stop(&rig).await;
    // Another process only sees that it has the finalizer.
    let running = rig.reconcile(early(&rig)).await;
    assert_eq!(rig.logged().await, "resynced with [own]");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_could_not_be_written_is_written_before_the_first_call() {
    for (fault, logged) in [
        (Fault::Fails(1), "web [own], created with [own]"),
        (Fault::LosesReply(1), "created with [own]"),
    ] {
        let rig = Rig::new();
        rig.world.plan(fault.clone()).await;
        let running = rig.reconcile(early(&rig)).await;
        rig.world.create("web", 1).await;
        rig.logged().await;
        pass(5).await;
        assert_eq!(rig.logged().await, logged, "{fault:?}");
        pass(3600).await;
        assert_eq!(rig.logged().await, "", "{fault:?}");
        running.stop(&rig).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_another_writer_removed_is_added_before_the_next_call() {
    let rig = Rig::new();
    let running = rig.reconcile(early(&rig)).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.set_finalizers("web", &[]).await;
    assert_eq!(rig.logged().await, "web [own], updated with [own]");
    // Also before the first call has succeeded.
    rig.log.fail("created");
    rig.world.create("api", 1).await;
    assert_eq!(rig.logged().await, "api [own], created with [own]");
    rig.world.set_finalizers("api", &[]).await;
    assert_eq!(rig.logged().await, "api [own], created with [own]");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_clean_up_that_has_not_finished_keeps_the_finalizer() {
    let rig = Rig::new();
    let log = rig.log.clone();
    let patient = move |request: Request<Lease>| {
        log.say(word(request.action()));
        let unfinished = word(request.action()) == "deleted" && request.state().is_none();
        let outcome = if unfinished {
            Outcome::requeue_after(Duration::from_secs(30)).state(State::new(()))
        } else {
            Outcome::done()
        };
        async { Ok::<_, Refused>(outcome) }
    };
    let reconciler = OpinionatedReconciler::new(rig.finalizers(), patient)
        .finalizer_timing(FinalizerTiming::BeforeFirstCall);
    let running = rig.reconcile(reconciler).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [own], created");
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "deleted");
    pass(28).await;
    assert_eq!(rig.world.finalizers("web").await, "own");
    pass(2).await;
    assert_eq!(rig.logged().await, "deleted, web []");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_terminating_object_without_our_finalizer_gets_no_patch_and_no_call() {
    let rig = Rig::new();
    let running = rig.reconcile(early(&rig)).await;
    let pause = rig.world.pause().await;
    rig.world.create("web", 1).await;
    rig.world
        .set_finalizers("web", &["test.windlass.dev/theirs"])
        .await;
    rig.world.delete("web").await;
    rig.world.tell(pause).await;
    pass(3600).await;
    assert_eq!(rig.logged().await, "");
    assert_eq!(rig.world.finalizers("web").await, "theirs");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_before_the_first_call_has_succeeded_is_cleaned_up() {
    let rig = Rig::new();
    let running = rig.reconcile(early(&rig)).await;
    rig.log.fail("created");
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "deleted with [own], web []");
    // Another writer removes the finalizer, and the object is deleted before its clean-up.
    rig.log.fail("created");
    rig.world.create("api", 1).await;
    rig.logged().await;
    rig.world.remove("api").await;
    assert_eq!(rig.logged().await, "deleted with [own]");
    pass(3600).await;
    assert_eq!(rig.logged().await, "");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selector_and_returns_is_new() {
    for (exit, left) in [
        (OnSelectorExit::Release, "web []"),
        (OnSelectorExit::CleanUp, "deleted with [own], web []"),
    ] {
        let rig = Rig::new();
        let running = rig.reconcile(early(&rig).on_selector_exit(exit)).await;
        rig.world.create("web", 1).await;
        rig.logged().await;
        rig.world.hide("web").await;
        assert_eq!(rig.logged().await, left);
        rig.world.show("web").await;
        assert_eq!(rig.logged().await, "web [own], created with [own]");
        rig.world.delete("web").await;
        assert_eq!(rig.logged().await, "deleted with [own], web []");
        running.stop(&rig).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_in_progress_finalizer_of_the_other_setting_becomes_the_finalizer() {
    let rig = Rig::new();
    let running = rig.reconcile(rig.reconciler()).await;
    rig.log.fail("created");
    rig.world.create("web", 1).await;
    rig.logged().await;
    assert_eq!(rig.world.finalizers("web").await, "wip");
    running.stop(&rig).await;
    let running = rig.reconcile(early(&rig)).await;
    assert_eq!(rig.logged().await, "web [own], created with [own]");
    running.stop(&rig).await;
}

/// An object that was deleted while it had the finalizer, and then restored from a backup.
#[tokio::test(start_paused = true)]
async fn an_object_of_a_restored_server_is_created_again() {
    let rig = Rig::new();
    rig.world.plan(Fault::Restored(2)).await;
    let running = rig.reconcile(early(&rig)).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "deleted with [own], created with [own]");
    assert_eq!(rig.world.finalizers("web").await, "own");
    running.stop(&rig).await;
}
