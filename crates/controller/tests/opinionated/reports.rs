//! Retry policies, hooks and dead letters have the action that the inner handler has received.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use windlass_controller::{
    Action, DeadLetter, ErrorReport, InformerController, OpinionatedReconciler, OpinionatedWatcher,
    Outcome, Request, SimpleWatcher,
};

use crate::{
    support::{Rig, Running, builder, pass, word},
    world::Fault,
};

/// How a call of the inner handler fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    Errors,
    Panics,
    TimesOut,
}

/// Starts an operator whose policy repeats each `retried` action after a minute.
async fn start(
    rig: &Rig,
    retried: Action,
    is_watcher: bool,
    failing: Failing,
) -> (InformerController, Running) {
    let (reports, letters, log) = (rig.log.clone(), rig.log.clone(), rig.log.clone());
    let controller = builder()
        .timeout(Duration::from_secs(10))
        .retry_policy(move |failed: &ErrorReport<'_>| {
            (failed.action == retried).then_some(Duration::from_secs(60))
        })
        .on_error(move |failed| reports.say(format_args!("failed {}", word(failed.action))))
        .on_exhausted(move |letter: DeadLetter| {
            letters.say(format_args!("dead {}", word(letter.action)));
            std::future::ready(())
        })
        .build()
        .expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let call = move |action: Action| {
        let word = word(action);
        let result = log.call(word, word);
        async move {
            match (result, failing) {
                (Err(_), Failing::Panics) => panic!("no"),
                (Err(_), Failing::TimesOut) => std::future::pending().await,
                (result, _) => result,
            }
        }
    };
    let added = if is_watcher {
        let (add, update, delete) = (call.clone(), call.clone(), call);
        let watcher = SimpleWatcher::new()
            .on_add(move |_: Arc<Lease>| add(Action::Created))
            .on_update(move |_: Arc<Lease>, _: Arc<Lease>| update(Action::Updated))
            .on_delete(move |_: Arc<Lease>| delete(Action::Deleted));
        let watcher = OpinionatedWatcher::new(rig.finalizers(), watcher);
        controller.add_watcher(&leases, watcher)
    } else {
        let reconciler = move |request: Request<Lease>| {
            let called = call(request.action());
            async move { called.await.map(|()| Outcome::done()) }
        };
        let reconciler = OpinionatedReconciler::new(rig.finalizers(), reconciler);
        controller.add_reconciler(&leases, reconciler)
    };
    added.expect("added");
    let running = rig.start(controller.clone(), &leases, None).await;
    (controller, running)
}

/// The wrapper receives `Updated` for an object that is marked for deletion.
#[tokio::test(start_paused = true)]
async fn a_policy_repeats_the_clean_up_by_its_action() {
    for failing in [Failing::Errors, Failing::Panics, Failing::TimesOut] {
        for is_watcher in [true, false] {
            let rig = Rig::new();
            let (controller, running) = start(&rig, Action::Deleted, is_watcher, failing).await;
            rig.world.create("web", 1).await;
            rig.logged().await;
            rig.log.fail("deleted");
            rig.log.fail("deleted");
            rig.world.delete("web").await;
            pass(600).await;
            assert_eq!(
                rig.logged().await,
                "deleted, failed deleted, deleted, failed deleted, deleted, web []",
                "{failing:?}, watcher: {is_watcher}"
            );
            assert!(controller.dead_letters().is_empty());
            running.stop(&rig).await;
        }
    }
}

/// A redrive repeats the clean-up, although the event of the dead letter was an update.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_has_the_action_of_the_inner_call() {
    for is_watcher in [true, false] {
        let rig = Rig::new();
        let (controller, running) =
            start(&rig, Action::Resynced, is_watcher, Failing::Errors).await;
        rig.log.fail("created");
        rig.log.fail("created");
        rig.world.create("web", 1).await;
        let failed = "created, failed created, dead created";
        assert_eq!(rig.logged().await, format!("web [wip], {failed}"));
        rig.world.update("web", 2).await;
        assert_eq!(rig.logged().await, failed, "watcher: {is_watcher}");
        rig.log.fail("deleted");
        rig.world.delete("web").await;
        let failed = "deleted, failed deleted, dead deleted";
        assert_eq!(rig.logged().await, failed, "watcher: {is_watcher}");
        let letters = controller.dead_letters();
        assert_eq!(letters.len(), 1);
        assert_eq!(letters[0].action, Action::Deleted);
        assert!(controller.redrive(&letters[0]));
        assert_eq!(rig.logged().await, "deleted, web []");
        assert_eq!(rig.world.finalizers("web").await, "gone");
        running.stop(&rig).await;
    }
}

/// The removal of the finalizer is a part of the clean-up.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_is_not_removed_is_reported_with_the_clean_up() {
    let rig = Rig::new();
    let (_, running) = start(&rig, Action::Resynced, false, Failing::Errors).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    for number in 3..5 {
        rig.world.plan(Fault::Fails(number)).await;
    }
    rig.world.delete("web").await;
    pass(60).await;
    let reported = "deleted, failed deleted, failed deleted, web []";
    assert_eq!(rig.logged().await, reported);
    running.stop(&rig).await;
}
