//! The calls that `OpinionatedReconciler` passes to its reconciler.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::Mutex;
use windlass_controller::{
    DeleteOrder, Failure, NeverDequeue, NeverRetry, OpinionatedReconciler, Outcome, Reconciler,
    Request, SimpleWatcher, State,
};

use crate::{
    support::{Refused, Rig, builder, pass, show, word},
    world::{Fault, OWN},
};

/// Rows: GA-68, GA-73
#[tokio::test(start_paused = true)]
async fn a_new_object_gets_the_guard_the_create_and_the_finalizer() {
    let rig = Rig::new();
    let running = rig.reconcile(rig.reconciler()).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], created web=1, web [own]");
    pass(3600).await;
    assert_eq!(rig.logged().await, "");
    // Every other change is passed on.
    rig.world.update("web", 2).await;
    rig.world.label("web", "a").await;
    assert_eq!(rig.logged().await, "updated web=2, updated web=2");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_create_is_retried_before_the_final_finalizer_is_set() {
    let rig = Rig::new();
    let running = rig.reconcile(rig.reconciler()).await;
    rig.log.fail("created");
    rig.world.create("web", 1).await;
    // Defect 7: the event of the guard is no reason to call at once.
    assert_eq!(rig.logged().await, "web [wip], created web=1");
    // The next event causes a create, because the first one has not succeeded.
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "created web=2, web [own]");
    running.stop(&rig).await;
}

/// Rows: GA-67
#[tokio::test(start_paused = true)]
async fn an_object_created_by_an_earlier_process_is_resynced() {
    let rig = Rig::new();
    let running = rig.reconcile(rig.reconciler()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.log.fail("created");
    rig.world.create("api", 1).await;
    rig.logged().await;
    running.stop(&rig).await;
    // The one that was never created is created.
    let running = rig.reconcile(rig.reconciler()).await;
    let logged = rig.logged().await;
    let mut logged: Vec<_> = logged.split(", ").collect();
    logged.sort_unstable();
    assert_eq!(logged, ["api [own]", "created api=1", "resynced web=1"]);
    running.stop(&rig).await;
}

/// Rows: GA-71
#[tokio::test(start_paused = true)]
async fn a_delete_is_dispatched_while_the_object_has_the_finalizer() {
    let rig = Rig::new();
    let running = rig.reconcile(rig.reconciler()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.log.fail("deleted");
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "deleted web=1");
    assert_eq!(rig.world.finalizers("web").await, "own");
    pass(60).await;
    assert_eq!(rig.logged().await, "deleted web=1, web []");
    assert_eq!(rig.world.finalizers("web").await, "gone");

    // And if it came while the operator was down.
    rig.world.create("web", 2).await;
    rig.logged().await;
    running.stop(&rig).await;
    rig.world.delete("web").await;
    let running = rig.reconcile(rig.reconciler()).await;
    assert_eq!(rig.logged().await, "deleted web=2, web []");
    running.stop(&rig).await;
}

/// Rows: GA-69
#[tokio::test(start_paused = true)]
async fn with_the_documented_order_the_finalizer_is_removed_before_the_delete() {
    let rig = Rig::new();
    let after = || rig.reconciler().delete_order(DeleteOrder::AfterRemoval);
    let running = rig.reconcile(after()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "web [], deleted web=1");
    assert_eq!(rig.world.finalizers("web").await, "gone");

    // The limit of this order: the finalizer was removed, the call has failed, and after a restart
    // no state is left.
    rig.world.create("web", 2).await;
    rig.logged().await;
    rig.log.fail("deleted");
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "web [], deleted web=2");
    running.stop(&rig).await;
    let running = rig.reconcile(after()).await;
    assert_eq!(rig.logged().await, "");
    running.stop(&rig).await;
}

/// Rows: GA-70
#[tokio::test(start_paused = true)]
async fn an_update_without_the_finalizer_adds_it_and_the_following_update_is_passed_on() {
    let rig = Rig::new();
    let running = rig.reconcile(rig.reconciler()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    let theirs = "test.windlass.dev/theirs";
    rig.world.set_finalizers("web", &[theirs]).await;
    assert_eq!(rig.logged().await, "web [theirs own], updated web=1");
    running.stop(&rig).await;

    // If it was never created, it is created now.
    let rig = Rig::new();
    let controller = builder()
        .retry_policy(NeverRetry)
        .build()
        .expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_reconciler(&leases, rig.reconciler());
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.world.plan(Fault::Fails(1)).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "");
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "web [wip], created web=2, web [own]");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_terminating_object_without_our_finalizer_is_dispatched_after_its_removal() {
    let rig = Rig::new();
    rig.world.create("web", 1).await;
    rig.world
        .set_finalizers("web", &["test.windlass.dev/theirs"])
        .await;
    rig.world.delete("web").await;
    let running = rig.reconcile(rig.reconciler()).await;
    rig.world.label("web", "a").await;
    assert_eq!(rig.logged().await, "");
    assert_eq!(rig.world.finalizers("web").await, "theirs");
    rig.world.set_finalizers("web", &[]).await;
    assert_eq!(rig.logged().await, "deleted web=1");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_released_by_another_writer_is_dispatched_after_its_removal() {
    let rig = Rig::new();
    let running = rig.reconcile(rig.reconciler()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.log.fail("deleted");
    rig.world.delete("web").await;
    rig.logged().await;
    rig.world.set_finalizers("web", &[]).await;
    assert_eq!(rig.logged().await, "deleted web=1");
    running.stop(&rig).await;
}

/// A reconciler that always requests a requeue still gets its finalizer. Its requeues repeat their
/// actions.
#[tokio::test(start_paused = true)]
async fn a_call_that_asks_for_another_passes_through() {
    for never in [false, true] {
        let rig = Rig::new();
        let log = rig.log.clone();
        let periodic = move |request: Request<Lease>| {
            let round = request.state().and_then(State::get::<u32>).copied();
            log.say(format_args!(
                "{} {} {round:?}",
                word(request.action()),
                show(request.object())
            ));
            let next = State::new(round.unwrap_or(0) + 1);
            async { Ok::<_, Refused>(Outcome::requeue_after(Duration::from_secs(60)).state(next)) }
        };
        let builder = if never {
            builder().retry_dequeue_policy(NeverDequeue)
        } else {
            builder()
        };
        let controller = builder.build().expect("good settings");
        let reconciler = OpinionatedReconciler::new(rig.finalizers(), periodic);
        let leases = controller.kind("leases").expect("a new kind");
        let added = controller.add_reconciler(&leases, reconciler);
        added.expect("added");
        let running = rig.start(controller, &leases, None).await;
        rig.world.create("web", 1).await;
        // Defect 7: the event of the finalizer touches neither the requeue nor its state.
        assert_eq!(
            rig.logged().await,
            "web [wip], created web=1 None, web [own]"
        );
        pass(58).await;
        assert_eq!(rig.logged().await, "");
        pass(2).await;
        assert_eq!(
            rig.logged().await,
            "created web=1 Some(1)",
            "never: {never}"
        );
        pass(60).await;
        assert_eq!(rig.logged().await, "created web=1 Some(2)");
        running.stop(&rig).await;
    }
}

/// Rows: GA-99
#[tokio::test(start_paused = true)]
async fn a_requeue_of_a_wrapped_reconciler_repeats_its_action_with_the_same_objects() {
    let rig = Rig::new();
    let log = rig.log.clone();
    let twice = move |request: Request<Lease>| {
        let old = request.old().map_or("nothing".to_owned(), |old| show(old));
        let round = request.state().and_then(State::get::<u32>).copied();
        let (action, object) = (word(request.action()), show(request.object()));
        log.say(format_args!("{action} {object} after {old} {round:?}"));
        let outcome = match round {
            None => Outcome::requeue_after(Duration::from_secs(60)).state(State::new(1_u32)),
            Some(_) => Outcome::done(),
        };
        async { Ok::<_, Refused>(outcome) }
    };
    let controller = builder().build().expect("good settings");
    let reconciler = OpinionatedReconciler::new(rig.finalizers(), twice);
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_reconciler(&leases, reconciler);
    added.expect("added");
    let running = rig.start(controller, &leases, Some(3600)).await;
    rig.world.create("web", 1).await;
    pass(70).await;
    assert_eq!(
        rig.logged().await,
        "web [wip], created web=1 after nothing None, web [own], \
         created web=1 after nothing Some(1)"
    );
    rig.world.update("web", 2).await;
    pass(70).await;
    assert_eq!(
        rig.logged().await,
        "updated web=2 after web=1 None, updated web=2 after web=1 Some(1)"
    );
    // One resync in each hour.
    pass(3600).await;
    assert_eq!(
        rig.logged().await,
        "resynced web=2 after nothing None, resynced web=2 after nothing Some(1)"
    );
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn state_and_attempt_of_a_failed_call_pass_through() {
    let rig = Rig::new();
    let log = rig.log.clone();
    let failing = move |request: Request<Lease>| {
        let state = request.state().and_then(State::get::<u32>).copied();
        let attempt = request.attempt();
        let say = format!("{} {attempt} {state:?}", word(request.action()));
        log.say(say);
        async move {
            match attempt {
                0 | 1 => Err(Failure::new("not yet").state(State::new(attempt + 10))),
                2 => Err(Failure::new("nor now")),
                _ => Ok(Outcome::done()),
            }
        }
    };
    let controller = (builder().retry_dequeue_policy(NeverDequeue))
        .build()
        .expect("good settings");
    let reconciler = OpinionatedReconciler::new(rig.finalizers(), failing);
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_reconciler(&leases, reconciler);
    added.expect("added");
    rig.world.create("web", 1).await;
    rig.world.set_finalizers("web", &[OWN]).await;
    let running = rig.start(controller, &leases, None).await;
    pass(3600).await;
    assert_eq!(
        rig.logged().await,
        "resynced 0 None, resynced 1 Some(10), resynced 2 Some(11), resynced 3 Some(11)"
    );
    running.stop(&rig).await;
}

/// In grafana-app-sdk what a wrapper leaves for itself is lost in the second call.
#[tokio::test(start_paused = true)]
async fn a_successful_call_is_not_repeated_because_its_finalizer_was_not_written() {
    for never in [false, true] {
        let rig = Rig::new();
        for write in [2, 3, 4] {
            rig.world.plan(Fault::Fails(write)).await;
        }
        let builder = if never {
            builder().retry_dequeue_policy(NeverDequeue)
        } else {
            builder()
        };
        let controller = builder.build().expect("good settings");
        let leases = controller.kind("leases").expect("a new kind");
        let added = controller.add_reconciler(&leases, rig.reconciler());
        added.expect("added");
        let running = rig.start(controller, &leases, None).await;
        rig.world.create("web", 1).await;
        pass(3600).await;
        assert_eq!(rig.logged().await, "web [wip], created web=1, web [own]");
        running.stop(&rig).await;
    }
    for fault in [Fault::Fails(3), Fault::LosesReply(3)] {
        let rig = Rig::new();
        rig.world.plan(fault.clone()).await;
        let running = rig.reconcile(rig.reconciler()).await;
        rig.world.create("web", 1).await;
        rig.logged().await;
        rig.world.delete("web").await;
        pass(60).await;
        assert_eq!(rig.logged().await, "deleted web=1, web []", "{fault:?}");
        running.stop(&rig).await;
    }
}

/// A requested requeue is made even if the finalizer is written later.
#[tokio::test(start_paused = true)]
async fn an_outcome_outlives_a_finalizer_that_was_not_written() {
    let rig = Rig::new();
    rig.world.plan(Fault::Fails(2)).await;
    let log = rig.log.clone();
    let periodic = move |request: Request<Lease>| {
        let state = request.state().and_then(State::get::<&str>).copied();
        log.say(format_args!("{} {state:?}", word(request.action())));
        let outcome = match state {
            None => Outcome::requeue_after(Duration::from_secs(60)).state(State::new("mine")),
            Some(_) => Outcome::done(),
        };
        async { Ok::<_, Refused>(outcome) }
    };
    let controller = (builder().retry_dequeue_policy(NeverDequeue))
        .build()
        .expect("good settings");
    let reconciler = OpinionatedReconciler::new(rig.finalizers(), periodic);
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_reconciler(&leases, reconciler);
    added.expect("added");
    rig.world.create("web", 1).await;
    rig.world
        .set_finalizers("web", &["test.windlass.dev/own.in-progress"])
        .await;
    rig.world.plan(Fault::Fails(1)).await;
    let running = rig.start(controller, &leases, None).await;
    // The patch fails twice: at once, and after 5 s.
    assert_eq!(rig.logged().await, "created None");
    pass(16).await;
    assert_eq!(rig.logged().await, "web [own]");
    pass(120).await;
    assert_eq!(rig.logged().await, "created Some(\"mine\")");
    running.stop(&rig).await;
}

/// Rows: GA-99
#[tokio::test(start_paused = true)]
async fn a_delete_that_requests_a_requeue_is_not_complete() {
    let rig = Rig::new();
    let log = rig.log.clone();
    let patient = move |request: Request<Lease>| {
        let state = request.state().and_then(State::get::<u32>).copied();
        log.say(format_args!("{} {state:?}", word(request.action())));
        let outcome = match (word(request.action()), state) {
            ("deleted", None) => {
                Outcome::requeue_after(Duration::from_secs(30)).state(State::new(1_u32))
            }
            _ => Outcome::done(),
        };
        async { Ok::<_, Refused>(outcome) }
    };
    let running = rig
        .reconcile(OpinionatedReconciler::new(rig.finalizers(), patient))
        .await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "deleted None");
    assert_eq!(rig.world.finalizers("web").await, "own");
    pass(28).await;
    assert_eq!(rig.logged().await, "");
    assert_eq!(rig.world.finalizers("web").await, "own");
    pass(2).await;
    assert_eq!(rig.logged().await, "deleted Some(1), web []");
    running.stop(&rig).await;
}

/// The event of our own patch may drop a pending call; then it is passed on itself.
#[tokio::test(start_paused = true)]
async fn a_failed_update_is_not_dropped_by_an_own_write() {
    let rig = Rig::new();
    let world = rig.world.clone();
    let log = rig.log.clone();
    let reconciler = move |request: Request<Lease>| {
        let (log, world) = (log.clone(), world.clone());
        async move {
            let action = word(request.action());
            if action == "created" {
                world.update("web", 2).await;
            }
            log.call(action, format_args!("{action} {}", show(request.object())))?;
            Ok::<_, Refused>(Outcome::done())
        }
    };
    let running = rig
        .reconcile(OpinionatedReconciler::new(rig.finalizers(), reconciler))
        .await;
    rig.log.fail("updated");
    rig.world.create("web", 1).await;
    assert_eq!(
        rig.logged().await,
        "web [wip], created web=1, web [own], updated web=2"
    );
    pass(6).await;
    assert_eq!(rig.logged().await, "updated web=2");
    running.stop(&rig).await;
}

/// Logs the arguments of a reconciler: the action, the object with its version, and the old state.
fn exact(rig: &Rig) -> impl Reconciler<Lease> + use<> {
    let log = rig.log.clone();
    move |request: Request<Lease>| {
        let object = request.object();
        let version = object.metadata.resource_version.as_deref();
        let word = word(request.action());
        let line = format!(
            "{word} {} at {} from {}",
            show(object),
            version.unwrap_or("none"),
            request
                .old()
                .map_or_else(|| "none".to_owned(), |old| show(old))
        );
        let done = log.call(word, line);
        async move { done.map(|()| Outcome::done()) }
    }
}

/// With the version from before the guard, whatever it writes would conflict. A create whose
/// retries are exhausted is a create, whatever event repeats it: there is no old state.
#[tokio::test(start_paused = true)]
async fn a_create_has_the_object_with_the_guard_and_no_old_state() {
    let rig = Rig::new();
    let controller = builder().retry_policy(NeverRetry).build();
    let controller = controller.expect("good settings");
    let reconciler = OpinionatedReconciler::new(rig.finalizers(), exact(&rig));
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_reconciler(&leases, reconciler);
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.log.fail("created");
    rig.world.create("web", 1).await;
    assert_eq!(
        rig.logged().await,
        "web [wip], created web=1 at 2 from none"
    );
    rig.world.update("web", 2).await;
    assert_eq!(
        rig.logged().await,
        "created web=2 at 3 from none, web [own]"
    );
    running.stop(&rig).await;
}

/// The informer shows two changes as one, after the reconciler has received the first of them.
#[tokio::test(start_paused = true)]
async fn an_update_is_from_the_last_state_that_the_reconciler_received() {
    let rig = Rig::new();
    let controller = builder().build().expect("good settings");
    let script = Arc::new(Mutex::new(None));
    let (world, later) = (rig.world.clone(), Arc::clone(&script));
    let writer = SimpleWatcher::new().on_add(move |_: Arc<Lease>| {
        let (world, later) = (world.clone(), Arc::clone(&later));
        async move {
            *later.lock().await = Some(world.pause().await);
            world.update("web", 2).await;
            Ok::<_, Refused>(())
        }
    });
    let leases = controller.kind("leases").expect("a new kind");
    controller.add_watcher(&leases, writer).expect("added");
    let reconciler = OpinionatedReconciler::new(rig.finalizers(), exact(&rig));
    let added = controller.add_reconciler(&leases, reconciler);
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.world.create("web", 1).await;
    assert_eq!(
        rig.logged().await,
        "web [wip], created web=2 at 3 from none, web [own]"
    );
    rig.world.update("web", 3).await;
    let script = script.lock().await.take().expect("it is paused");
    rig.world.tell(script).await;
    assert_eq!(rig.logged().await, "updated web=3 at 5 from web=2");
    running.stop(&rig).await;
}

/// A failed resync that a newer event replaces is not repeated as a resync.
#[tokio::test(start_paused = true)]
async fn an_update_that_replaces_a_failed_resync_is_an_update() {
    let rig = Rig::new();
    let running = rig.reconcile(rig.reconciler()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    running.stop(&rig).await;
    rig.log.fail("resynced");
    let running = rig.reconcile(rig.reconciler()).await;
    assert_eq!(rig.logged().await, "resynced web=1");
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "updated web=2");
    running.stop(&rig).await;
}
