//! Adding and removing informers, watchers and reconcilers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use windlass_controller::{
    AddError, InformerController, Outcome, Registration, Request, Role, SameName, SimpleWatcher,
};
use windlass_informer::{HealthState, Informer, Scripted};

use crate::{
    support::{KIND, Log, Refused, Rig, config, pass, settle},
    wrapping::wrapped_reconciler,
};

/// Rows: GA-05
#[test]
fn the_same_informer_is_added_once() {
    let rig = Rig::new(InformerController::builder());
    let other = rig.controller.kind("another name").expect("a new kind");
    for kind in [rig.kind.clone(), other] {
        let again = rig.controller.add_informer(&kind, &rig.informer.clone());
        match again {
            Err(AddError::InformerAlreadyAdded { kind }) => assert_eq!(kind, KIND),
            other => panic!("{other:?}"),
        }
    }
}

/// Rows: GA-33
#[test]
fn a_kind_has_a_name_of_its_own() {
    let controller = InformerController::new();
    let nameless = controller.kind::<ConfigMap>("");
    assert!(matches!(nameless, Err(AddError::EmptyKind)), "{nameless:?}");

    let configs = controller.kind::<ConfigMap>(KIND).expect("a new kind");
    assert_eq!(configs.name(), KIND);
    let again = controller.kind::<Secret>(KIND).expect_err("it exists");
    assert!(matches!(&again, AddError::KindExists { kind } if kind == KIND));
    let clone = configs.clone();
    drop(configs);
    assert!(controller.kind::<Secret>(KIND).is_err(), "a handle is left");
    drop(clone);
    controller.kind::<Secret>(KIND).expect("the name is free");
}

#[test]
fn a_kind_of_another_controller_is_refused() {
    let (controller, other) = (InformerController::new(), InformerController::new());
    let (ours, theirs) = (
        controller.kind::<ConfigMap>(KIND).expect("a new kind"),
        other.kind::<ConfigMap>(KIND).expect("a new kind"),
    );
    let log = Log::default();
    let informer = Informer::new(Scripted::<ConfigMap>::new().1);
    let watcher = other.add_watcher(&theirs, log.watcher("w"));
    watcher.expect("its own kind");
    for refused in [
        controller.add_informer(&theirs, &informer).err(),
        controller.add_watcher(&theirs, log.watcher("w")).err(),
        (controller.add_reconciler(&theirs, log.reconciler("r"))).err(),
        controller.add_mapper(&theirs, &ours, SameName).err(),
        controller.add_mapper(&ours, &theirs, SameName).err(),
    ] {
        let refused = refused.expect("of another controller");
        assert!(
            matches!(&refused, AddError::OtherController { kind } if kind == KIND),
            "{refused}"
        );
    }
    assert!(controller.health().is_empty(), "nothing was added");
    assert_eq!(controller.remove_all_watchers(&theirs), 0);
    assert_eq!(controller.remove_all_reconcilers(&theirs), 0);
    assert_eq!(controller.remove_all_mappers(&theirs), 0);
    assert_eq!(other.remove_all_watchers(&theirs), 1);
}

/// Rows: GA-27
#[tokio::test(start_paused = true)]
async fn the_name_of_a_kind_only_ties_informers_to_handlers() {
    let rig = Rig::new(InformerController::builder());
    let other = rig.log.reconciler("other");
    rig.reconcile(rig.log.reconciler("ours"));
    let anything_at_all = rig.controller.kind("anything at all").expect("a new kind");
    rig.controller
        .add_reconciler(&anything_at_all, other)
        .expect("any name");
    // An informer of the same type under another name does not concern our handlers.
    let (script, source) = Scripted::new();
    rig.controller
        .add_informer(&anything_at_all, &Informer::new(source))
        .expect("another informer");

    let running = rig.start_empty().await;
    script.list([config("theirs", 1)]).await.expect("it runs");
    assert_eq!(running.logged().await, "other created theirs=1");
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "ours created web=1");
    running.stop().await.expect("it stops");
}

/// Rows: GA-28
#[tokio::test(start_paused = true)]
async fn events_of_all_informers_of_a_kind_reach_all_its_handlers() {
    let rig = Rig::new(InformerController::builder());
    let (script, source) = Scripted::new();
    rig.controller
        .add_informer(&rig.kind, &Informer::new(source))
        .expect("a second informer");
    rig.watch(rig.log.watcher("w1"))
        .watch(rig.log.watcher("w2"));

    let running = rig.start_empty().await;
    script.list([config("theirs", 1)]).await.expect("it runs");
    assert_eq!(running.logged().await, "w1 add theirs=1, w2 add theirs=1");
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "w1 add web=1, w2 add web=1");
    running.stop().await.expect("it stops");
}

/// Rows: GA-37
#[tokio::test(start_paused = true)]
async fn a_removed_watcher_is_not_called_and_the_others_keep_their_order() {
    let rig = Rig::new(InformerController::builder());
    let mut watchers = Vec::new();
    for name in ["w1", "w2", "w3"] {
        let watcher = rig.log.watcher(name);
        let added = rig.controller.add_watcher(&rig.kind, watcher);
        watchers.push(added.expect("added"));
    }
    let running = rig.start_empty().await;
    let controller = &running.rig.controller;
    let other = Rig::new(InformerController::builder());
    other.watch(other.log.watcher("w1"));
    assert!(watchers[1].remove());
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "w1 add web=1, w3 add web=1");

    assert!(!watchers[1].remove(), "it was removed");
    assert_eq!(
        controller.remove_all_reconcilers(&running.rig.kind),
        0,
        "no watcher is one"
    );
    let other = other.controller.remove_all_watchers(&other.kind);
    assert_eq!(other, 1, "handlers of other controllers are not affected");
    running.apply(config("web", 2)).await;
    assert_eq!(
        running.logged().await,
        "w1 update web=1 web=2, w3 update web=1 web=2"
    );
    running.stop().await.expect("it stops");
}

/// Rows: GA-35, GA-36, GA-38
#[tokio::test(start_paused = true)]
async fn one_or_all_handlers_of_a_kind_are_removed() {
    let rig = Rig::new(InformerController::builder());
    let add = |name| {
        let added = (rig.controller).add_reconciler(&rig.kind, rig.log.reconciler(name));
        added.expect("added")
    };
    let first: Registration = add("r1");
    add("r2");
    add("r3");
    rig.watch(rig.log.watcher("w1"))
        .watch(rig.log.watcher("w2"));
    let running = rig.start_empty().await;
    let controller = running.rig.controller.clone();

    assert_eq!(first.role(), Role::Reconciler);
    assert!(first.remove());
    assert!(!first.remove());
    running.apply(config("web", 1)).await;
    assert_eq!(
        running.logged().await,
        "w1 add web=1, w2 add web=1, r2 created web=1, r3 created web=1"
    );

    assert_eq!(controller.remove_all_watchers(&running.rig.kind), 2);
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "r2 updated web=2, r3 updated web=2");

    assert_eq!(controller.remove_all_reconcilers(&running.rig.kind), 2);
    let unused = controller.kind::<ConfigMap>("unused").expect("a new kind");
    assert_eq!(controller.remove_all_reconcilers(&unused), 0);
    running.apply(config("web", 3)).await;
    assert_eq!(running.logged().await, "");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn handlers_and_informers_are_added_and_removed_while_it_runs() {
    let running = Rig::new(InformerController::builder()).start_empty().await;
    let (controller, log) = (running.rig.controller.clone(), running.rig.log.clone());
    let kind = running.rig.kind.clone();
    controller
        .add_watcher(&kind, log.watcher("late"))
        .expect("added");

    let (script, source) = Scripted::new();
    let informer = Informer::new(source);
    controller.add_informer(&kind, &informer).expect("added");
    script.list([config("theirs", 1)]).await.expect("it runs");
    assert_eq!(running.logged().await, "late add theirs=1");

    assert!(controller.remove_informer(&informer));
    assert!(!controller.remove_informer(&informer));
    running.logged().await;
    assert!(matches!(informer.health().state, HealthState::Stopped));
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "late add web=1");
    // Defect 9: it can be added again, and shows what is there then.
    controller
        .add_informer(&kind, &informer)
        .expect("added again");
    script.list([config("theirs", 2)]).await.expect("it runs");
    assert_eq!(running.logged().await, "late add theirs=2");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_removed_while_the_one_before_it_is_called_is_not_called() {
    let rig = Rig::new(InformerController::builder());
    let log = rig.log.clone();
    rig.watch(SimpleWatcher::new().on_add(move |_: Arc<ConfigMap>| {
        log.say("begins");
        pass_and_end(log.clone())
    }));
    let second = (rig.controller).add_watcher(&rig.kind, rig.log.watcher("second"));
    rig.watch(rig.log.watcher("third"));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "begins");
    assert!(second.expect("added").remove());
    pass(5).await;
    assert_eq!(running.logged().await, "ends, third add web=1");
    running.stop().await.expect("it stops");
}

async fn pass_and_end(log: Log) -> Result<(), Refused> {
    pass(3).await;
    log.say("ends");
    Ok(())
}

/// One informer is replaced by another one that shows the same objects: these get no event until
/// the first one is removed, and then continue with the second one.
///
/// Rows: GA-90
#[tokio::test(start_paused = true)]
async fn an_informer_takes_over_the_objects_of_the_one_that_it_replaces() {
    let rig = Rig::new(InformerController::builder());
    rig.watch(rig.log.watcher("w"));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "w add web=1");

    let (script, source) = Scripted::new();
    let second = Informer::new(source);
    let controller = &running.rig.controller;
    controller
        .add_informer(&running.rig.kind, &second)
        .expect("added");
    settle().await;
    script.list([config("web", 1)]).await.expect("it runs");
    assert_eq!(running.logged().await, "", "it is known");
    // On its way when the informer is removed: it may come or not, but changes nothing.
    running.apply(config("web", 2)).await;
    assert!(controller.remove_informer(&running.rig.informer));
    running.logged().await;

    script.apply(config("web", 3)).await.expect("it runs");
    let logged = running.logged().await;
    assert!(logged.ends_with("web=3"), "{logged}");
    script.delete(config("web", 4)).await.expect("it runs");
    assert_eq!(running.logged().await, "w delete web=4");
    running.stop().await.expect("it stops");
}

/// D20: while its informer is removed, the deletion of an object is not reported.
#[tokio::test(start_paused = true)]
async fn a_failed_call_is_not_repeated_for_an_object_that_no_informer_has() {
    let rig = Rig::new(InformerController::builder());
    rig.watch(rig.log.failing("w", usize::MAX));
    let running = rig.start_empty().await;
    for name in ["gone", "kept"] {
        running.apply(config(name, 1)).await;
        assert_eq!(running.logged().await, format!("w add {name}=1"));
    }
    let Rig {
        controller,
        kind,
        informer,
        script,
        ..
    } = &running.rig;
    assert!(controller.remove_informer(informer));
    running.logged().await;
    controller
        .add_informer(kind, informer)
        .expect("added again");
    script.list([config("kept", 1)]).await.expect("it runs");
    pass(3600).await;
    let logged = running.logged().await;
    assert!(logged.contains("kept"), "{logged}");
    assert!(!logged.contains("gone"), "{logged}");
    assert_eq!(controller.pending_calls(), 1);
    running.stop().await.expect("it stops");
}

#[test]
fn a_rejected_registration_adds_nothing() {
    let controller = InformerController::new();
    let configs = controller.kind::<ConfigMap>(KIND).expect("a new kind");
    let others = controller.kind::<ConfigMap>("others").expect("a new kind");
    for kind in [&configs, &others] {
        let informer = Informer::new(Scripted::new().1);
        controller.add_informer(kind, &informer).expect("added");
    }
    controller
        .add_reconciler(&configs, wrapped_reconciler())
        .expect("added");
    let refused = controller.add_reconciler(&others, wrapped_reconciler());
    let refused = refused.expect_err("the finalizer is taken");
    assert!(
        matches!(refused, AddError::FinalizerTaken { .. }),
        "{refused}"
    );
    assert_eq!(controller.remove_all_reconcilers(&others), 0);
}

/// Also while all workers wait for work.
#[tokio::test(start_paused = true)]
async fn the_code_of_a_removed_handler_is_dropped() {
    let rig = Rig::new(InformerController::builder());
    let alive = Arc::new(());
    let held = Arc::downgrade(&alive);
    rig.reconcile(move |_: Request<ConfigMap>| {
        let alive = Arc::clone(&alive);
        async move {
            drop(alive);
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let running = rig.start_empty().await;
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        running.apply(config(name, 1)).await;
    }
    pass(1).await;
    assert_eq!(held.strong_count(), 1);
    assert_eq!(
        running
            .rig
            .controller
            .remove_all_reconcilers(&running.rig.kind),
        1
    );
    pass(1).await;
    assert_eq!(held.strong_count(), 0);
    running.stop().await.expect("it stops");
}
