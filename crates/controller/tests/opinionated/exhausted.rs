//! Calls of the inner handler whose retries are exhausted, and the events that repeat them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::coordination::v1::Lease;
use windlass_controller::{
    Action, FinalizerName, FinalizerTiming, Finalizers, GenerationChanged, InformerController,
    NeverRetry, OpinionatedReconciler, OpinionatedWatcher, Outcome, Predicate, Reconciler, Request,
    Watcher,
};
use windlass_informer::Event;

use crate::{
    support::{Refused, Rig, Running, builder, pass, word},
    world::Fault,
};

const TIMINGS: [FinalizerTiming; 2] = [
    FinalizerTiming::AfterFirstCall,
    FinalizerTiming::BeforeFirstCall,
];

/// Refuses updates.
const NO_UPDATES: fn(&Event<Lease>) -> bool = |event| !matches!(event, Event::Updated { .. });

/// Starts an operator that retries nothing, and whose hook writes another label into the object each
/// time, as a hook does that writes a status with a time.
async fn start(
    rig: &Rig,
    timing: FinalizerTiming,
    predicate: impl Predicate<Lease>,
    resync: Option<u64>,
) -> (InformerController, Running) {
    let (world, count) = (rig.world.clone(), Arc::new(AtomicUsize::new(0)));
    let controller = builder()
        .retry_policy(NeverRetry)
        .on_exhausted(move |letter| {
            let count = count.fetch_add(1, Ordering::Relaxed);
            let world = world.clone();
            async move { world.label(letter.key.name(), &count.to_string()).await }
        })
        .build()
        .expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let wrapped = rig.reconciler().finalizer_timing(timing).filter(predicate);
    let added = controller.add_reconciler(&leases, wrapped);
    added.expect("added");
    let running = rig.start(controller.clone(), &leases, resync).await;
    (controller, running)
}

/// Lets the call `failing` of `web` become a dead letter.
async fn exhaust(rig: &Rig, failing: &'static str) {
    for _ in 0..100 {
        rig.log.fail(failing);
    }
    rig.world.create("web", 1).await;
    let mut logged = rig.logged().await;
    if failing == "deleted" {
        rig.world.delete("web").await;
        logged = rig.logged().await;
    }
    assert_eq!(logged.matches(failing).count(), 1, "{logged}");
}

/// Checks that the exhausted call was repeated and has succeeded.
async fn has_finished(rig: &Rig, controller: &InformerController, failing: &str) {
    let logged = rig.logged().await;
    assert!(logged.contains(failing), "{failing}: {logged}");
    let finished = if failing == "deleted" { "gone" } else { "own" };
    assert_eq!(rig.world.finalizers("web").await, finished);
    assert!(controller.dead_letters().is_empty());
}

/// Rows: GA-100
#[tokio::test(start_paused = true)]
async fn a_change_that_the_predicate_rejects_repeats_no_exhausted_call() {
    for timing in TIMINGS {
        for failing in ["created", "deleted"] {
            let rig = Rig::new();
            let (controller, running) = start(&rig, timing, GenerationChanged, None).await;
            exhaust(&rig, failing).await;
            let held = rig.world.finalizers("web").await;
            assert_ne!(held, "gone");
            let letters = controller.dead_letters();
            for label in ["a", "b"] {
                rig.world.label("web", label).await;
                pass(60).await;
            }
            assert_eq!(rig.logged().await, "", "{timing:?} {failing}");
            assert_eq!(rig.world.finalizers("web").await, held);
            assert_eq!(controller.dead_letters().len(), 1);
            // It is the same dead letter, and its repetition is not declined.
            rig.log.succeed();
            assert!(controller.redrive(&letters[0]), "{timing:?} {failing}");
            has_finished(&rig, &controller, failing).await;
            running.stop(&rig).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_accepted_change_or_a_resync_repeats_an_exhausted_call() {
    for timing in TIMINGS {
        for failing in ["created", "deleted"] {
            for resync in [None, Some(600)] {
                let rig = Rig::new();
                let (controller, running) = start(&rig, timing, GenerationChanged, resync).await;
                exhaust(&rig, failing).await;
                rig.world.label("web", "a").await;
                assert_eq!(rig.logged().await, "", "{timing:?} {failing}");
                rig.log.succeed();
                match resync {
                    None => rig.world.update("web", 2).await,
                    Some(period) => pass(period + 60).await,
                }
                has_finished(&rig, &controller, failing).await;
                running.stop(&rig).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_repeats_an_exhausted_call() {
    for timing in TIMINGS {
        for failing in ["created", "deleted"] {
            let rig = Rig::new();
            let (_, running) = start(&rig, timing, GenerationChanged, None).await;
            exhaust(&rig, failing).await;
            running.stop(&rig).await;
            rig.log.succeed();
            let (_, running) = start(&rig, timing, GenerationChanged, None).await;
            let logged = rig.logged().await;
            // Its finalizer does not show that the add has not succeeded.
            let is_early = timing == FinalizerTiming::BeforeFirstCall && failing == "created";
            let repeated = if is_early { "resynced" } else { failing };
            assert!(logged.contains(repeated), "{timing:?} {failing}: {logged}");
            running.stop(&rig).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_mark_causes_the_clean_up_whatever_the_predicate_says_about_updates() {
    for timing in TIMINGS {
        for failing in ["created", "deleted"] {
            let rig = Rig::new();
            let (_, running) = start(&rig, timing, NO_UPDATES, None).await;
            exhaust(&rig, failing).await;
            if failing == "deleted" {
                // The mark disappears, because the server is restored from a backup.
                rig.world.restore("web").await;
                rig.logged().await;
            }
            rig.log.succeed();
            rig.world.delete("web").await;
            let logged = rig.logged().await;
            assert_eq!(logged, "deleted web=1, web []", "{timing:?} {failing}");
            assert_eq!(rig.world.finalizers("web").await, "gone");
            running.stop(&rig).await;
        }
    }
}

/// A clean-up that was declined is not lost when the object disappears.
#[tokio::test(start_paused = true)]
async fn a_declined_clean_up_runs_when_the_object_disappears() {
    for timing in TIMINGS {
        let rig = Rig::new();
        let (controller, running) = start(&rig, timing, NO_UPDATES, None).await;
        exhaust(&rig, "deleted").await;
        // Another writer removes our finalizer, and the object exists because of its own.
        rig.world
            .set_finalizers("web", &["test.windlass.dev/theirs"])
            .await;
        assert_eq!(rig.logged().await, "");
        assert_eq!(controller.dead_letters().len(), 1);
        rig.log.succeed();
        rig.world.set_finalizers("web", &[]).await;
        assert_eq!(rig.logged().await, "deleted web=1", "{timing:?}");
        assert_eq!(rig.world.finalizers("web").await, "gone");
        assert!(controller.dead_letters().is_empty());
        running.stop(&rig).await;
    }
}

/// Rows: GA-99
#[tokio::test(start_paused = true)]
async fn a_requeue_of_a_clean_up_survives_changes_that_the_predicate_rejects() {
    let rig = Rig::new();
    let (log, left) = (rig.log.clone(), Arc::new(AtomicUsize::new(3)));
    let slow = move |request: Request<Lease>| {
        log.say(word(request.action()));
        let is_clean_up = request.action() == Action::Deleted;
        let waits = is_clean_up && left.fetch_sub(1, Ordering::Relaxed) > 1;
        async move {
            Ok::<_, Refused>(if waits {
                Outcome::requeue_after(Duration::from_secs(60))
            } else {
                Outcome::done()
            })
        }
    };
    let wrapped = OpinionatedReconciler::new(rig.finalizers(), slow.filter(GenerationChanged));
    let running = rig.reconcile(wrapped).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "deleted");
    for logged in ["deleted", "deleted, web []"] {
        for label in 0..6 {
            rig.world.label("web", &label.to_string()).await;
            pass(7).await;
        }
        assert_eq!(rig.logged().await, "");
        pass(20).await;
        assert_eq!(rig.logged().await, logged);
    }
    assert_eq!(rig.world.finalizers("web").await, "gone");
    running.stop(&rig).await;
}

/// As in grafana-app-sdk: a call of a watcher that has not succeeded is repeated for any event.
#[tokio::test(start_paused = true)]
async fn an_exhausted_call_of_a_watcher_is_repeated_also_by_a_change_that_its_predicate_rejects() {
    for failing in ["add", "update", "delete"] {
        let rig = Rig::new();
        let controller = builder().retry_policy(NeverRetry).build();
        let controller = controller.expect("good settings");
        let leases = controller.kind("leases").expect("a new kind");
        let watcher = Watcher::filter(rig.log.watcher(), GenerationChanged);
        let watcher = OpinionatedWatcher::new(rig.finalizers(), watcher);
        controller.add_watcher(&leases, watcher).expect("added");
        let running = rig.start(controller.clone(), &leases, None).await;
        rig.log.fail(failing);
        rig.world.create("web", 1).await;
        let mut logged = rig.logged().await;
        match failing {
            "update" => rig.world.update("web", 2).await,
            "delete" => rig.world.delete("web").await,
            _ => {}
        }
        logged.push_str(&rig.logged().await);
        assert!(logged.contains(failing), "{failing}: {logged}");
        assert_eq!(controller.dead_letters().len(), 1, "{failing}");
        rig.world.label("web", "a").await;
        let logged = rig.logged().await;
        assert!(logged.starts_with(failing), "{failing}: {logged}");
        assert!(controller.dead_letters().is_empty(), "{failing}");
        running.stop(&rig).await;
    }
}

/// Another writer removes the finalizer by a change that the predicate rejects, and the first patch of
/// the wrapper fails. The repetition of that patch also repeats the exhausted call.
#[tokio::test(start_paused = true)]
async fn an_exhausted_call_is_not_lost_if_the_finalizer_cannot_be_written_at_a_rejected_change() {
    for timing in TIMINGS {
        for failing in ["created", "updated"] {
            let rig = Rig::new();
            let (controller, running) = start(&rig, timing, GenerationChanged, None).await;
            if failing == "created" {
                exhaust(&rig, failing).await;
            } else {
                rig.world.create("web", 1).await;
                rig.logged().await;
                rig.log.fail(failing);
                rig.world.update("web", 2).await;
                rig.logged().await;
            }
            assert_eq!(controller.dead_letters().len(), 1);
            rig.log.succeed();
            let next = rig.world.writes().await + 1;
            rig.world.plan(Fault::Fails(next)).await;
            rig.world.set_finalizers("web", &[]).await;
            assert_eq!(rig.logged().await, "", "{timing:?} {failing}");
            pass(60).await;
            has_finished(&rig, &controller, failing).await;
            running.stop(&rig).await;
        }
    }
}

/// Rows: GA-100
#[tokio::test(start_paused = true)]
async fn a_wrapper_in_a_wrapper_repeats_no_exhausted_call_for_a_rejected_change() {
    for timing in TIMINGS {
        for failing in ["created", "deleted"] {
            let rig = Rig::new();
            let controller = builder().retry_policy(NeverRetry).build();
            let controller = controller.expect("good settings");
            let leases = controller.kind("leases").expect("a new kind");
            let inner = rig.reconciler().finalizer_timing(timing);
            let name = FinalizerName::new("test.windlass.dev/outer").expect("a name");
            let outer = Finalizers::new(rig.world.clone(), name).expect("a finalizer");
            let outer = OpinionatedReconciler::new(outer, inner.filter(GenerationChanged));
            let added = controller.add_reconciler(&leases, outer.finalizer_timing(timing));
            added.expect("added");
            let running = rig.start(controller.clone(), &leases, None).await;
            exhaust(&rig, failing).await;
            assert_eq!(controller.dead_letters().len(), 1, "{timing:?} {failing}");
            rig.world.label("web", "a").await;
            assert_eq!(rig.logged().await, "", "{timing:?} {failing}");
            assert_eq!(controller.dead_letters().len(), 1, "{timing:?} {failing}");
            rig.log.succeed();
            rig.world.update("web", 2).await;
            let logged = rig.logged().await;
            assert!(logged.contains(failing), "{timing:?} {failing}: {logged}");
            assert!(controller.dead_letters().is_empty());
            running.stop(&rig).await;
        }
    }
}
