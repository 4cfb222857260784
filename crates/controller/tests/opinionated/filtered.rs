//! Predicates in wrappers and around them.

use k8s_openapi::api::coordination::v1::Lease;
use windlass_controller::{
    Coalescing, Filtered, LabelsChanged, OpinionatedReconciler, Outcome, Reconciler, Request,
    Watcher,
};
use windlass_informer::Event;

use crate::support::{Refused, Rig, Running, builder, pass, show, word};

/// Refuses updates.
const NO_UPDATES: fn(&Event<Lease>) -> bool = |event| !matches!(event, Event::Updated { .. });

/// `filter` of a wrapper gives the predicate to the handler in it.
#[tokio::test(start_paused = true)]
async fn a_filter_of_a_wrapper_decides_about_calls_and_not_about_the_finalizer() {
    for wrapped_watcher in [true, false] {
        let rig = Rig::new();
        let start = async || {
            if wrapped_watcher {
                rig.watch(rig.watcher().filter(LabelsChanged)).await
            } else {
                rig.reconcile(rig.reconciler().filter(LabelsChanged)).await
            }
        };
        let word = if wrapped_watcher { "delete" } else { "deleted" };
        let running = start().await;
        rig.world.create("web", 1).await;
        rig.logged().await;
        rig.world.update("web", 2).await;
        assert_eq!(rig.logged().await, "", "the labels are the same");
        // Another writer removes the finalizer: it is put back, and nothing is called.
        rig.world.set_finalizers("web", &[]).await;
        assert_eq!(rig.logged().await, "web [own]");
        rig.world.delete("web").await;
        assert_eq!(rig.logged().await, format!("{word} web=2, web []"));
        assert_eq!(rig.world.finalizers("web").await, "gone");
        running.stop(&rig).await;
    }
}

/// The predicate of the trait's `filter` is outside of the wrapper.
#[tokio::test(start_paused = true)]
async fn a_predicate_around_a_wrapper_strands_no_object() {
    for wrapped_watcher in [true, false] {
        let rig = Rig::new();
        let start = async || -> Running {
            if wrapped_watcher {
                rig.watch(Watcher::filter(rig.watcher(), NO_UPDATES)).await
            } else {
                let around: Filtered<_, _> = Reconciler::filter(rig.reconciler(), NO_UPDATES);
                rig.reconcile(around).await
            }
        };
        let (add, delete) = if wrapped_watcher {
            ("add", "delete")
        } else {
            ("created", "deleted")
        };
        let running = start().await;
        rig.world.create("web", 1).await;
        // The events of our own patches are not passed on.
        assert_eq!(
            rig.logged().await,
            format!("web [wip], {add} web=1, web [own]")
        );
        rig.world.update("web", 2).await;
        assert_eq!(rig.logged().await, "");
        rig.world.set_finalizers("web", &[]).await;
        assert!(
            rig.logged().await.starts_with("web [own]"),
            "it is put back"
        );
        rig.log.fail(delete);
        rig.world.delete("web").await;
        assert_eq!(rig.logged().await, format!("{delete} web=2"));
        pass(60).await;
        assert_eq!(rig.logged().await, format!("{delete} web=2, web []"));
        assert_eq!(rig.world.finalizers("web").await, "gone");
        running.stop(&rig).await;
    }
}

/// Also an object that was deleted while the operator was down, or before its
/// clean-up.
#[tokio::test(start_paused = true)]
async fn a_predicate_around_a_wrapper_keeps_no_delete_from_it() {
    let rig = Rig::new();
    let only_first = |event: &Event<Lease>| {
        (event.object()).is_some_and(|object| show(object).ends_with("=1"))
            && matches!(event, Event::Added(_))
    };
    let start = async || {
        let around = Reconciler::filter(rig.reconciler(), only_first);
        rig.reconcile(around).await
    };
    let running = start().await;
    rig.world.create("web", 1).await;
    rig.world.create("api", 1).await;
    rig.logged().await;
    rig.world.update("web", 2).await;
    running.stop(&rig).await;
    rig.world.delete("web").await;
    let running = start().await;
    assert!(rig.logged().await.contains("deleted web=2, web []"));

    rig.log.fail("deleted");
    rig.world.delete("api").await;
    assert_eq!(rig.logged().await, "deleted api=1");
    rig.world.set_finalizers("api", &[]).await;
    assert_eq!(rig.logged().await, "deleted api=1");

    // No function is called for an object that the wrapper has not handled.
    rig.world.create("other", 2).await;
    rig.world.delete("other").await;
    assert_eq!(rig.logged().await, "");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_passes_all_predicates_of_a_wrapped_handler_or_is_not_made() {
    for wrapped_watcher in [true, false] {
        let rig = Rig::new();
        let web = |event: &Event<Lease>| {
            (event.object()).is_some_and(|object| show(object).starts_with("web"))
        };
        let running = if wrapped_watcher {
            rig.watch(rig.watcher().filter(web).filter(NO_UPDATES))
                .await
        } else {
            rig.reconcile(rig.reconciler().filter(NO_UPDATES).filter(web))
                .await
        };
        rig.world.create("api", 1).await;
        assert_eq!(rig.logged().await, "api [wip], api [own]");
        rig.world.create("web", 1).await;
        let word = if wrapped_watcher { "add" } else { "created" };
        let added = format!("web [wip], {word} web=1, web [own]");
        assert_eq!(rig.logged().await, added);
        rig.world.update("web", 2).await;
        assert_eq!(rig.logged().await, "");
        running.stop(&rig).await;
    }
}

/// Versions that are not numbers are not compared: a change of another writer, which came with the
/// event of our patch, is not taken for that patch.
#[tokio::test(start_paused = true)]
async fn a_change_of_another_client_is_dispatched_with_non_numeric_versions() {
    let rig = Rig::new();
    rig.world.version_names().await;
    let (log, world) = (rig.log.clone(), rig.world.clone());
    let inner = move |request: Request<Lease>| {
        let (log, world) = (log.clone(), world.clone());
        async move {
            let labels = request.object().metadata.labels.iter().flatten();
            let labels: Vec<_> = labels.map(|(_, value)| value.clone()).collect();
            let action = word(request.action());
            log.say(format_args!("{action} [{}]", labels.join(" ")));
            if action == "created" {
                world.label("web", "new").await;
                // Meanwhile the events become one.
                pass(1).await;
            }
            Ok::<_, Refused>(Outcome::done())
        }
    };
    let controller = (builder().coalescing(Coalescing::Always).build()).expect("good settings");
    let wrapped = OpinionatedReconciler::new(rig.finalizers(), inner);
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_reconciler(&leases, wrapped);
    added.expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.world.create("web", 1).await;
    pass(2).await;
    assert_eq!(
        rig.logged().await,
        "web [wip], created [], web [own], updated [new]"
    );
    running.stop(&rig).await;
}
