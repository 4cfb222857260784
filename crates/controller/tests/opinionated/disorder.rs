//! Wrapped handlers when other writers act in between: each test is a defect that was found, by
//! the number that it had.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use windlass_controller::{
    Action, AddError, Failure, FinalizerTiming, GenerationChanged, NeverDequeue, OnSelectorExit,
    OpinionatedReconciler, Outcome, Reconciler, Request, SimpleWatcher, State, Watcher,
};

use windlass_informer::{Event, Informer, Scripted};

use crate::{
    support::{Refused, Rig, builder, pass, show, word},
    world::{Fault, OWN, short},
};

/// Defect 1. Rows: GA-71, GA-75
#[tokio::test(start_paused = true)]
async fn a_finalizer_removed_before_the_informer_has_it_is_restored() {
    for wrapped_watcher in [true, false] {
        let rig = Rig::new();
        let running = if wrapped_watcher {
            rig.watch(rig.watcher()).await
        } else {
            rig.reconcile(rig.reconciler()).await
        };
        // The informer shows the object, and then nothing before the next list.
        rig.world.create("web", 1).await;
        let script = rig.world.pause().await;
        rig.logged().await;
        assert_eq!(rig.world.finalizers("web").await, "own");
        rig.world.set_finalizers("web", &[]).await;
        rig.world.tell(script).await;
        assert!(rig.logged().await.starts_with("web [own]"));
        assert_eq!(rig.world.finalizers("web").await, "own");

        // Because of the finalizer, a delete during downtime is not lost.
        running.stop(&rig).await;
        rig.world.delete("web").await;
        let running = if wrapped_watcher {
            rig.watch(rig.watcher()).await
        } else {
            rig.reconcile(rig.reconciler()).await
        };
        assert!(rig.logged().await.contains("delete"), "it is cleaned up");
        assert_eq!(rig.world.finalizers("web").await, "gone");
        running.stop(&rig).await;
    }
}

/// Defect 6. Rows: GA-79, GA-83
#[tokio::test(start_paused = true)]
async fn an_object_added_in_a_newer_state_is_not_updated_to_an_older_one() {
    let rig = Rig::new();
    let controller = builder().build().expect("good settings");
    // Another writer changes the object twice before the wrapper is called.
    let world = rig.world.clone();
    let writer = SimpleWatcher::new().on_add(move |_: Arc<Lease>| {
        let world = world.clone();
        async move {
            world.update("web", 2).await;
            world.update("web", 3).await;
            Ok::<_, Refused>(())
        }
    });
    let leases = controller.kind("leases").expect("a new kind");
    controller.add_watcher(&leases, writer).expect("added");
    controller
        .add_watcher(&leases, rig.watcher())
        .expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], add web=3, web [own]");
    pass(60).await;
    assert_eq!(
        rig.logged().await,
        "",
        "nothing is given again, and nothing older"
    );
    running.stop(&rig).await;
}

/// Defect 6, the other side. Rows: BO-07
#[tokio::test(start_paused = true)]
async fn a_change_that_another_writer_made_before_our_patch_is_passed_on() {
    let rig = Rig::new();
    let (log, world) = (rig.log.clone(), rig.world.clone());
    let racing = move |request: Request<Lease>| {
        let (log, world) = (log.clone(), world.clone());
        async move {
            log.say(format_args!(
                "{} {} from {:?}",
                word(request.action()),
                show(request.object()),
                request.old().map(|old| show(old))
            ));
            if word(request.action()) == "created" {
                // Between the call and the patch that follows it.
                world.update("web", 2).await;
            }
            Ok::<_, Refused>(Outcome::done())
        }
    };
    let racing = OpinionatedReconciler::new(rig.finalizers(), racing);
    let running = rig.reconcile(racing).await;
    rig.world.create("web", 1).await;
    assert_eq!(
        rig.logged().await,
        "web [wip], created web=1 from None, web [own], updated web=2 from Some(\"web=1\")"
    );
    pass(60).await;
    assert_eq!(rig.logged().await, "", "once");
    running.stop(&rig).await;
}

/// Defect 7. Rows: GA-96, GA-99
#[tokio::test(start_paused = true)]
async fn our_own_patches_touch_no_requeue_no_state_and_no_backoff() {
    let rig = Rig::new();
    let log = rig.log.clone();
    let handler = move |request: Request<Lease>| {
        let state = request.state().and_then(State::get::<u32>).copied();
        log.say(format_args!(
            "{} attempt {} state {state:?}",
            word(request.action()),
            request.attempt()
        ));
        let attempt = request.attempt();
        async move {
            match (attempt, state) {
                (0, None) => Err(Failure::new("not yet").state(State::new(1_u32))),
                (1, Some(1)) => {
                    let again = Outcome::requeue_after(Duration::from_secs(10));
                    Ok(again.state(State::new(2_u32)))
                }
                _ => Ok(Outcome::done()),
            }
        }
    };
    let handler = OpinionatedReconciler::new(rig.finalizers(), handler);
    let running = rig.reconcile(handler).await;
    rig.world.create("web", 1).await;
    assert_eq!(
        rig.logged().await,
        "web [wip], created attempt 0 state None"
    );
    pass(4).await;
    assert_eq!(rig.logged().await, "");
    pass(2).await;
    assert_eq!(
        rig.logged().await,
        "created attempt 1 state Some(1), web [own]"
    );
    pass(8).await;
    assert_eq!(rig.logged().await, "");
    pass(2).await;
    assert_eq!(rig.logged().await, "created attempt 0 state Some(2)");
    pass(3600).await;
    assert_eq!(rig.logged().await, "");
    running.stop(&rig).await;
}

/// Defect 8. Rows: GA-82
#[tokio::test(start_paused = true)]
async fn a_clean_up_that_succeeded_is_not_repeated_because_the_release_failed() {
    let rig = Rig::new();
    let leaving = rig.reconciler().on_selector_exit(OnSelectorExit::CleanUp);
    let running = rig.reconcile(leaving).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.plan(Fault::Fails(3)).await;
    rig.world.hide("web").await;
    assert_eq!(rig.logged().await, "deleted web=1");
    pass(60).await;
    assert_eq!(rig.logged().await, "web []");
    running.stop(&rig).await;
}

/// Defect 8, the other half. Rows: GA-82
#[tokio::test(start_paused = true)]
async fn a_clean_up_that_failed_is_finished_though_the_finalizer_was_removed() {
    for wrapped_watcher in [true, false] {
        let rig = Rig::new();
        let (running, failing) = if wrapped_watcher {
            (rig.watch(rig.watcher()).await, "delete")
        } else {
            (rig.reconcile(rig.reconciler()).await, "deleted")
        };
        rig.world.create("web", 1).await;
        rig.logged().await;
        rig.log.fail(failing);
        rig.log.fail(failing);
        rig.world.delete("web").await;
        assert_eq!(rig.logged().await, format!("{failing} web=1"));
        // By another writer, so that the object is deleted.
        rig.world.set_finalizers("web", &[]).await;
        assert_eq!(rig.world.finalizers("web").await, "gone");
        assert_eq!(
            rig.logged().await,
            format!("{failing} web=1"),
            "with the last state"
        );
        pass(60).await;
        assert_eq!(
            rig.logged().await,
            format!("{failing} web=1"),
            "until it succeeds"
        );
        pass(3600).await;
        assert_eq!(rig.logged().await, "");
        running.stop(&rig).await;
    }
}

/// Defect 8, with another finalizer that still holds the object. Rows: GA-80
#[tokio::test(start_paused = true)]
async fn a_terminating_object_whose_finalizer_was_removed_is_cleaned_up_once() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    let theirs = "test.windlass.dev/theirs";
    rig.world.create("web", 1).await;
    rig.world.set_finalizers("web", &[OWN, theirs]).await;
    rig.logged().await;
    // The mark and the removal are shown as one.
    let script = rig.world.pause().await;
    rig.world.delete("web").await;
    rig.world.set_finalizers("web", &[theirs]).await;
    rig.world.tell(script).await;
    assert_eq!(rig.logged().await, "delete web=1");
    rig.world.set_finalizers("web", &[]).await;
    assert_eq!(rig.logged().await, "");
    running.stop(&rig).await;
}

/// The same, after the patch that puts our finalizer back has failed. Rows: GA-75, GA-83
#[tokio::test(start_paused = true)]
async fn an_object_whose_finalizer_could_not_be_restored_is_cleaned_up() {
    let theirs = "test.windlass.dev/theirs";
    for wrapped_watcher in [true, false] {
        for dies in [true, false] {
            let rig = Rig::new();
            let (running, clean_up) = if wrapped_watcher {
                (rig.watch(rig.watcher()).await, "delete")
            } else {
                (rig.reconcile(rig.reconciler()).await, "deleted")
            };
            rig.world.create("web", 1).await;
            rig.logged().await;
            rig.world.set_finalizers("web", &[OWN, theirs]).await;
            rig.logged().await;
            rig.world.plan(Fault::Fails(3)).await;
            rig.world.set_finalizers("web", &[theirs]).await;
            assert_eq!(rig.logged().await, "");
            if dies {
                rig.world.delete("web").await;
                assert_eq!(rig.logged().await, format!("{clean_up} web=1"));
            } else {
                rig.world.update("web", 2).await;
                let logged = rig.logged().await;
                assert!(logged.starts_with("web [theirs own], update"), "{logged}");
            }
            running.stop(&rig).await;
        }
    }
}

/// Defect 12.
#[tokio::test(start_paused = true)]
async fn an_outage_of_any_length_strands_no_deleted_object() {
    let rig = Rig::new();
    let controller = windlass_controller::InformerController::builder()
        .on_error(|_| {})
        .build()
        .expect("good settings");
    let leases = controller.kind::<Lease>("leases").expect("a new kind");
    let added = controller.add_watcher(&leases, rig.watcher());
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    for write in 3..40 {
        rig.world.plan(Fault::Fails(write)).await;
    }
    rig.world.delete("web").await;
    pass(24 * 3600).await;
    assert_eq!(
        rig.logged().await,
        "delete web=1, web []",
        "cleaned up once, released later"
    );
    assert_eq!(rig.world.finalizers("web").await, "gone");
    running.stop(&rig).await;
}

/// Defect 14. Rows: BO-11
#[tokio::test(start_paused = true)]
async fn a_filter_of_the_wrapped_handler_decides_which_calls_it_gets() {
    let rig = Rig::new();
    let reconciler = OpinionatedReconciler::new(
        rig.finalizers(),
        rig.log.reconciler().filter(GenerationChanged),
    );
    let running = rig.reconcile(reconciler).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], created web=1, web [own]");
    rig.world.label("web", "a").await;
    assert_eq!(rig.logged().await, "", "the generation is the same");
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "updated web=2");
    running.stop(&rig).await;

    let rig = Rig::new();
    let no_adds = |event: &windlass_informer::Event<Lease>| event.action() != "CREATE";
    let watcher = windlass_controller::OpinionatedWatcher::new(
        rig.finalizers(),
        Watcher::filter(rig.log.watcher(), no_adds),
    );
    let running = rig.watch(watcher).await;
    rig.world.create("web", 1).await;
    // The finalizer is there nevertheless, for the delete that follows.
    assert_eq!(rig.logged().await, "web [wip], web [own]");
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "delete web=1, web []");
    running.stop(&rig).await;
}

/// D20: nothing but the delete of a uid is called once it is dispatched.
#[tokio::test(start_paused = true)]
async fn a_kept_retry_is_not_made_for_a_removed_object() {
    let rig = Rig::new();
    let controller = (builder().retry_dequeue_policy(NeverDequeue))
        .build()
        .expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_watcher(&leases, rig.watcher());
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.log.fail("update");
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "update web=1 web=2");
    rig.world.delete("web").await;
    rig.logged().await;
    pass(3600).await;
    assert_eq!(rig.logged().await, "");
    running.stop(&rig).await;
}

#[tokio::test]
async fn two_wrappers_of_one_kind_need_two_finalizers() {
    let rig = Rig::new();
    let controller = builder().build().expect("good settings");
    let leases = controller.kind::<Lease>("leases").expect("a new kind");
    let add = || controller.add_watcher(&leases, rig.watcher());
    add().expect("the first");
    let taken = add().expect_err("the second has the same finalizer");
    assert!(matches!(taken, AddError::FinalizerTaken { .. }), "{taken}");
    assert!(taken.to_string().contains(OWN), "{taken}");
    let others = controller.kind::<Lease>("others").expect("a new kind");
    for kind in [&leases, &others] {
        let informer = Informer::new(Scripted::new().1);
        controller.add_informer(kind, &informer).expect("added");
    }
    let other = controller.add_watcher(&others, rig.watcher());
    let other = other.expect_err("of the same resource");
    assert!(matches!(other, AddError::FinalizerTaken { .. }), "{other}");
    let plain =
        SimpleWatcher::<Lease>::new().on_add(|_: Arc<Lease>| async { Ok::<_, Refused>(()) });
    controller
        .add_watcher(&leases, plain)
        .expect("it writes none");
}

/// The finalizer is written after the reconciler has written its own object.
#[tokio::test(start_paused = true)]
async fn our_patch_after_a_write_of_the_reconciler_is_not_passed_on() {
    for timing in [
        FinalizerTiming::AfterFirstCall,
        FinalizerTiming::BeforeFirstCall,
    ] {
        for is_filtered in [true, false] {
            let rig = Rig::new();
            let (log, world) = (rig.log.clone(), rig.world.clone());
            let writing = move |request: Request<Lease>| {
                let (log, world) = (log.clone(), world.clone());
                async move {
                    let old = request.old().map(|old| short(old));
                    let new = short(request.object());
                    log.say(format_args!("{} {old:?} [{new}]", word(request.action())));
                    if request.action() == Action::Created {
                        world.label("web", "seen").await;
                    }
                    Ok::<_, Refused>(Outcome::done())
                }
            };
            let wrapped = OpinionatedReconciler::new(rig.finalizers(), writing);
            let wrapped = wrapped.finalizer_timing(timing);
            let running = if is_filtered {
                rig.reconcile(wrapped.filter(GenerationChanged)).await
            } else {
                rig.reconcile(wrapped).await
            };
            rig.world.create("web", 1).await;
            let (first, last) = match timing {
                FinalizerTiming::BeforeFirstCall => ("own", ""),
                _ => ("wip", ", web [own]"),
            };
            // Its own write, without a predicate that rejects it.
            let own_write = if is_filtered {
                String::new()
            } else {
                format!(", updated Some(\"{first}\") [{first}]")
            };
            let expected = format!("web [{first}], created None [{first}]{last}{own_write}");
            assert_eq!(rig.logged().await, expected, "{timing:?}, {is_filtered}");
            running.stop(&rig).await;
        }
    }
}

/// The reconciler has received a state that the informer has not shown, and which was undone before
/// our patch: the event seems to have no other change than the patch.
#[tokio::test(start_paused = true)]
async fn a_change_that_was_undone_before_our_patch_is_passed_on() {
    let rig = Rig::new();
    let (log, world) = (rig.log.clone(), rig.world.clone());
    let undoing = move |request: Request<Lease>| {
        let (log, world) = (log.clone(), world.clone());
        async move {
            let labels = request.object().metadata.labels.clone();
            let label = labels.and_then(|labels| labels.get("label").cloned());
            log.say(format_args!("{} {label:?}", word(request.action())));
            if request.action() == Action::Created {
                world.label("web", "a").await;
            }
            Ok::<_, Refused>(Outcome::done())
        }
    };
    // Before the wrapper is called, another writer changes the object, and the informer lags.
    let (world, later) = (rig.world.clone(), Arc::new(Mutex::new(None)));
    let script = Arc::clone(&later);
    let writer = SimpleWatcher::new().on_update(move |_: Arc<Lease>, _: Arc<Lease>| {
        let (world, script) = (world.clone(), Arc::clone(&script));
        async move {
            if script.lock().is_none() {
                *script.lock() = Some(world.pause().await);
                world.label("web", "b").await;
            }
            Ok::<_, Refused>(())
        }
    });
    let controller = builder().build().expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    controller.add_watcher(&leases, writer).expect("added");
    let no_first = |event: &Event<Lease>| {
        let labels = event.object().map(|it| it.metadata.labels.is_some());
        labels.unwrap_or_default()
    };
    let wrapped = OpinionatedReconciler::new(rig.finalizers(), undoing);
    let around = Reconciler::filter(wrapped, no_first);
    let added = controller.add_reconciler(&leases, around);
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.label("web", "a").await;
    let first = "web [wip], created Some(\"b\"), web [own]";
    assert_eq!(rig.logged().await, first);
    let script = later.lock().take().expect("the informer lags");
    rig.world.tell(script).await;
    assert_eq!(rig.logged().await, "updated Some(\"a\")");
    pass(60).await;
    assert_eq!(rig.logged().await, "", "once");
    running.stop(&rig).await;
}
