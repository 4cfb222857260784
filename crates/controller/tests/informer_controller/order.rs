//! The order in which handlers are called.

use std::{collections::HashSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use windlass_controller::{
    ExponentialBackoff, InformerController, Outcome, Request, SimpleWatcher,
};

use crate::support::{Log, Refused, Rig, config, pass, settle, show};

/// Rows: GA-20, GA-21, GA-32
#[tokio::test(start_paused = true)]
async fn watchers_of_a_kind_are_called_one_after_the_other_in_add_order() {
    let rig = Rig::new(InformerController::builder());
    let log = rig.log.clone();
    let slow = |name: &'static str, millis: u64| {
        let log = log.clone();
        SimpleWatcher::new().on_add(move |object: Arc<ConfigMap>| {
            let log = log.clone();
            async move {
                log.say(format_args!("{name} begins {}", show(&object)));
                tokio::time::sleep(Duration::from_millis(millis)).await;
                log.say(format_args!("{name} ends"));
                Ok::<_, Refused>(())
            }
        })
    };
    // The earlier is the slower: if they ran concurrently, or in another order, it would show.
    rig.watch(slow("first", 90))
        .watch(slow("second", 30))
        .watch(slow("third", 0));

    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        running.logged().await,
        "first begins web=1, first ends, second begins web=1, second ends, \
         third begins web=1, third ends"
    );
    running.stop().await.expect("it stops");
}

/// Rows: GA-29, GA-30, BO-55
#[tokio::test(start_paused = true)]
async fn reconcilers_of_a_kind_are_called_in_add_order_for_adds_updates_and_deletes() {
    let rig = Rig::new(InformerController::builder());
    rig.reconcile(rig.log.reconciler("first"))
        .reconcile(rig.log.reconciler("second"));

    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(
        running.logged().await,
        "first created web=1, second created web=1"
    );
    running.apply(config("web", 2)).await;
    assert_eq!(
        running.logged().await,
        "first updated web=2, second updated web=2"
    );
    running.delete(config("web", 2)).await;
    assert_eq!(
        running.logged().await,
        "first deleted web=2, second deleted web=2"
    );
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn all_watchers_come_before_all_reconcilers() {
    let rig = Rig::new(InformerController::builder());
    rig.reconcile(rig.log.reconciler("r1"))
        .watch(rig.log.watcher("w1"))
        .reconcile(rig.log.reconciler("r2"))
        .watch(rig.log.watcher("w2"));

    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(
        running.logged().await,
        "w1 add web=1, w2 add web=1, r1 created web=1, r2 created web=1"
    );
    running.stop().await.expect("it stops");
}

/// Rows: GA-103
#[tokio::test(start_paused = true)]
async fn an_add_an_update_and_a_delete_may_each_fail_and_are_then_called_again() {
    let failures = Log::default();
    let hook = failures.clone();
    let rig = Rig::new(
        InformerController::builder()
            .retry_policy(ExponentialBackoff::GRAFANA)
            .on_error(move |failed| {
                hook.say(format_args!("{} {}", failed.action.as_str(), failed.error));
            }),
    );
    // Each call fails once.
    let (log, called) = (rig.log.clone(), Arc::new(Mutex::new(HashSet::new())));
    let call = move |line: String| {
        log.say(&line);
        let is_first = called.lock().insert(line);
        async move {
            if is_first {
                return Err(Refused("not yet"));
            }
            Ok(())
        }
    };
    let (add, update, delete) = (call.clone(), call.clone(), call);
    rig.watch(
        SimpleWatcher::new()
            .on_add(move |object: Arc<ConfigMap>| add(format!("add {}", show(&object))))
            .on_update(move |old: Arc<ConfigMap>, new: Arc<ConfigMap>| {
                update(format!("update {} {}", show(&old), show(&new)))
            })
            .on_delete(move |last: Arc<ConfigMap>| delete(format!("delete {}", show(&last)))),
    );

    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(60).await;
    assert_eq!(running.logged().await, "add web=1, add web=1");
    running.apply(config("web", 2)).await;
    pass(60).await;
    assert_eq!(
        running.logged().await,
        "update web=1 web=2, update web=1 web=2"
    );
    running.delete(config("web", 3)).await;
    pass(60).await;
    assert_eq!(running.logged().await, "delete web=3, delete web=3");
    assert_eq!(
        failures.take().await,
        "CREATE the handler failed, UPDATE the handler failed, DELETE the handler failed"
    );
    running.stop().await.expect("it stops");
}

/// Rows: GA-31, GA-103, GA-109
#[tokio::test(start_paused = true)]
async fn the_method_that_matches_the_event_is_called_if_it_is_set() {
    let rig = Rig::new(InformerController::builder());
    let log = rig.log.clone();
    let only_deletes = SimpleWatcher::new().on_delete(move |last: Arc<ConfigMap>| {
        log.say(format_args!("only deletes: {}", show(&last)));
        async { Ok::<_, Refused>(()) }
    });
    rig.watch(rig.log.watcher("w")).watch(only_deletes);

    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(config("web", 2)).await;
    running.delete(config("web", 3)).await;
    assert_eq!(
        running.logged().await,
        "w add web=1, w update web=1 web=2, w delete web=3, only deletes: web=3"
    );
    running.stop().await.expect("it stops");
}

/// Rows: GA-89
#[tokio::test(start_paused = true)]
async fn initial_objects_are_dispatched_as_created() {
    let rig = Rig::new(InformerController::builder());
    rig.reconcile(rig.log.reconciler("r"));
    let running = rig.start();
    let list = running
        .rig
        .script
        .list([config("api", 1), config("web", 2)]);
    list.await.expect("it runs");
    assert_eq!(running.logged().await, "r created api=1, r created web=2");
    running.stop().await.expect("it stops");
}

/// Rows: GA-90
#[tokio::test(start_paused = true)]
async fn a_deletion_mark_is_an_update_and_the_end_is_a_delete() {
    let rig = Rig::new(InformerController::builder());
    rig.reconcile(rig.log.reconciler("r"));
    let running = rig.start_empty().await;

    let mut object = config("web", 1);
    object.metadata.finalizers = Some(vec!["example.io/ours".to_owned()]);
    running.apply(object.clone()).await;
    object.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
        ));
    object.metadata.resource_version = Some("2".to_owned());
    running.apply(object.clone()).await;
    running.delete(object).await;
    assert_eq!(
        running.logged().await,
        "r created web=1, r updated web=1, r deleted web=1"
    );
    running.stop().await.expect("it stops");
}

/// Calls for one object never overlap, and another object does not wait for it.
#[tokio::test(start_paused = true)]
async fn calls_of_one_object_are_serialized_and_of_others_concurrent() {
    let rig = Rig::new(InformerController::builder());
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let log = log.clone();
        async move {
            log.say(format_args!("{} begins", show(request.object())));
            tokio::time::sleep(Duration::from_secs(1)).await;
            log.say(format_args!("{} ends", show(request.object())));
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    settle().await;
    running.apply(config("web", 2)).await;
    running.apply(config("api", 1)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(
        running.logged().await,
        "web=1 begins, api=1 begins, web=1 ends, web=2 begins, api=1 ends, web=2 ends"
    );
    running.stop().await.expect("it stops");
}

/// A new object under an old name comes after the end of the old one.
#[tokio::test(start_paused = true)]
async fn a_recreated_object_is_a_delete_and_an_add() {
    let rig = Rig::new(InformerController::builder());
    rig.reconcile(rig.log.reconciler("r"));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(crate::support::reborn("web", 2)).await;
    assert_eq!(
        running.logged().await,
        "r created web=1, r deleted web=1, r created web=2"
    );
    running.stop().await.expect("it stops");
}
