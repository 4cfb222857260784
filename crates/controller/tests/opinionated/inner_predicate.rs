//! A predicate of the inner handler that rejects an event cancels no call of it.

use std::{num::NonZeroUsize, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use windlass_controller::{
    Coalescing, ExponentialBackoff, FinalizerTiming, GenerationChanged, LabelsChanged, NeverRetry,
    OpinionatedReconciler, OpinionatedWatcher, Outcome, Reconciler, Request, RetryObject, State,
    Watcher,
};
use windlass_informer::Event;

use crate::{
    support::{Refused, Rig, Running, builder, pass, word},
    world::Fault,
};

/// A reconciler that requests a call after each minute.
fn each_minute(rig: &Rig) -> impl Reconciler<Lease> + use<> {
    let log = rig.log.clone();
    move |request: Request<Lease>| {
        let count = request.state().and_then(State::get::<u32>).copied();
        let count = count.unwrap_or_default() + 1;
        log.say(format_args!("{} {count}", word(request.action())));
        let outcome = Outcome::requeue_after(Duration::from_secs(60)).state(State::new(count));
        async move { Ok::<_, Refused>(outcome) }
    }
}

/// Rows: GA-99
#[tokio::test(start_paused = true)]
async fn a_requeue_survives_events_that_the_predicate_rejects() {
    for inside in [true, false] {
        for timing in [
            FinalizerTiming::AfterFirstCall,
            FinalizerTiming::BeforeFirstCall,
        ] {
            let rig = Rig::new();
            let handler = each_minute(&rig);
            let running = if inside {
                let wrapped = handler.filter(GenerationChanged);
                let wrapped = OpinionatedReconciler::new(rig.finalizers(), wrapped);
                rig.reconcile(wrapped.finalizer_timing(timing)).await
            } else {
                let wrapped = OpinionatedReconciler::new(rig.finalizers(), handler);
                let wrapped = wrapped.filter(GenerationChanged);
                rig.reconcile(wrapped.finalizer_timing(timing)).await
            };
            rig.world.create("web", 1).await;
            rig.logged().await;
            // Another client writes a label each 7 seconds, and the finalizer is removed once.
            for second in (0..3_600).step_by(7) {
                rig.world.label("web", &second.to_string()).await;
                if second == 1_400 {
                    rig.world.set_finalizers("web", &[]).await;
                }
                pass(7).await;
            }
            let logged = rig.logged().await;
            let calls: Vec<_> = logged.split(", ").filter(|it| *it != "web [own]").collect();
            let expected: Vec<_> = (2..=calls.len() + 1)
                .map(|count| format!("created {count}"))
                .collect();
            assert_eq!(calls, expected, "the same request, inside: {inside}");
            assert!((58..=61).contains(&calls.len()), "{}", calls.len());
            running.stop(&rig).await;
        }
    }
}

async fn start(rig: &Rig, is_watcher: bool, object: RetryObject) -> Running {
    let controller = builder()
        .retry_policy(ExponentialBackoff::forever(Duration::from_secs(30)))
        .retry_object(object)
        .build()
        .expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    if is_watcher {
        let watcher = Watcher::filter(rig.log.watcher(), GenerationChanged);
        let watcher = OpinionatedWatcher::new(rig.finalizers(), watcher);
        controller.add_watcher(&leases, watcher).expect("added");
    } else {
        let reconciler = rig.reconciler().filter(GenerationChanged);
        let added = controller.add_reconciler(&leases, reconciler);
        added.expect("added");
    }
    rig.start(controller, &leases, None).await
}

/// Rows: GA-100
#[tokio::test(start_paused = true)]
async fn a_failed_call_is_retried_though_the_predicate_rejects_later_events() {
    for is_watcher in [true, false] {
        for object in [RetryObject::Latest, RetryObject::AsReceived] {
            let (add, update) = if is_watcher {
                ("add", "update")
            } else {
                ("created", "updated")
            };
            let rig = Rig::new();
            let running = start(&rig, is_watcher, object).await;
            rig.world.create("web", 1).await;
            rig.logged().await;
            rig.log.fail(update);
            rig.world.update("web", 2).await;
            assert!(rig.logged().await.starts_with(update), "{object:?}");
            rig.world.label("web", "a").await;
            rig.world.set_finalizers("web", &[]).await;
            pass(1).await;
            rig.world.label("web", "b").await;
            pass(3_600).await;
            let logged = rig.logged().await;
            assert_eq!(logged.matches("web=2").count(), 1, "{object:?} {logged}");
            // The first call too.
            rig.log.fail(add);
            rig.world.create("api", 1).await;
            assert!(rig.logged().await.contains(add));
            rig.world.set_finalizers("api", &[]).await;
            rig.world.label("api", "a").await;
            pass(3_600).await;
            assert_eq!(rig.world.finalizers("api").await, "own");
            let logged = rig.logged().await;
            let calls = logged.matches(&format!("{add} api=1")).count();
            // The finalizer is restored at once; then an add that has not succeeded is called too.
            assert_eq!(calls, 1, "{object:?} {logged}");
            running.stop(&rig).await;
        }
    }
}

/// The finalizer could not be written after a call that had requested a requeue.
#[tokio::test(start_paused = true)]
async fn a_requeue_survives_a_finalizer_that_could_not_be_written() {
    let rig = Rig::new();
    rig.world.plan(Fault::Fails(2)).await;
    let wrapped = OpinionatedReconciler::new(rig.finalizers(), each_minute(&rig));
    let no_updates = |event: &Event<Lease>| !matches!(event, Event::Updated { .. });
    let running = rig.reconcile(wrapped.filter(no_updates)).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], created 1");
    rig.world.label("web", "a").await;
    pass(10).await;
    assert_eq!(rig.logged().await, "web [own]");
    rig.world.label("web", "b").await;
    pass(61).await;
    assert_eq!(rig.logged().await, "created 2");
    running.stop(&rig).await;
}

/// A retry because of a finalizer does not bypass the predicate.
#[tokio::test(start_paused = true)]
async fn an_event_that_the_predicate_rejects_is_not_passed_in_a_retry() {
    let rig = Rig::new();
    let running = rig.reconcile(rig.reconciler().filter(LabelsChanged)).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.plan(Fault::Fails(3)).await;
    rig.world.set_finalizers("web", &[]).await;
    pass(60).await;
    assert_eq!(rig.logged().await, "web [own]");
    running.stop(&rig).await;
}

/// A resync that waits in the queue with an event that the predicate rejects.
///
/// Rows: GA-91
#[tokio::test(start_paused = true)]
async fn a_resync_is_passed_although_the_predicate_rejects_the_event_with_which_it_was_coalesced() {
    let rig = Rig::new();
    let builder = builder()
        .concurrency(NonZeroUsize::MIN)
        .coalescing(Coalescing::Always);
    let controller = builder.build().expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let wrapped = rig.reconciler().filter(GenerationChanged);
    let added = controller.add_reconciler(&leases, wrapped);
    added.expect("added");
    let running = rig.start(controller, &leases, Some(20)).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    // The patch for another object keeps the only worker for 30 seconds.
    let next = rig.world.writes().await + 1;
    rig.world.plan(Fault::TimesOut(next)).await;
    rig.world.create("block", 1).await;
    rig.logged().await;
    rig.world.label("web", "new").await;
    pass(30).await;
    assert_eq!(rig.logged().await, "resynced web=1");
    running.stop(&rig).await;
}

/// The wrapper decides after the dead letters of the object were looked up.
#[tokio::test(start_paused = true)]
async fn an_event_that_the_inner_predicate_rejects_removes_no_dead_letter() {
    let rig = Rig::new();
    let log = rig.log.clone();
    let builder = builder().retry_policy(NeverRetry).on_exhausted(move |_| {
        log.say("dead letter");
        std::future::ready(())
    });
    let controller = builder.build().expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let wrapped = rig.reconciler().filter(GenerationChanged);
    let added = controller.add_reconciler(&leases, wrapped);
    added.expect("added");
    let running = rig.start(controller.clone(), &leases, None).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.log.fail("updated");
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "updated web=2, dead letter");
    let letters = controller.dead_letters();
    rig.world.label("web", "new").await;
    assert_eq!(rig.logged().await, "");
    assert_eq!(controller.dead_letters().len(), 1);
    assert!(controller.redrive(&letters[0]), "the same one");
    assert_eq!(rig.logged().await, "updated web=2");

    // An event that it accepts removes it, and so does the deletion.
    for last in ["update", "delete"] {
        rig.log.fail("updated");
        rig.world.update("web", 3).await;
        assert_eq!(rig.logged().await, "updated web=3, dead letter");
        rig.world.label("web", last).await;
        rig.logged().await;
        assert_eq!(controller.dead_letters().len(), 1, "{last}");
        match last {
            "update" => rig.world.update("web", 4).await,
            _ => rig.world.delete("web").await,
        }
        rig.logged().await;
        assert!(controller.dead_letters().is_empty(), "{last}");
    }
    running.stop(&rig).await;
}

/// As for a predicate of any other handler: the event passes.
#[tokio::test(start_paused = true)]
async fn an_event_passes_if_the_inner_predicate_panics() {
    let rig = Rig::new();
    let panics = |_: &Event<Lease>| -> bool { panic!("no label") };
    let running = rig.reconcile(rig.reconciler().filter(panics)).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], created web=1, web [own]");
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "updated web=2");
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "deleted web=2, web []");
    running.stop(&rig).await;
}
