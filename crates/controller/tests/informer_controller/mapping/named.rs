//! The objects that a mapper returns: they are dispatched again in their newest state.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::Semaphore;
use windlass_controller::{Coalescing, Failure, InformerController, Outcome, Request};
use windlass_informer::{Informer, ObjectKey, Scripted};

use super::themes::{map, rig, sites, sorted, start, used_by};
use crate::support::{Rig, ask, config, show};

/// Rows: KR-05, KR-17
#[tokio::test(start_paused = true)]
async fn a_mapped_object_is_dispatched_again_in_its_newest_state() {
    let (rig, themes) = rig(InformerController::builder());
    rig.watch(rig.log.watcher("w"))
        .reconcile(rig.log.reconciler("r"));
    map(&rig, &themes.kind, used_by);
    let running = start(rig, &themes).await;
    running.apply(config("site-1", 1)).await;
    running.apply(config("site-1", 2)).await;
    running.apply(config("site-2", 1)).await;
    running.logged().await;

    themes.apply(config("dark", 1)).await.expect("it runs");
    assert_eq!(
        running.logged().await,
        "w update site-1=2 site-1=2, r resynced site-1=2"
    );
    themes.delete(config("dark", 1)).await.expect("it runs");
    assert_eq!(
        running.logged().await,
        "w update site-1=2 site-1=2, r resynced site-1=2"
    );
    running.stop().await.expect("it stops");
}

/// Rows: BO-09
#[tokio::test(start_paused = true)]
async fn a_changed_reference_dispatches_the_old_and_the_new_object() {
    let running = sites(InformerController::builder(), used_by).await;
    let themes = &running.1;
    themes.apply(config("dark", 1)).await.expect("it runs");
    assert_eq!(running.0.logged().await, "r resynced site-1=0");
    themes.apply(config("dark", 2)).await.expect("it runs");
    assert_eq!(sorted(&running.0.logged().await), [1, 2]);
    themes.apply(config("dark", 2)).await.expect("it runs");
    assert_eq!(running.0.logged().await, "", "nothing changed");
    running.0.stop().await.expect("it stops");
}

/// The handler of the changed object is slow and receives one coalesced event: both targets are
/// dispatched nevertheless.
#[tokio::test(start_paused = true)]
async fn a_repeatedly_changed_reference_dispatches_every_referenced_object() {
    let (rig, themes) = rig(InformerController::builder().coalescing(Coalescing::Always));
    rig.reconcile(rig.log.reconciler("r"));
    map(&rig, &themes.kind, used_by);
    let gate = Arc::new(Semaphore::new(0));
    let late = {
        let (gate, log) = (Arc::clone(&gate), rig.log.clone());
        move |request: Request<ConfigMap>| {
            let (gate, log) = (Arc::clone(&gate), log.clone());
            async move {
                gate.acquire().await?.forget();
                log.say(format_args!("theme {}", ask(&request)));
                Ok::<_, Failure>(Outcome::done())
            }
        }
    };
    let added = rig.controller.add_reconciler(&themes.kind, late);
    added.expect("added");
    let running = start(rig, &themes).await;
    for site in 1..=4 {
        running.apply(config(&format!("site-{site}"), 0)).await;
    }
    running.logged().await;
    for site in 1..=4 {
        themes.apply(config("dark", site)).await.expect("it runs");
    }
    let mut woken = sorted(&running.logged().await);
    woken.dedup();
    assert_eq!(woken, [1, 2, 3, 4]);
    gate.add_permits(9);
    assert_eq!(
        running.logged().await,
        "theme created dark=1, theme updated dark=4"
    );
    running.stop().await.expect("it stops");
}

/// Rows: KR-17
#[tokio::test(start_paused = true)]
async fn a_mapper_can_return_no_keys_many_keys_and_keys_of_missing_objects() {
    let named = |theme: &ConfigMap| {
        let sites = match show(theme).as_str() {
            "light=1" => vec!["site-1", "site-9", "site-2", "site-1"],
            _ => Vec::new(),
        };
        sites
            .into_iter()
            .map(|site| ObjectKey::new(site).within("shop"))
            .collect::<Vec<_>>()
    };
    let (running, themes) = sites(InformerController::builder(), named).await;
    themes.apply(config("dark", 1)).await.expect("it runs");
    assert_eq!(running.logged().await, "");
    themes.apply(config("light", 1)).await.expect("it runs");
    assert_eq!(sorted(&running.logged().await), [1, 2]);
    // The object was mapped before it existed, and is dispatched like any other.
    running.apply(config("site-9", 1)).await;
    assert_eq!(running.logged().await, "r created site-9=1");
    running.stop().await.expect("it stops");
}

/// A mapper for objects of its own kind dispatches them, and is not called for the mapped objects.
#[tokio::test(start_paused = true)]
async fn a_mapped_object_is_not_mapped_again() {
    let rig = Rig::new(InformerController::builder());
    rig.reconcile(rig.log.reconciler("r"));
    rig.controller
        .add_mapper(&rig.kind, &rig.kind, |_: &ConfigMap| {
            ["a", "b"].map(|name| ObjectKey::new(name).within("shop"))
        })
        .expect("added");
    let running = rig.start_empty().await;
    running.apply(config("a", 1)).await;
    running.logged().await;
    running.apply(config("b", 1)).await;
    let logged = running.logged().await;
    let mut logged: Vec<_> = logged.split(", ").collect();
    logged.sort_unstable();
    assert_eq!(logged, ["r created b=1", "r resynced a=1"]);
    running.stop().await.expect("it stops");
}

/// Objects in the second informer of the kind are found too.
#[tokio::test(start_paused = true)]
async fn a_mapped_key_is_looked_up_in_every_informer_of_the_kind() {
    let (running, themes) = sites(InformerController::builder(), used_by).await;
    let (script, source) = Scripted::new();
    let controller = &running.rig.controller;
    controller
        .add_informer(&running.rig.kind, &Informer::new(source))
        .expect("added");
    script.list([config("site-7", 0)]).await.expect("it runs");
    running.logged().await;
    themes.apply(config("dark", 7)).await.expect("it runs");
    assert_eq!(running.logged().await, "r resynced site-7=0");
    running.stop().await.expect("it stops");
}

/// The first informer of the themes lags, and is removed: the newer state that another one has is
/// mapped.
#[tokio::test(start_paused = true)]
async fn the_state_that_follows_the_removal_of_an_informer_is_mapped() {
    let (running, themes) = sites(InformerController::builder(), used_by).await;
    themes.apply(config("dark", 1)).await.expect("it runs");
    assert_eq!(running.logged().await, "r resynced site-1=0");
    let (ahead, source) = Scripted::new();
    let controller = &running.rig.controller;
    let added = controller.add_informer(&themes.kind, &Informer::new(source));
    added.expect("another one of the kind");
    ahead.list([config("dark", 3)]).await.expect("it runs");
    assert_eq!(running.logged().await, "");
    assert!(controller.remove_informer(&themes.informer));
    assert_eq!(running.logged().await, "r resynced site-3=0");
    running.stop().await.expect("it stops");
}
