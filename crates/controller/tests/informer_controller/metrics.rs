//! The metrics of a controller.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use k8s_openapi::api::core::v1::ConfigMap;
use prometheus::{Encoder, Registry, TextEncoder};
use tokio::sync::Semaphore;
use windlass_controller::{
    Action, Coalescing, ErrorReport, ExponentialBackoff, Failure, InformerController, NeverRetry,
    Outcome, Request,
};

use crate::support::{Refused, Rig, Running, ask, config, pass, secs, settle};

/// A registry with the collectors of a controller.
pub(crate) fn registry(controller: &InformerController) -> Registry {
    let registry = Registry::new();
    for collector in controller.prometheus_collectors() {
        registry.register(collector).expect("no name twice");
    }
    registry
}

/// All series of a registry, by name and labels.
pub(crate) fn series(registry: &Registry) -> BTreeMap<String, String> {
    let mut text = Vec::new();
    TextEncoder::new()
        .encode(&registry.gather(), &mut text)
        .expect("text");
    let text = String::from_utf8(text).expect("utf-8");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            (series.to_owned(), value.to_owned())
        })
        .collect()
}

/// The metrics of informers and controllers in docs/observability.md, each with its labels.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/observability.md");
    let page = std::fs::read_to_string(page).expect("the page can be read");
    let (page, _) = page.split_once("## Operators").expect("a section");
    let metrics = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        let (name, labels) = (cells.next()?, cells.nth(1)?);
        let labels = labels.split(", ").filter(|label| !label.is_empty());
        let name = name.trim_end_matches('`').to_owned();
        Some((name, labels.map(str::to_owned).collect()))
    });
    metrics.collect()
}

/// The metric of a series without the prefix `acme_`, and its labels except that of the controller.
fn metric(series: &str) -> (String, BTreeSet<String>) {
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let is_ours = !name.starts_with("controller_runtime_") && !name.starts_with("workqueue_");
    assert_eq!(name.starts_with("acme_"), is_ours, "{name}");
    let name = name.trim_start_matches("acme_");
    let suffixes = ["_bucket", "_sum", "_count"].iter();
    let name = suffixes.fold(name, |name, it| name.strip_suffix(it).unwrap_or(name));
    let labels = labels.trim_end_matches('}').split(',');
    let labels = labels.filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
    let labels = labels.filter(|label| label != "controller" && label != "le");
    (name.to_owned(), labels.collect())
}

fn value(running: &Running, series_name: &str) -> String {
    let all = series(&registry(&running.rig.controller));
    match all.get(series_name) {
        Some(value) => value.clone(),
        None => panic!("no {series_name} in {all:#?}"),
    }
}

/// Rows: GA-34, GA-40
#[tokio::test(start_paused = true)]
async fn the_collectors_have_the_names_and_labels_that_dashboards_know() {
    let builder = InformerController::builder()
        .name("shop")
        .metrics_namespace("acme")
        .on_error(|_| {})
        .retry_policy(NeverRetry);
    let rig = Rig::new(builder);
    rig.watch(rig.log.watcher("w"))
        .reconcile(|_: Request<ConfigMap>| async { Err::<Outcome, _>(Refused("no")) });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(config("web", 2)).await;
    settle().await;

    let labels = |event: &str| format!(r#"controller="shop",event_type="{event}",kind="configs""#);
    let (create, update) = (labels("CREATE"), labels("UPDATE"));
    for (series, expected) in [
        (format!("acme_informer_events_total{{{create}}}"), "1"),
        (format!("acme_informer_events_total{{{update}}}"), "1"),
        (format!("acme_informer_reconcile_duration_seconds_count{{{create}}}"), "1"),
        (format!("acme_reconciler_process_duration_seconds_count{{{create}}}"), "1"),
        (format!("acme_watcher_process_duration_seconds_count{{{create}}}"), "1"),
        (format!("acme_ongoing_reconcile_processes{{{create}}}"), "0"),
        (format!("acme_ongoing_reconcile_events{{{create}}}"), "0"),
        (format!("acme_reconciler_errors_total{{{update}}}"), "1"),
        (format!("acme_watcher_errors_total{{{update}}}"), "0"),
        (r#"acme_retries_exhausted_total{controller="shop",kind="configs"}"#.into(), "2"),
        (r#"acme_event_handler_latency_seconds_count{controller="shop",kind="configs"}"#.into(), "2"),
        (r#"controller_runtime_reconcile_total{controller="shop",kind="configs",result="error"}"#.into(), "2"),
        (r#"controller_runtime_reconcile_errors_total{controller="shop",kind="configs"}"#.into(), "2"),
        (r#"controller_runtime_max_concurrent_reconciles{controller="shop"}"#.into(), "16"),
        (r#"workqueue_adds_total{controller="shop",name="shop"}"#.into(), "2"),
        (r#"workqueue_depth{controller="shop",name="shop"}"#.into(), "0"),
        (r#"acme_informer_store_objects{controller="shop",kind="configs"}"#.into(), "1"),
    ] {
        let value = value(&running, &series);
        assert_eq!(value, expected, "{series}");
    }
    // Every series is documented, with these labels and no others.
    let mut documented = documented();
    let series = series(&registry(&running.rig.controller));
    let found: BTreeMap<_, _> = series.keys().map(|series| metric(series)).collect();
    for (name, labels) in found {
        assert_eq!(documented.remove(&name), Some(labels), "{name}");
    }
    // No list and no watch has ended, and no handler has named a step.
    let without_series: Vec<_> = documented.into_keys().collect();
    assert_eq!(
        without_series,
        [
            "informer_watch_restarts_total",
            "reconcile_step_duration_seconds"
        ]
    );
    running.stop().await.expect("it stops");
}

/// The gauges count running first calls and retries, and no others.
#[tokio::test(start_paused = true)]
async fn gauges_return_to_zero() {
    let rig = Rig::new(
        InformerController::builder()
            .name("informer-controller")
            .retry_policy(windlass_controller::ExponentialBackoff::GRAFANA)
            .on_error(|_| {}),
    );
    rig.reconcile(|request: Request<ConfigMap>| async move {
        tokio::time::sleep(secs(10)).await;
        if request.attempt() == 0 {
            return Err(Refused("not yet"));
        }
        Ok(Outcome::done())
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    let labels = r#"controller="informer-controller",event_type="CREATE",kind="configs""#;
    let gauges = [
        format!("ongoing_reconcile_processes{{{labels}}}"),
        format!("ongoing_reconcile_events{{{labels}}}"),
        r#"controller_runtime_active_workers{controller="informer-controller"}"#.to_owned(),
        r#"pending_retries{controller="informer-controller"}"#.to_owned(),
    ];
    let now = || -> [i64; 4] {
        gauges
            .clone()
            .map(|gauge| value(&running, &gauge).parse().expect("a whole number"))
    };
    pass(1).await;
    assert_eq!(now(), [1, 1, 1, 0], "the first call");
    pass(10).await;
    assert_eq!(now(), [0, 0, 0, 1], "a retry is pending");
    pass(5).await;
    assert_eq!(now(), [1, 1, 1, 0], "the retry");
    pass(10).await;
    assert_eq!(now(), [0, 0, 0, 0], "nothing");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn panics_and_requeues_are_counted_as_such() {
    let rig = Rig::new(
        InformerController::builder()
            .name("informer-controller")
            .on_error(|_| {})
            .retry_policy(NeverRetry),
    );
    rig.reconcile(|request: Request<ConfigMap>| async move {
        assert!(request.key().name() != "bad", "bad");
        Ok::<_, Refused>(Outcome::requeue_after(secs(3600)))
    });
    let running = rig.start_empty().await;
    running.apply(config("bad", 1)).await;
    running.apply(config("web", 1)).await;
    settle().await;
    let kind = r#"controller="informer-controller",kind="configs""#;
    for (series, expected) in [
        (
            format!("controller_runtime_reconcile_panics_total{{{kind}}}"),
            "1",
        ),
        (
            format!("controller_runtime_reconcile_total{{{kind},result=\"requeue_after\"}}"),
            "1",
        ),
        (
            format!("controller_runtime_reconcile_total{{{kind},result=\"success\"}}"),
            "0",
        ),
    ] {
        let value = value(&running, &series);
        assert_eq!(value, expected, "{series}");
    }
    running.stop().await.expect("it stops");
}

/// Waits, retries, coalesced events and failed watchers are counted where dashboards look for them.
///
/// Rows: GA-34
#[tokio::test(start_paused = true)]
async fn waits_retries_coalesced_events_and_failed_watchers_are_counted() {
    let seen = Mutex::new(HashSet::new());
    let rig = Rig::new(
        InformerController::builder()
            .name("shop")
            .concurrency(NonZeroUsize::MIN)
            .coalescing(Coalescing::Always)
            .retry_policy(ExponentialBackoff::GRAFANA)
            .on_error(|_| {}),
    );
    rig.watch(rig.log.failing("w", 1))
        .reconcile(move |request: Request<ConfigMap>| {
            // The first call of each object asks to be repeated.
            let is_first = seen.lock().expect("no panic").insert(request.key().clone());
            async move {
                if request.key().name() == "slow" {
                    tokio::time::sleep(secs(10)).await;
                }
                let again = is_first.then(|| Outcome::requeue_after(secs(20)));
                Ok::<_, Refused>(again.unwrap_or_else(Outcome::done))
            }
        });
    let running = rig.start_empty().await;
    // The first call of the watcher fails. While the reconciler is slow, three updates coalesce.
    running.apply(config("slow", 1)).await;
    settle().await;
    for value in [1, 2, 3, 4] {
        running.apply(config("web", value)).await;
    }
    // A call of the watcher is repeated after 5 s and one of each reconciler after 20 s; each
    // waits for the one worker.
    pass(120).await;

    let name = r#"controller="shop""#;
    let queue = r#"controller="shop",name="shop""#;
    for (series, expected) in [
        (
            format!(r#"watcher_errors_total{{{name},event_type="CREATE",kind="configs"}}"#),
            "1",
        ),
        (
            format!(r#"informer_events_total{{{name},event_type="UPDATE",kind="configs"}}"#),
            "3",
        ),
        // Two objects were added; the updates became one event with the add.
        (format!("workqueue_adds_total{{{queue}}}"), "2"),
        // One failed call and two requeues.
        (format!("workqueue_retries_total{{{queue}}}"), "3"),
        // Two events and three repeated calls.
        (
            format!("workqueue_queue_duration_seconds_count{{{queue}}}"),
            "5",
        ),
        (
            format!("workqueue_work_duration_seconds_count{{{queue}}}"),
            "5",
        ),
        (
            format!(r#"event_handler_latency_seconds_count{{{name},kind="configs"}}"#),
            "2",
        ),
        // Two events and two requeues; the call that failed was one of the watcher.
        (
            format!(r#"controller_runtime_reconcile_time_seconds_count{{{name},kind="configs"}}"#),
            "4",
        ),
    ] {
        let value = value(&running, &series);
        assert_eq!(value, expected, "{series}");
    }
    // The event of `web` waited for the slow call of ten seconds, which began a millisecond before.
    for series in [
        format!("workqueue_queue_duration_seconds_sum{{{queue}}}"),
        format!(r#"event_handler_latency_seconds_sum{{{name},kind="configs"}}"#),
    ] {
        let waited = value(&running, &series);
        let waited: f64 = waited.parse().expect("a number");
        assert!((9.9..40.0).contains(&waited), "{series} {waited}");
    }
    // The call of `slow` took ten seconds, and so did its requeue.
    let took = value(
        &running,
        &format!(r#"controller_runtime_reconcile_time_seconds_sum{{{name},kind="configs"}}"#),
    );
    let took: f64 = took.parse().expect("a number");
    assert!((20.0..21.0).contains(&took), "{took}");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn the_depth_of_the_queue_is_the_number_of_objects_that_wait_for_a_worker() {
    let rig = Rig::new(
        InformerController::builder()
            .name("shop")
            .concurrency(NonZeroUsize::MIN),
    );
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    rig.reconcile(move |_: Request<ConfigMap>| {
        let opened = Arc::clone(&opened);
        async move {
            opened.acquire().await?.forget();
            Ok::<_, Failure>(Outcome::done())
        }
    });
    let running = rig.start_empty().await;
    let depth = || {
        value(
            &running,
            r#"workqueue_depth{controller="shop",name="shop"}"#,
        )
    };
    for name in ["called", "a", "b", "c"] {
        running.apply(config(name, 1)).await;
    }
    // An object waits once.
    running.apply(config("c", 2)).await;
    settle().await;
    assert_eq!(depth(), "3");
    gate.add_permits(2);
    settle().await;
    assert_eq!(depth(), "1");
    gate.add_permits(9);
    settle().await;
    assert_eq!(depth(), "0");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn the_series_of_a_removed_kind_are_removed() {
    let rig = Rig::new(InformerController::builder().on_error(|_| {}));
    rig.watch(rig.log.failing("w", 1))
        .reconcile(rig.log.reconciler("r"));
    rig.controller
        .add_mapper(&rig.kind, &rig.kind, |_: &ConfigMap| None)
        .expect("the kind is there");
    let (controller, informer) = (rig.controller.clone(), rig.informer.clone());
    let registry = registry(&controller);
    let mut running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(config("web", 2)).await;
    running.delete(config("web", 3)).await;
    pass(60).await;
    let of_kind = || -> Vec<String> {
        let names = series(&registry).into_keys();
        names
            .filter(|name| name.contains(r#"kind="configs""#))
            .collect()
    };
    assert!(of_kind().len() > 100, "{:#?}", of_kind());

    let spare = controller.kind("spare").expect("a new kind");
    let kind = std::mem::replace(&mut running.rig.kind, spare);
    assert_eq!(controller.remove_all_watchers(&kind), 1);
    assert_eq!(controller.remove_all_reconcilers(&kind), 1);
    assert_eq!(controller.remove_all_mappers(&kind), 1);
    assert!(controller.remove_informer(&informer));
    drop(kind);
    settle().await;
    assert_eq!(of_kind(), Vec::<String>::new());
    running.stop().await.expect("it stops");
}

/// The engine keeps 10,000 pending deletes of a kind. The call that it drops for another one is
/// kept as a dead letter, and counted as one.
#[tokio::test(start_paused = true)]
async fn a_pending_delete_that_is_dropped_for_another_becomes_a_dead_letter() {
    const DELETES: usize = 10_001;
    let rig = Rig::new(
        InformerController::builder()
            .name("shop")
            .on_error(|_| {})
            .retry_policy(|_: &ErrorReport<'_>| Some(secs(3600))),
    );
    let (log, failing) = (rig.log.clone(), Arc::new(AtomicBool::new(true)));
    let fails = Arc::clone(&failing);
    rig.reconcile(move |request: Request<ConfigMap>| {
        let fails = fails.load(Ordering::Relaxed) && request.action() == Action::Deleted;
        log.say(ask(&request));
        async move {
            if fails {
                return Err(Refused("no"));
            }
            Ok(Outcome::done())
        }
    });
    let controller = rig.controller.clone();
    let running = rig.start();
    let object = |number: usize| config(&format!("web-{number}"), 1);
    let list = running.rig.script.list((0..DELETES).map(object));
    list.await.expect("it runs");
    settle().await;
    for number in 0..DELETES {
        running.delete(object(number)).await;
    }
    running.logged().await;
    assert_eq!(controller.pending_calls(), DELETES - 1);
    let exhausted = r#"retries_exhausted_total{controller="shop",kind="configs"}"#;
    assert_eq!(value(&running, exhausted), "1");
    let letters = controller.dead_letters();
    assert_eq!(letters.len(), 1, "{letters:#?}");
    assert_eq!(letters[0].key.name(), "web-0", "the oldest");
    assert_eq!(letters[0].action, Action::Deleted);
    assert_eq!(letters[0].attempts, 1);

    failing.store(false, Ordering::Relaxed);
    assert!(controller.redrive(&letters[0]));
    assert_eq!(running.logged().await, "deleted web-0=1");
    running.stop().await.expect("it stops");
}

/// A registry outlives the controller. It includes the counts since its last gathering, once.
#[tokio::test(start_paused = true)]
async fn counters_are_kept_after_the_controller_ends() {
    let rig = Rig::new(
        InformerController::builder()
            .name("informer-controller")
            .on_error(|_| {}),
    );
    let handler = Arc::new(());
    let there = Arc::downgrade(&handler);
    rig.reconcile(move |_: Request<ConfigMap>| {
        let handler = Arc::clone(&handler);
        async move {
            tokio::time::sleep(secs(10)).await;
            drop(handler);
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let registry = registry(&rig.controller);
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(60).await;
    running.apply(config("web", 2)).await;
    pass(1).await;
    let name = r#"controller="informer-controller""#;
    let active = format!("controller_runtime_active_workers{{{name}}}");
    assert_eq!(series(&registry)[&active], "1", "the second call");
    running.stop().await.expect("it stops");
    assert!(there.upgrade().is_none(), "the controller is still there");

    let kind = r#"kind="configs""#;
    let labels = |event: &str| format!(r#"{name},event_type="{event}",{kind}"#);
    let (create, update) = (labels("CREATE"), labels("UPDATE"));
    let all = series(&registry);
    for (series, expected) in [
        (format!("informer_events_total{{{create}}}"), "1"),
        (format!("informer_events_total{{{update}}}"), "1"),
        (
            format!("reconciler_process_duration_seconds_count{{{create}}}"),
            "1",
        ),
        (
            format!("reconciler_process_duration_seconds_count{{{update}}}"),
            "1",
        ),
        (format!("ongoing_reconcile_processes{{{update}}}"), "0"),
        (format!("ongoing_reconcile_events{{{update}}}"), "0"),
        (
            format!(r#"controller_runtime_reconcile_total{{{name},{kind},result="success"}}"#),
            "2",
        ),
        (
            format!(r#"workqueue_adds_total{{{name},name="informer-controller"}}"#),
            "2",
        ),
        (active, "0"),
    ] {
        assert_eq!(all[&series], expected, "{series}");
    }
}

/// Two controllers with names of their own can be in one registry.
#[test]
fn controllers_of_different_names_share_a_registry() {
    let registry = Registry::new();
    for name in ["first", "second"] {
        let controller = InformerController::builder().name(name).build();
        for collector in controller.expect("good settings").prometheus_collectors() {
            registry.register(collector).expect("another name");
        }
    }
}

/// The objects in the stores of a kind, also of informers that had objects before, that other
/// controllers use, or that are removed.
#[tokio::test(start_paused = true)]
async fn the_objects_of_a_kind_are_those_of_the_informers_that_it_has() {
    const OBJECTS: &str = r#"informer_store_objects{controller="shop",kind="configs"}"#;
    const LISTS: &str = r#"informer_lists_total{controller="shop",kind="configs"}"#;
    let objects = |controller: &InformerController| series(&registry(controller))[OBJECTS].clone();
    let builder = || InformerController::builder().name("shop").on_error(|_| {});
    let rig = Rig::new(builder());
    rig.watch(rig.log.watcher("w"));
    let (informer, controller) = (rig.informer.clone(), rig.controller.clone());
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(config("api", 1)).await;
    settle().await;
    assert_eq!(objects(&controller), "2");

    // Another controller, which counts for itself.
    let other = builder().build().expect("good settings");
    let configs = other.kind("configs").expect("a new kind");
    other.add_informer(&configs, &informer).expect("added");
    assert_eq!(objects(&other), "2");
    running.delete(config("api", 2)).await;
    settle().await;
    assert_eq!(
        (objects(&controller), objects(&other)),
        ("1".into(), "1".into())
    );

    // The kind stays, because it has a handler.
    assert!(controller.remove_informer(&informer));
    assert_eq!(
        (objects(&controller), objects(&other)),
        ("0".into(), "1".into())
    );
    controller
        .add_informer(&running.rig.kind, &informer)
        .expect("added again");
    assert_eq!(objects(&controller), "1");

    // With the kind its series are removed, and created again with it.
    assert!(other.remove_informer(&informer));
    drop(configs);
    assert_eq!(series(&registry(&other)).get(OBJECTS), None);
    let configs = other.kind("configs").expect("the name is free");
    other
        .add_informer(&configs, &informer)
        .expect("added again");
    informer.relist();
    running
        .rig
        .script
        .list([config("web", 1)])
        .await
        .expect("it runs");
    settle().await;
    assert_eq!(objects(&other), "1");
    assert_eq!(series(&registry(&other))[LISTS], "1");
    running.stop().await.expect("it stops");
}

/// The run is dropped during a call.
#[tokio::test(start_paused = true)]
async fn gauges_return_to_zero_after_an_abort() {
    let rig = Rig::new(InformerController::builder().name("shop"));
    rig.reconcile(|_: Request<ConfigMap>| std::future::pending::<Result<Outcome, Refused>>());
    let registry = registry(&rig.controller);
    let run = tokio::spawn({
        let (controller, stop) = (rig.controller.clone(), rig.stop.clone());
        async move { controller.run(stop).await }
    });
    rig.script.list([config("web", 1)]).await.expect("it runs");
    settle().await;
    let labels = r#"controller="shop",event_type="CREATE",kind="configs""#;
    let gauges = [
        format!("ongoing_reconcile_processes{{{labels}}}"),
        format!("ongoing_reconcile_events{{{labels}}}"),
        r#"controller_runtime_active_workers{controller="shop"}"#.to_owned(),
    ];
    for gauge in &gauges {
        assert_eq!(series(&registry)[gauge], "1", "{gauge}");
    }
    run.abort();
    assert!(run.await.is_err());
    settle().await;
    for gauge in &gauges {
        assert_eq!(series(&registry)[gauge], "0", "{gauge}");
    }
}

/// The informer continues to exist, for other controllers.
#[tokio::test(start_paused = true)]
async fn a_dropped_controller_has_no_objects_in_its_stores() {
    let rig = Rig::new(InformerController::builder().name("shop"));
    rig.watch(rig.log.watcher("w"));
    let (registry, informer) = (registry(&rig.controller), rig.informer.clone());
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.logged().await;
    let objects = r#"informer_store_objects{controller="shop",kind="configs"}"#;
    assert_eq!(series(&registry)[objects], "1");
    running.stop().await.expect("it stops");
    assert_eq!(informer.store().len(), 1);
    assert_eq!(series(&registry)[objects], "0");
}

/// A call that was active at the stop ends normally, and its event is not queued again.
#[tokio::test(start_paused = true)]
async fn an_event_whose_call_ends_after_the_stop_is_not_in_the_queue() {
    let rig = Rig::new(InformerController::builder().name("shop"));
    rig.reconcile(|_: Request<ConfigMap>| async {
        tokio::time::sleep(secs(10)).await;
        Ok::<_, Refused>(Outcome::done())
    });
    let (registry, controller) = (registry(&rig.controller), rig.controller.clone());
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    settle().await;
    running.stop().await.expect("it stops");
    let depth = r#"workqueue_depth{controller="shop",name="shop"}"#;
    assert_eq!(series(&registry)[depth], "0");
    drop(controller);
}

#[tokio::test(start_paused = true)]
async fn the_queued_events_of_a_removed_kind_are_dropped() {
    let builder = InformerController::builder()
        .name("shop")
        .concurrency(NonZeroUsize::MIN);
    let rig = Rig::new(builder);
    rig.reconcile(|_: Request<ConfigMap>| std::future::pending::<Result<Outcome, Refused>>());
    let registry = registry(&rig.controller);
    let mut running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(config("api", 1)).await;
    settle().await;
    let depth = r#"workqueue_depth{controller="shop",name="shop"}"#;
    assert_eq!(series(&registry)[depth], "1", "the second object");
    let controller = &running.rig.controller;
    assert_eq!(controller.remove_all_reconcilers(&running.rig.kind), 1);
    assert!(controller.remove_informer(&running.rig.informer));
    let spare = controller.kind("spare").expect("a new kind");
    running.rig.kind = spare;
    settle().await;
    assert_eq!(series(&registry)[depth], "0");
}
