//! The calls that `OpinionatedWatcher` passes to its watcher.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use windlass_controller::{
    ExponentialBackoff, NeverDequeue, OpinionatedWatcher, SimpleWatcher, Watcher,
};

use crate::{
    support::{Rig, builder, pass},
    world::{Fault, OWN},
};

/// Rows: GA-74, GA-83
#[tokio::test(start_paused = true)]
async fn a_new_object_gets_the_guard_the_add_and_the_finalizer() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    // In this order, each once: the echoes of the patches are not dispatched.
    assert_eq!(rig.logged().await, "web [wip], add web=1, web [own]");
    pass(3600).await;
    assert_eq!(rig.logged().await, "");
    running.stop(&rig).await;
}

/// Rows: GA-83
#[tokio::test(start_paused = true)]
async fn a_failed_add_is_retried_before_the_final_finalizer_is_set() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.log.fail("add");
    rig.world.create("web", 1).await;
    // The event of the guard is no reason to call at once.
    assert_eq!(rig.logged().await, "web [wip], add web=1");
    pass(3600).await;
    assert_eq!(rig.logged().await, "add web=1, web [own]");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_add_is_repeated_by_any_event() {
    let rig = Rig::new();
    let controller = (builder().retry_policy(windlass_controller::NeverRetry))
        .build()
        .expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_watcher(&leases, rig.watcher());
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.log.fail("add");
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], add web=1");
    rig.world.label("web", "a").await;
    assert_eq!(rig.logged().await, "add web=1, web [own]");
    running.stop(&rig).await;
}

/// The guard shows that an add has begun, and not that it has succeeded.
#[tokio::test(start_paused = true)]
async fn a_failed_add_is_repeated_although_another_writer_removed_the_guard() {
    for is_watcher in [true, false] {
        let rig = Rig::new();
        let controller = (builder().retry_policy(windlass_controller::NeverRetry))
            .build()
            .expect("good settings");
        let leases = controller.kind("leases").expect("a new kind");
        let (add, added) = if is_watcher {
            ("add", controller.add_watcher(&leases, rig.watcher()))
        } else {
            let reconciler = rig.reconciler();
            ("created", controller.add_reconciler(&leases, reconciler))
        };
        added.expect("added");
        let running = rig.start(controller, &leases, None).await;
        rig.log.fail(add);
        rig.world.create("web", 1).await;
        assert_eq!(rig.logged().await, format!("web [wip], {add} web=1"));
        rig.world.set_finalizers("web", &[]).await;
        assert_eq!(
            rig.logged().await,
            format!("web [wip], {add} web=1, web [own]")
        );
        running.stop(&rig).await;
    }
}

/// Rows: GA-76, GA-80, GA-82
#[tokio::test(start_paused = true)]
async fn the_finalizer_is_removed_only_after_the_delete_has_succeeded() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.log.fail("delete");
    rig.log.fail("delete");
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "delete web=1");
    assert_eq!(rig.world.finalizers("web").await, "own");
    pass(3600).await;
    // The real deletion is not dispatched.
    assert_eq!(rig.logged().await, "delete web=1, delete web=1, web []");
    assert_eq!(rig.world.finalizers("web").await, "gone");
    running.stop(&rig).await;
}

/// Rows: GA-77, GA-85
#[tokio::test(start_paused = true)]
async fn an_object_added_by_an_earlier_process_is_synced() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    running.stop(&rig).await;

    let running = rig.watch(rig.watcher()).await;
    assert_eq!(rig.logged().await, "sync web=1");
    running.stop(&rig).await;

    let to_add = OpinionatedWatcher::new(rig.finalizers(), rig.log.watcher()).sync_to_add();
    let running = rig.watch(to_add).await;
    assert_eq!(rig.logged().await, "add web=1");
    running.stop(&rig).await;

    let unset = OpinionatedWatcher::new(rig.finalizers(), rig.log.watcher());
    let running = rig.watch(unset).await;
    assert_eq!(rig.logged().await, "");
    // All else goes to the watcher.
    rig.world.update("web", 2).await;
    rig.world.delete("web").await;
    assert_eq!(
        rig.logged().await,
        "update web=1 web=2, delete web=2, web []"
    );
    running.stop(&rig).await;
}

/// Rows: GA-75, GA-78
#[tokio::test(start_paused = true)]
async fn a_delete_from_downtime_is_dispatched_after_the_start() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    running.stop(&rig).await;
    rig.world.delete("web").await;
    assert_eq!(rig.world.finalizers("web").await, "own");

    // A finalizer of another writer, which we never had.
    rig.world.create("other", 1).await;
    rig.world
        .set_finalizers("other", &["test.windlass.dev/theirs"])
        .await;
    rig.world.delete("other").await;

    let running = rig.watch(rig.watcher()).await;
    assert_eq!(rig.logged().await, "delete web=1, web []");
    assert_eq!(rig.world.finalizers("other").await, "theirs");
    running.stop(&rig).await;
}

/// Rows: GA-79, GA-81
#[tokio::test(start_paused = true)]
async fn an_update_is_dispatched_if_the_generation_has_changed() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.label("web", "a").await;
    assert_eq!(rig.logged().await, "");
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "update web=1 web=2");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_finalizer_of_another_writer_is_dispatched() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    let theirs = "test.windlass.dev/theirs";
    rig.world.set_finalizers("web", &[theirs, OWN]).await;
    assert_eq!(rig.logged().await, "update web=1 web=1");
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "delete web=1, web [theirs]");
    // No second clean-up runs while the first one takes its time.
    rig.world.label("web", "a").await;
    rig.world.set_finalizers("web", &[]).await;
    assert_eq!(rig.logged().await, "");
    assert_eq!(rig.world.finalizers("web").await, "gone");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_removed_by_another_writer_is_restored_without_a_second_add() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.world.set_finalizers("web", &[]).await;
    assert_eq!(rig.logged().await, "web [own]");
    running.stop(&rig).await;
}

/// Rows: GA-86
#[tokio::test(start_paused = true)]
async fn unset_functions_are_skipped_and_the_finalizer_is_still_set_and_removed() {
    let rig = Rig::new();
    let nothing = || OpinionatedWatcher::new(rig.finalizers(), SimpleWatcher::<Lease>::new());
    let running = rig.watch(nothing()).await;
    rig.world.create("web", 1).await;
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "web [wip], web [own]");
    running.stop(&rig).await;
    let running = rig.watch(nothing()).await;
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "web []");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_resync_is_always_dispatched_and_repeats_exhausted_calls() {
    let rig = Rig::new();
    let controller = (builder().retry_policy(windlass_controller::NeverRetry))
        .build()
        .expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_watcher(&leases, rig.watcher());
    added.expect("added");
    let running = rig.start(controller, &leases, Some(60)).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    pass(62).await;
    assert_eq!(rig.logged().await, "sync web=1");

    rig.log.fail("delete");
    rig.world.delete("web").await;
    assert_eq!(rig.logged().await, "delete web=1");
    pass(60).await;
    assert_eq!(rig.logged().await, "delete web=1, web []");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_update_keeps_its_old_state_despite_a_label_change() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.log.fail("update");
    rig.world.update("web", 2).await;
    assert_eq!(rig.logged().await, "update web=1 web=2");
    // The event has the same generation, and is merged into the pending call.
    rig.world.label("web", "a").await;
    assert_eq!(rig.logged().await, "");
    pass(6).await;
    assert_eq!(rig.logged().await, "update web=1 web=2");
    rig.world.label("web", "b").await;
    assert_eq!(rig.logged().await, "");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_is_retried_despite_a_label_change() {
    let rig = Rig::new();
    let running = rig.watch(rig.watcher()).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    running.stop(&rig).await;
    rig.log.fail("sync");
    let running = rig.watch(rig.watcher()).await;
    assert_eq!(rig.logged().await, "sync web=1");
    rig.world.label("web", "a").await;
    assert_eq!(rig.logged().await, "");
    pass(6).await;
    assert_eq!(rig.logged().await, "sync web=1");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_successful_call_is_not_repeated_because_its_finalizer_was_not_written() {
    for fault in [Fault::Fails(2), Fault::LosesReply(2)] {
        let rig = Rig::new();
        rig.world.plan(fault.clone()).await;
        let running = rig.watch(rig.watcher()).await;
        rig.world.create("web", 1).await;
        pass(60).await;
        assert_eq!(
            rig.logged().await,
            "web [wip], add web=1, web [own]",
            "{fault:?}"
        );
        running.stop(&rig).await;
    }
    for fault in [Fault::Fails(3), Fault::LosesReply(3)] {
        let rig = Rig::new();
        rig.world.plan(fault.clone()).await;
        let running = rig.watch(rig.watcher()).await;
        rig.world.create("web", 1).await;
        rig.logged().await;
        rig.world.delete("web").await;
        pass(60).await;
        assert_eq!(rig.logged().await, "delete web=1, web []", "{fault:?}");
        running.stop(&rig).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_during_the_add_is_dispatched_afterwards() {
    let rig = Rig::new();
    let (log, world) = (rig.log.clone(), rig.world.clone());
    let adding = rig.log.watcher().on_add(move |object: Arc<Lease>| {
        let (log, world) = (log.clone(), world.clone());
        async move {
            log.say(format_args!("add {}", crate::support::show(&object)));
            world.update("web", 2).await;
            Ok::<_, std::convert::Infallible>(())
        }
    });
    let running = rig
        .watch(OpinionatedWatcher::new(rig.finalizers(), adding))
        .await;
    rig.world.create("web", 1).await;
    assert_eq!(
        rig.logged().await,
        "web [wip], add web=1, web [own], update web=1 web=2"
    );
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_deleted_during_the_add_is_cleaned_up_and_gets_no_finalizer() {
    let rig = Rig::new();
    let (log, world) = (rig.log.clone(), rig.world.clone());
    let adding = rig.log.watcher().on_add(move |_: Arc<Lease>| {
        let (log, world) = (log.clone(), world.clone());
        async move {
            log.say("add");
            world.delete("web").await;
            Ok::<_, std::convert::Infallible>(())
        }
    });
    let running = rig
        .watch(OpinionatedWatcher::new(rig.finalizers(), adding))
        .await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], add, delete web=1, web []");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn an_add_receives_the_object_with_the_guard() {
    let rig = Rig::new();
    let log = rig.log.clone();
    let adding = SimpleWatcher::new().on_add(move |object: Arc<Lease>| {
        log.say(
            object
                .metadata
                .resource_version
                .as_deref()
                .unwrap_or("none"),
        );
        async { Ok::<_, std::convert::Infallible>(()) }
    });
    let running = rig
        .watch(OpinionatedWatcher::new(rig.finalizers(), adding))
        .await;
    rig.world.create("web", 1).await;
    // With the version before the guard, whatever it writes would conflict.
    assert_eq!(rig.logged().await, "web [wip], 2, web [own]");
    running.stop(&rig).await;
}

/// A watcher can be called directly, without a controller; it then has nothing to remember.
#[tokio::test(start_paused = true)]
async fn a_kept_pending_call_does_not_repeat_the_delete() {
    let rig = Rig::new();
    let controller = builder()
        .retry_dequeue_policy(NeverDequeue)
        .retry_policy(ExponentialBackoff::new(
            std::time::Duration::from_secs(1),
            9,
        ))
        .build()
        .expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_watcher(&leases, rig.watcher());
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    let theirs = "test.windlass.dev/theirs";
    rig.world.create("web", 1).await;
    rig.world.set_finalizers("web", &[OWN, theirs]).await;
    rig.logged().await;
    rig.log.fail("delete");
    rig.world.delete("web").await;
    rig.world.label("web", "a").await;
    pass(600).await;
    assert_eq!(
        rig.logged().await,
        "delete web=1, delete web=1, web [theirs]"
    );
    running.stop(&rig).await;
}

#[tokio::test]
async fn a_watcher_in_a_watcher_is_a_watcher() {
    fn is_watcher(_: &impl Watcher<Lease>) {}
    let rig = Rig::new();
    is_watcher(&OpinionatedWatcher::new(rig.finalizers(), rig.watcher()));
}

#[tokio::test(start_paused = true)]
async fn a_failed_resync_is_retried_by_the_watcher() {
    let rig = Rig::new();
    let controller = (builder().retry_policy(windlass_controller::NeverRetry))
        .build()
        .expect("good settings");
    let watcher = OpinionatedWatcher::new(rig.finalizers(), rig.log.watcher());
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_watcher(&leases, watcher);
    added.expect("added");
    let running = rig.start(controller, &leases, Some(60)).await;
    rig.world.create("web", 1).await;
    rig.logged().await;
    rig.log.fail("update");
    // Its resync is an update from the object to itself.
    pass(62).await;
    assert_eq!(rig.logged().await, "update web=1 web=1");
    rig.world.label("web", "a").await;
    assert_eq!(rig.logged().await, "update web=1 web=1");
    rig.world.label("web", "b").await;
    assert_eq!(rig.logged().await, "");
    running.stop(&rig).await;
}
