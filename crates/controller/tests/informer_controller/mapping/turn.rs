//! When the returned objects are dispatched: in their lane, and not once for each change.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::Semaphore;
use windlass_controller::{Coalescing, Failure, InformerController, Outcome, Request};
use windlass_informer::{Informer, Scripted};

use super::themes::{map, rig, start, used_by};
use crate::support::{KIND, Refused, ask, config, secs, settle, word};

#[tokio::test(start_paused = true)]
async fn a_thousand_changes_are_not_a_thousand_calls() {
    for delivery in [Coalescing::Never, Coalescing::Always] {
        let (rig, themes) = rig(InformerController::builder().coalescing(delivery));
        let gate = Arc::new(Semaphore::new(0));
        let calls = Arc::new(AtomicUsize::new(0));
        let slow = {
            let (gate, calls) = (Arc::clone(&gate), Arc::clone(&calls));
            move |_: Request<ConfigMap>| {
                let (gate, calls) = (Arc::clone(&gate), Arc::clone(&calls));
                async move {
                    gate.acquire().await?.forget();
                    calls.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, Failure>(Outcome::done())
                }
            }
        };
        rig.reconcile(slow);
        map(&rig, used_by);
        let running = start(rig, &themes).await;
        running.apply(config("site-1", 0)).await;
        settle().await;
        for version in 0..1000 {
            let mut theme = config("dark", 1);
            theme.metadata.resource_version = Some(version.to_string());
            themes.apply(theme).await.expect("it runs");
        }
        settle().await;
        gate.add_permits(Semaphore::MAX_PERMITS);
        settle().await;
        assert_eq!(calls.load(Ordering::Relaxed), 2, "{delivery:?}");
        running.stop().await.expect("it stops");
    }
}

/// The first lists come at once, and the handlers are far behind.
#[tokio::test(start_paused = true)]
async fn nobody_is_told_again_before_being_told() {
    let one = 1.try_into().expect("not zero");
    let (rig, themes) = rig(InformerController::builder().queue(one).concurrency(one));
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let log = log.clone();
        async move {
            tokio::time::sleep(secs(1)).await;
            let name = request.key().name().to_owned();
            log.say(format_args!("{} {name}", word(request.action())));
            Ok::<_, Refused>(Outcome::done())
        }
    });
    map(&rig, used_by);
    let running = rig.start();
    let list = (0..100).map(|site| config(&format!("site-{site}"), 0));
    let sites = running.rig.script.list(list);
    let list = (0..100).map(|site| config(&format!("theme-{site}"), site));
    let (sites, themes) = tokio::join!(sites, themes.list(list));
    sites.and(themes).expect("it runs");
    tokio::time::sleep(secs(1000)).await;
    let said = running.said().await;
    let said: Vec<_> = said.split(", ").collect();
    for site in 0..100 {
        let at = |action: &str| {
            let line = format!("{action} site-{site}");
            said.iter().position(|it| *it == line)
        };
        let created = at("created").expect("it was dispatched");
        assert!(at("resynced").is_none_or(|at| created < at), "{site}");
    }
    assert!(said.len() <= 200, "{}", said.len());
    running.stop().await.expect("it stops");
}

/// It is as urgent as the change that woke it, and nothing that was there at the start is.
#[tokio::test(start_paused = true)]
async fn who_is_named_does_not_wait_for_the_first_list() {
    let one = 1.try_into().expect("not zero");
    let (rig, themes) = rig(InformerController::builder().concurrency(one));
    let gate = Arc::new(Semaphore::new(1));
    let (log, pass) = (rig.log.clone(), Arc::clone(&gate));
    rig.reconcile(move |request: Request<ConfigMap>| {
        let (log, pass) = (log.clone(), Arc::clone(&pass));
        async move {
            log.say(ask(&request));
            pass.acquire().await?.forget();
            Ok::<_, Failure>(Outcome::done())
        }
    });
    map(&rig, used_by);
    let running = start(rig, &themes).await;
    running.apply(config("site-1", 0)).await;
    assert_eq!(running.said().await, "created site-1=0");
    let (script, source) = Scripted::new();
    let controller = &running.rig.controller;
    controller
        .add_informer(KIND, &Informer::new(source))
        .expect("added");
    let list = ["l1", "l2", "l3"].map(|name| config(name, 1));
    script.list(list).await.expect("it runs");
    assert_eq!(running.said().await, "created l1=1");
    themes.apply(config("dark", 1)).await.expect("it runs");
    settle().await;
    gate.add_permits(9);
    assert_eq!(
        running.said().await,
        "resynced site-1=0, created l2=1, created l3=1"
    );
    running.stop().await.expect("it stops");
}
