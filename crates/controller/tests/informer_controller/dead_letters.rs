//! Dead letters: which events make them obsolete, and what a redrive calls.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_controller::{
    Action, DeadLetter, DeleteRetry, InformerController, InformerControllerBuilder, NeverRetry,
    Outcome, Reconciler, Request, Watcher,
};
use windlass_informer::Event;

use crate::support::{Log, Refused, Rig, ask, config, pass, reborn};

fn never_retries() -> InformerControllerBuilder {
    InformerController::builder()
        .retry_policy(NeverRetry)
        .on_error(|_| {})
}

/// A reconciler that logs its calls, and fails in those with `action`.
fn failing_in(log: &Log, action: Action) -> impl Reconciler<ConfigMap> + use<> {
    let log = log.clone();
    move |request: Request<ConfigMap>| {
        log.say(ask(&request));
        let failed = request.action() == action;
        async move {
            if failed {
                return Err(Refused("no"));
            }
            Ok(Outcome::done())
        }
    }
}

/// D18, D20.
#[tokio::test(start_paused = true)]
async fn a_failed_delete_stays_a_dead_letter_when_the_object_is_recreated() {
    let rig = Rig::new(never_retries());
    rig.reconcile(failing_in(&rig.log, Action::Deleted));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.delete(config("web", 2)).await;
    running.apply(reborn("web", 3)).await;
    assert_eq!(
        running.logged().await,
        "created web=1, deleted web=2, created web=3"
    );
    let controller = running.rig.controller.clone();
    let letters = controller.dead_letters();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].action, Action::Deleted);
    assert!(controller.redrive(&letters[0]));
    assert_eq!(running.logged().await, "deleted web=2");
    running.stop().await.expect("it stops");
}

/// A handler that is keyed by name would delete what belongs to the new object. Rows: CK-30
#[tokio::test(start_paused = true)]
async fn a_failed_delete_is_forgotten_when_its_successor_ends_deletes() {
    let rig = Rig::new(never_retries().delete_retry(DeleteRetry::UntilSuccessor));
    rig.reconcile(failing_in(&rig.log, Action::Deleted));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.delete(config("web", 2)).await;
    running.logged().await;
    let controller = running.rig.controller.clone();
    let letters = controller.dead_letters();
    assert_eq!(letters.len(), 1);
    running.apply(reborn("web", 3)).await;
    running.logged().await;
    assert!(!controller.redrive(&letters[0]));
    running.stop().await.expect("it stops");
}

/// D20: also for a handler whose predicate refuses the `Deleted`.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_of_a_deleted_object_is_not_called_again() {
    let rig = Rig::new(never_retries());
    let no_deletes = |event: &Event<ConfigMap>| !matches!(event, Event::Deleted { .. });
    rig.watch(Watcher::filter(rig.log.failing("w", 1), no_deletes));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "w add web=1");
    let controller = running.rig.controller.clone();
    let letters = controller.dead_letters();
    assert_eq!(letters.len(), 1);
    running.delete(config("web", 2)).await;
    assert_eq!(running.logged().await, "");
    assert!(!controller.redrive(&letters[0]));
    assert!(controller.dead_letters().is_empty());
    running.stop().await.expect("it stops");
}

/// The redrive comes after a worker took the `Deleted` and before it calls handlers: when
/// predicates are asked.
#[tokio::test(start_paused = true)]
async fn a_redrive_during_the_dispatch_of_the_delete_causes_no_call_after_it() {
    let rig = Rig::new(never_retries());
    let (controller, result) = (rig.controller.clone(), Arc::new(OnceLock::new()));
    let done = Arc::clone(&result);
    let redrives = move |event: &Event<ConfigMap>| {
        if let Event::Deleted { .. } = event {
            done.get_or_init(|| controller.redrive(&controller.dead_letters()[0]));
        }
        true
    };
    rig.reconcile(failing_in(&rig.log, Action::Created).filter(redrives));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "created web=1");
    running.delete(config("web", 2)).await;
    assert_eq!(running.logged().await, "deleted web=2");
    assert_eq!(result.get(), Some(&true));
    pass(3600).await;
    assert_eq!(running.logged().await, "");
    running.stop().await.expect("it stops");
}

/// The dead letter in the hook is that of its own call, not the first one of the controller.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_can_be_redriven_by_the_hook_that_receives_it() {
    let controller: Arc<OnceLock<InformerController>> = Arc::default();
    let redriven = Arc::new(AtomicBool::new(false));
    let (of_hook, done) = (Arc::clone(&controller), Arc::clone(&redriven));
    let builder = never_retries().on_exhausted(move |letter: DeadLetter| {
        let is_first = letter.key.name() == "b" && !done.swap(true, Ordering::Relaxed);
        if is_first {
            assert!(of_hook.get().expect("it runs").redrive(&letter));
        }
        std::future::ready(())
    });
    let rig = Rig::new(builder);
    rig.reconcile(failing_in(&rig.log, Action::Created));
    assert!(controller.set(rig.controller.clone()).is_ok());
    let running = rig.start_empty().await;
    running.apply(config("a", 1)).await;
    running.apply(config("b", 1)).await;
    pass(60).await;
    assert_eq!(
        running.logged().await,
        "created a=1, created b=1, created b=1"
    );
    running.stop().await.expect("it stops");
}

/// The letters of two controllers have different numbers.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_of_another_controller_is_refused() {
    let (rig, other) = (Rig::new(never_retries()), Rig::new(never_retries()));
    for rig in [&rig, &other] {
        rig.reconcile(failing_in(&rig.log, Action::Created));
    }
    let (running, other) = (rig.start_empty().await, other.start_empty().await);
    for running in [&running, &other] {
        running.apply(config("web", 1)).await;
        assert_eq!(running.logged().await, "created web=1");
    }
    let theirs = &other.rig.controller.dead_letters()[0];
    assert!(!running.rig.controller.redrive(theirs), "not its own");
    assert_eq!(running.logged().await, "");
    assert_eq!(running.rig.controller.dead_letters().len(), 1);
    assert!(other.rig.controller.redrive(theirs));
    assert_eq!(other.logged().await, "created web=1");
    running.stop().await.expect("it stops");
    other.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_kept_by_a_redrive_after_which_nothing_would_be_called() {
    for removes_informer in [true, false] {
        let rig = Rig::new(never_retries());
        rig.reconcile(failing_in(&rig.log, Action::Created));
        let running = rig.start_empty().await;
        running.apply(config("web", 1)).await;
        assert_eq!(running.logged().await, "created web=1");
        let (controller, log) = (running.rig.controller.clone(), running.rig.log.clone());
        let letters = controller.dead_letters();
        if removes_informer {
            assert!(controller.remove_informer(&running.rig.informer));
            assert!(!controller.redrive(&letters[0]), "no informer has it");
            assert_eq!(log.take().await, "");
        }
        running.stop().await.expect("it stops");
        assert!(!controller.redrive(&letters[0]), "the run has ended");
        assert_eq!(log.take().await, "");
        assert_eq!(controller.dead_letters().len(), 1);
    }
}

/// Its object has no informer in any case.
#[tokio::test(start_paused = true)]
async fn a_failed_delete_is_redriven_after_its_informer_was_removed() {
    let rig = Rig::new(never_retries());
    rig.reconcile(failing_in(&rig.log, Action::Deleted));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.delete(config("web", 2)).await;
    assert_eq!(running.logged().await, "created web=1, deleted web=2");
    let controller = running.rig.controller.clone();
    assert!(controller.remove_informer(&running.rig.informer));
    assert!(controller.redrive(&controller.dead_letters()[0]));
    assert_eq!(running.logged().await, "deleted web=2");
    running.stop().await.expect("it stops");
}
