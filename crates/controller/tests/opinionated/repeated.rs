//! Calls that the controller repeats for a wrapped reconciler, while another process or another
//! call works on the same object.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use windlass_controller::{
    NeverDequeue, OnSelectorExit, OpinionatedReconciler, OpinionatedWatcher, Outcome, Request,
    RetryObject,
};
use windlass_informer::ObjectKey;

use crate::{
    support::{Refused, Rig, Running, builder, pass, show, word},
    world::{Fault, OWN},
};

const THEIRS: &str = "test.windlass.dev/theirs";

/// The first call has failed. Another process adds the object, and another writer removes its
/// finalizer: it was never created here.
#[tokio::test(start_paused = true)]
async fn an_object_whose_create_failed_is_created_after_another_process_released_it() {
    let rig = Rig::new();
    let running = rig.reconcile(rig.reconciler()).await;
    rig.log.fail("created");
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], created web=1");
    rig.world.set_finalizers("web", &[OWN]).await;
    assert_eq!(rig.logged().await, "");
    rig.world.set_finalizers("web", &[]).await;
    assert_eq!(rig.logged().await, "web [wip], created web=1, web [own]");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_create_failed_and_that_another_process_added_is_updated() {
    let rig = Rig::new();
    let running = rig.reconcile(rig.reconciler()).await;
    rig.log.fail("created");
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], created web=1");
    rig.world.set_finalizers("web", &[OWN]).await;
    assert_eq!(rig.logged().await, "");
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "updated web=2");
    running.stop(&rig).await;
}

/// Its finalizer is an old one: the clean-up outside of the selector had begun.
#[tokio::test(start_paused = true)]
async fn a_failed_create_after_a_failed_clean_up_is_repeated() {
    let rig = Rig::new();
    let reconciler = rig.reconciler().on_selector_exit(OnSelectorExit::CleanUp);
    let running = rig.reconcile(reconciler).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.log.fail("deleted");
    rig.world.hide("web").await;
    assert_eq!(rig.logged().await, "deleted web=1");
    rig.log.fail("created");
    rig.world.show("web").await;
    assert_eq!(rig.logged().await, "created web=1");
    pass(60).await;
    assert_eq!(rig.logged().await, "created web=1");
    pass(3600).await;
    assert_eq!(rig.logged().await, "");
    running.stop(&rig).await;
}

/// The patch of the first call has failed. Its repetition finds that another process has added the
/// object, which the informer does not show yet.
#[tokio::test(start_paused = true)]
async fn a_repeated_create_of_an_object_that_another_process_added_is_not_passed() {
    let rig = Rig::new();
    let running = rig.reconcile(rig.reconciler()).await;
    rig.world.plan(Fault::Fails(1)).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "");
    let script = rig.world.pause().await;
    rig.world.set_finalizers("web", &[OWN]).await;
    pass(60).await;
    assert_eq!(rig.logged().await, "");
    rig.world.tell(script).await;
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "updated web=2");
    running.stop(&rig).await;
}

/// The repeated call has the object of the first call, without our finalizer.
#[tokio::test(start_paused = true)]
async fn a_requeue_with_the_object_of_the_first_call_repeats_its_action() {
    let rig = Rig::new();
    let controller = builder().retry_object(RetryObject::AsReceived).build();
    let controller = controller.expect("good settings");
    let (log, calls) = (rig.log.clone(), AtomicU32::new(0));
    let handler = move |request: Request<Lease>| {
        let word = word(request.action());
        log.say(format_args!("{word} {}", show(request.object())));
        let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            Ok::<_, Refused>(if is_first {
                Outcome::requeue_after(Duration::from_secs(10))
            } else {
                Outcome::done()
            })
        }
    };
    let reconciler = OpinionatedReconciler::new(rig.finalizers(), handler);
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_reconciler(&leases, reconciler);
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], created web=1, web [own]");
    pass(11).await;
    assert_eq!(rig.logged().await, "created web=1");
    running.stop(&rig).await;
}

/// The informer does not show our patches before the repetition.
#[tokio::test(start_paused = true)]
async fn a_requeue_before_our_patch_is_shown_repeats_its_action() {
    let rig = Rig::new();
    let (log, world) = (rig.log.clone(), rig.world.clone());
    let paused = Arc::new(Mutex::new(None));
    let (script, calls) = (Arc::clone(&paused), AtomicU32::new(0));
    let handler = move |request: Request<Lease>| {
        let (log, world, script) = (log.clone(), world.clone(), Arc::clone(&script));
        let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            let action = word(request.action());
            log.say(format_args!("{action} {}", show(request.object())));
            if !is_first {
                return Ok(Outcome::done());
            }
            let paused = world.pause().await;
            *script.lock() = Some(paused);
            Ok::<_, Refused>(Outcome::requeue_after(Duration::from_secs(10)))
        }
    };
    let running = (rig.reconcile(OpinionatedReconciler::new(rig.finalizers(), handler))).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], created web=1, web [own]");
    pass(11).await;
    assert_eq!(rig.logged().await, "created web=1");
    drop(paused.lock().take());
    running.crash(&rig).await;
}

/// The object was created with a newer generation, while the failed call waited. A change that the
/// failed call takes over is passed.
#[tokio::test(start_paused = true)]
async fn a_kept_create_passes_a_change_after_another_call_has_added_the_object() {
    let rig = Rig::new();
    let controller = builder().retry_dequeue_policy(NeverDequeue).build();
    let controller = controller.expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_reconciler(&leases, rig.reconciler());
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.log.fail("created");
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], created web=1");
    // During the call that adds it, so that the informer does not show the finalizer alone.
    let script = rig.world.pause().await;
    rig.world.update("web", 2).await;
    let shown = rig.world.object("web").await;
    script.apply((*shown).clone()).await.expect("it runs");
    assert_eq!(rig.logged().await, "created web=2, web [own]");
    rig.world.label("web", "a").await;
    rig.world.tell(script).await;
    assert_eq!(rig.logged().await, "", "in backoff");
    pass(60).await;
    assert_eq!(rig.logged().await, "updated web=2");
    running.stop(&rig).await;
}

/// A failed add is kept while another call adds the object. Its repetition takes over the event of
/// another writer's finalizer, and there is no function for a sync.
#[tokio::test(start_paused = true)]
async fn a_kept_add_passes_a_change_after_another_call_has_added_the_object() {
    for is_shown in [true, false] {
        let rig = Rig::new();
        let controller = builder().retry_dequeue_policy(NeverDequeue).build();
        let controller = controller.expect("good settings");
        let watcher = OpinionatedWatcher::new(rig.finalizers(), rig.log.watcher());
        let leases = controller.kind("leases").expect("a new kind");
        controller.add_watcher(&leases, watcher).expect("added");
        let running = rig.start(controller, &leases, None).await;
        rig.log.fail("add");
        rig.world.create("web", 1).await;
        assert_eq!(rig.logged().await, "web [wip], add web=1");
        let script = if is_shown {
            rig.world.update("web", 2).await;
            assert_eq!(rig.logged().await, "add web=2, web [own]");
            rig.world.set_finalizers("web", &[OWN, THEIRS]).await;
            None
        } else {
            // The informer does not show the finalizer alone.
            let script = rig.world.pause().await;
            rig.world.update("web", 2).await;
            let shown = rig.world.object("web").await;
            script.apply((*shown).clone()).await.expect("it runs");
            assert_eq!(rig.logged().await, "add web=2, web [own]");
            rig.world.set_finalizers("web", &[OWN, THEIRS]).await;
            Some(script)
        };
        if let Some(script) = script {
            rig.world.tell(script).await;
        }
        assert_eq!(rig.logged().await, "", "in backoff");
        pass(60).await;
        assert_eq!(rig.logged().await, "update web=2 web=2", "{is_shown}");
        running.stop(&rig).await;
    }
}

/// Nothing has changed since.
#[tokio::test(start_paused = true)]
async fn a_kept_add_is_not_repeated_after_another_call_has_added_the_object() {
    let rig = Rig::new();
    let controller = builder().retry_dequeue_policy(NeverDequeue).build();
    let controller = controller.expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    controller
        .add_watcher(&leases, rig.watcher())
        .expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.log.fail("add");
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], add web=1");
    let script = rig.world.pause().await;
    rig.world.update("web", 2).await;
    let shown = rig.world.object("web").await;
    script.apply((*shown).clone()).await.expect("it runs");
    assert_eq!(rig.logged().await, "add web=2, web [own]");
    pass(60).await;
    assert_eq!(rig.logged().await, "");
    running.crash(&rig).await;
}

/// Starts an operator whose first patch after a call fails with `fault`, and creates an object.
async fn unwritten(rig: &Rig, fault: Fault) -> Running {
    let controller = builder().build().expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_reconciler(&leases, rig.reconciler());
    added.expect("added");
    // An event of the object `api` resyncs the object `web`.
    let api = |object: &Lease| {
        let is_api = object.metadata.name.as_deref() == Some("api");
        is_api.then(|| ObjectKey::new("web").within("shop"))
    };
    controller.add_mapper(&leases, &leases, api).expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.world.plan(fault).await;
    rig.world.create("web", 1).await;
    assert!(rig.logged().await.starts_with("web [wip], created web=1"));
    running
}

#[tokio::test(start_paused = true)]
async fn a_change_before_the_finalizer_is_written_is_passed_after_it() {
    let rig = Rig::new();
    let running = unwritten(&rig, Fault::Fails(2)).await;
    rig.world.label("web", "a").await;
    assert_eq!(rig.logged().await, "", "in backoff");
    pass(60).await;
    assert_eq!(rig.logged().await, "web [own], updated web=1");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_was_written_without_a_response_is_no_change() {
    let rig = Rig::new();
    let running = unwritten(&rig, Fault::LosesReply(2)).await;
    pass(60).await;
    assert_eq!(rig.logged().await, "");
    assert_eq!(rig.world.finalizers("web").await, "own");
    running.stop(&rig).await;
}

/// The repetition writes nothing, so that no later event shows the change.
#[tokio::test(start_paused = true)]
async fn a_change_after_a_finalizer_that_was_written_without_a_response_is_passed() {
    let rig = Rig::new();
    let running = unwritten(&rig, Fault::LosesReply(2)).await;
    rig.world.label("web", "a").await;
    assert_eq!(rig.logged().await, "", "in backoff");
    pass(60).await;
    assert_eq!(rig.logged().await, "updated web=1");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_requested_resync_before_the_finalizer_is_written_writes_it_and_is_passed() {
    let rig = Rig::new();
    let running = unwritten(&rig, Fault::Fails(2)).await;
    rig.world.create("api", 1).await;
    let logged = rig.logged().await;
    assert!(logged.contains("web [own], resynced web=1"), "{logged}");
    running.stop(&rig).await;
}
