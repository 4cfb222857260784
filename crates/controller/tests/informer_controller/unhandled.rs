//! Kinds without handlers: their events go to the mappers, and take no turn.

use std::num::NonZeroUsize;

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_controller::{InformerController, Kind, Outcome, Request, SameName};
use windlass_informer::{Informer, Script, Scripted};

use crate::support::{Refused, Rig, ask, config, pass, settle};

/// Adds another kind, with an informer.
fn add_kind(rig: &Rig, name: &str) -> (Kind<ConfigMap>, Script<ConfigMap>) {
    let (script, source) = Scripted::new();
    let kind = rig.controller.kind(name).expect("a new kind");
    let informer = Informer::new(source);
    rig.controller
        .add_informer(&kind, &informer)
        .expect("added");
    (kind, script)
}

/// The number of queued lanes, and of events of `kind`.
fn counted(rig: &Rig, kind: &str) -> String {
    let registry = prometheus::Registry::new();
    for collector in rig.controller.prometheus_collectors() {
        registry.register(collector).expect("new");
    }
    let (mut depth, mut events) = (0.0, 0.0);
    for family in registry.gather() {
        for metric in family.get_metric() {
            if family.name() == "workqueue_depth" {
                depth += metric.get_gauge().get_value();
            }
            let is_kind =
                (metric.get_label().iter()).any(|it| it.name() == "kind" && it.value() == kind);
            if family.name().ends_with("informer_events_total") && is_kind {
                events += metric.get_counter().get_value();
            }
        }
    }
    format!("{depth} lanes, {events} events")
}

#[tokio::test(start_paused = true)]
async fn the_events_of_a_kind_without_handlers_take_no_lane_and_reach_its_mappers() {
    let rig = Rig::new(InformerController::builder().concurrency(NonZeroUsize::MIN));
    let (others, script) = add_kind(&rig, "others");
    let mapped = rig.controller.add_mapper(&others, &rig.kind, SameName);
    mapped.expect("a mapper");
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(ask(&request));
        async {
            pass(100).await;
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let running = rig.start();
    script
        .list([config("a", 1), config("b", 1)])
        .await
        .expect("it runs");
    let list = [config("a", 1)];
    running.rig.script.list(list).await.expect("it runs");
    assert_eq!(running.logged().await, "created a=1");
    assert_eq!(
        counted(&running.rig, "others"),
        "0 lanes, 2 events",
        "the first list"
    );
    for name in ["b", "c", "d"] {
        script.apply(config(name, 2)).await.expect("it runs");
    }
    settle().await;
    assert_eq!(counted(&running.rig, "others"), "0 lanes, 5 events");
    script.apply(config("a", 2)).await.expect("it runs");
    pass(100).await;
    assert_eq!(running.logged().await, "resynced a=1");
    running.stop().await.expect("it stops");
}

/// A handler that is added before the first calls gets the first list, and what changed since.
#[tokio::test(start_paused = true)]
async fn a_handler_that_is_added_before_sync_gets_the_first_list() {
    let rig = Rig::new(InformerController::builder());
    rig.watch(rig.log.watcher("w"));
    let (others, script) = add_kind(&rig, "others");
    let running = rig.start();
    script
        .list([config("a", 1), config("b", 1)])
        .await
        .expect("it runs");
    script.apply(config("a", 2)).await.expect("it runs");
    assert_eq!(running.logged().await, "", "the other informer lists");
    let late = running.rig.log.watcher("late");
    let added = running.rig.controller.add_watcher(&others, late);
    let added = added.expect("a watcher");
    running.rig.script.list([]).await.expect("it runs");
    settle().await;
    let mut calls: Vec<_> = running
        .logged()
        .await
        .split(", ")
        .map(str::to_owned)
        .collect();
    calls.sort();
    assert_eq!(
        calls,
        ["late add a=1", "late add b=1", "late update a=1 a=2"]
    );

    // And without a handler again, no event waits for the next one.
    added.remove();
    settle().await;
    script.apply(config("a", 3)).await.expect("it runs");
    settle().await;
    let next = running.rig.log.watcher("next");
    let next = running.rig.controller.add_watcher(&others, next);
    next.expect("a watcher");
    script.apply(config("a", 4)).await.expect("it runs");
    assert_eq!(running.logged().await, "next update a=3 a=4");
    running.stop().await.expect("it stops");
}
