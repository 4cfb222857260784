//! Events in unusual orders: each test is a defect that was found, by the number that it had.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::DynamicObject;
use windlass_controller::{
    AddError, DeleteRetry, ExponentialBackoff, GenerationChanged, InformerController,
    InformerControllerBuilder, NeverDequeue, OpinionatedRetryDequeuePolicy, Outcome, Reconciler,
    Request, TypedReconciler, Watcher,
};
use windlass_informer::{Change, Changes, Informer, Scripted, Source, WatchError};

use crate::support::{
    KIND, Log, Refused, Rig, ask, config, generation, pass, reborn, secs, settle,
};

fn quiet() -> InformerControllerBuilder {
    InformerController::builder()
        .retry_policy(ExponentialBackoff::GRAFANA)
        .on_error(|_| {})
}

/// Defect 2. Rows: GA-07
#[tokio::test(start_paused = true)]
async fn after_a_delete_no_older_call_of_its_uid_is_made() {
    let rigs = [
        Rig::new(quiet().retry_dequeue_policy(OpinionatedRetryDequeuePolicy)),
        Rig::new(quiet().retry_dequeue_policy(NeverDequeue)),
    ];
    for rig in rigs {
        rig.watch(rig.log.failing("w", 2)).watch(Watcher::filter(
            rig.log.failing("filtered", 1),
            |event: &_| matches!(event, windlass_informer::Event::Added(_)),
        ));
        let running = rig.start_empty().await;
        running.apply(config("web", 1)).await;
        running.apply(generation(config("web", 2), 2)).await;
        running.logged().await;
        assert!(running.rig.controller.pending_calls() > 0);
        running.delete(generation(config("web", 3), 2)).await;
        assert_eq!(running.logged().await, "w delete web=3");
        pass(3600).await;
        assert_eq!(
            running.logged().await,
            "",
            "also of a handler that refuses the delete"
        );
        assert_eq!(running.rig.controller.pending_calls(), 0);
        running.stop().await.expect("it stops");
    }
}

/// Defect 3. Rows: GA-28
#[tokio::test(start_paused = true)]
async fn a_retry_never_receives_an_older_version_of_a_lagging_informer() {
    let rig = Rig::new(quiet());
    rig.watch(rig.log.failing("w", 2));
    let (script, source) = Scripted::new();
    let second = Informer::new(source);
    rig.controller
        .add_informer(&rig.kind, &second)
        .expect("added");
    let running = rig.start();
    running
        .rig
        .script
        .list([config("web", 1)])
        .await
        .expect("runs");
    script.list([config("web", 1)]).await.expect("runs");
    assert_eq!(
        running.logged().await,
        "w add web=1",
        "once, though two show it"
    );
    // The second one is ahead, and the first one lags.
    script
        .apply(generation(config("web", 5), 2))
        .await
        .expect("runs");
    assert_eq!(running.logged().await, "w update web=1 web=5");
    pass(60).await;
    assert_eq!(running.logged().await, "w update web=1 web=5", "the newest");
    running.apply(config("web", 2)).await;
    running.apply(generation(config("web", 5), 2)).await;
    assert_eq!(running.logged().await, "", "it catches up");
    running.stop().await.expect("it stops");
}

/// Defect 4. Rows: GA-25
#[tokio::test(start_paused = true)]
async fn a_failed_delete_is_kept_when_the_object_is_recreated() {
    for policy in [true, false] {
        let builder = if policy {
            quiet().retry_dequeue_policy(OpinionatedRetryDequeuePolicy)
        } else {
            quiet()
        };
        let rig = Rig::new(builder);
        let (log, failing) = (rig.log.clone(), Arc::new(AtomicBool::new(true)));
        let fails = Arc::clone(&failing);
        rig.reconcile(move |request: Request<ConfigMap>| {
            log.say(ask(&request));
            let first = request.object().metadata.uid.as_deref() == Some("uid-web");
            let fails =
                first && ask(&request).starts_with("deleted") && fails.load(Ordering::Relaxed);
            async move {
                if fails {
                    Err(Refused("not yet"))
                } else {
                    Ok(Outcome::done())
                }
            }
        });
        let running = rig.start_empty().await;
        running.apply(config("web", 1)).await;
        running.delete(config("web", 2)).await;
        assert_eq!(running.logged().await, "created web=1, deleted web=2");
        running.apply(reborn("web", 3)).await;
        running.delete(reborn("web", 4)).await;
        assert_eq!(running.logged().await, "created web=3, deleted web=4");
        assert_eq!(
            running.rig.controller.pending_calls(),
            1,
            "the first delete"
        );
        failing.store(false, Ordering::Relaxed);
        pass(3600).await;
        assert_eq!(running.logged().await, "deleted web=2", "until it succeeds");
        running.stop().await.expect("it stops");
    }
}

/// D20. Rows: CK-30
#[tokio::test(start_paused = true)]
async fn delete_retries_until_successor_end_when_the_object_is_recreated() {
    let rig = Rig::new(quiet().delete_retry(DeleteRetry::UntilSuccessor));
    rig.watch(rig.log.failing("w", 0));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.logged().await;
    running
        .rig
        .controller
        .remove_all_watchers(&running.rig.kind);
    running.rig.watch(running.rig.log.failing("w", 1));
    running.delete(config("web", 2)).await;
    assert_eq!(running.logged().await, "w delete web=2");
    running.apply(reborn("web", 3)).await;
    assert_eq!(running.logged().await, "w add web=3");
    pass(3600).await;
    assert_eq!(
        running.logged().await,
        "",
        "it would delete what belongs to the successor"
    );
    running.stop().await.expect("it stops");
}

/// Defect 5. Rows: GA-28
#[tokio::test(start_paused = true)]
async fn a_late_delete_cancels_no_call_of_the_recreated_object() {
    let rig = Rig::new(quiet());
    rig.watch(rig.log.failing("w", 0));
    let (script, source) = Scripted::new();
    let second = Informer::new(source);
    rig.controller
        .add_informer(&rig.kind, &second)
        .expect("added");
    let running = rig.start();
    running
        .rig
        .script
        .list([config("web", 1)])
        .await
        .expect("runs");
    script.list([]).await.expect("runs");
    assert_eq!(running.logged().await, "w add web=1");
    running
        .rig
        .controller
        .remove_all_watchers(&running.rig.kind);
    running.rig.watch(running.rig.log.failing("w", 1));
    // The successor is in the other part, whose informer is ahead.
    script.apply(reborn("web", 3)).await.expect("runs");
    assert_eq!(running.logged().await, "w add web=3");
    running.delete(config("web", 2)).await;
    assert_eq!(running.logged().await, "w delete web=2");
    pass(3600).await;
    assert_eq!(
        running.logged().await,
        "w add web=3",
        "it failed, and is repeated"
    );
    running.stop().await.expect("it stops");
}

/// Defect 11. Rows: CK-25, BO-04
#[tokio::test(start_paused = true)]
async fn a_handler_may_wait_for_another_informer_to_sync() {
    let rig = Rig::new(quiet().start_before_sync(true));
    let (script, source) = Scripted::<Secret>::new();
    let informer = Informer::new(source);
    let secrets = rig.controller.kind("secrets").expect("a new kind");
    rig.controller
        .add_informer(&secrets, &informer)
        .expect("added");
    let (log, other) = (rig.log.clone(), informer.clone());
    rig.reconcile(move |request: Request<ConfigMap>| {
        let (log, other) = (log.clone(), other.clone());
        async move {
            other.synced().await.expect("it runs");
            log.say(request.key());
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let nothing = |_: Request<Secret>| async { Ok::<_, Refused>(Outcome::done()) };
    rig.controller
        .add_reconciler(&secrets, nothing)
        .expect("added");
    let running = rig.start();
    let primaries = (0..20).map(|it| config(&format!("web-{it}"), 1));
    running.rig.script.list(primaries).await.expect("runs");
    let all = (0..3_000).map(|it| {
        let mut secret = Secret::default();
        secret.metadata.name = Some(format!("secret-{it}"));
        secret.metadata.uid = Some(format!("uid-{it}"));
        secret
    });
    script.list(all).await.expect("runs");
    assert_eq!(running.logged().await.split(", ").count(), 20);
    assert_eq!(informer.store().len(), 3_000);
    running.stop().await.expect("it stops");
}

/// D23. Rows: CK-24
#[tokio::test(start_paused = true)]
async fn no_handler_is_called_before_all_informers_have_synced() {
    let rig = Rig::new(quiet());
    let (script, source) = Scripted::<Secret>::new();
    let secrets = rig.controller.kind("secrets").expect("a new kind");
    rig.controller
        .add_informer(&secrets, &Informer::new(source))
        .expect("added");
    rig.reconcile(rig.log.reconciler("r"));
    let running = rig.start();
    running
        .rig
        .script
        .list([config("web", 1)])
        .await
        .expect("runs");
    pass(60).await;
    assert_eq!(
        running.logged().await,
        "",
        "the other informer has not synced"
    );
    assert!(!running.rig.controller.has_synced());
    script.list([]).await.expect("runs");
    assert_eq!(running.logged().await, "r created web=1");

    // One that is added later holds up its own kind only.
    let (late, source) = Scripted::<Secret>::new();
    running
        .rig
        .controller
        .add_informer(&secrets, &Informer::new(source))
        .expect("added");
    let log = running.rig.log.clone();
    let secret = move |request: Request<Secret>| {
        log.say(format_args!("secret {}", request.key()));
        async { Ok::<_, Refused>(Outcome::done()) }
    };
    running
        .rig
        .controller
        .add_reconciler(&secrets, secret)
        .expect("added");
    settle().await;
    let mut first = Secret::default();
    first.metadata.name = Some("a".to_owned());
    first.metadata.uid = Some("a".to_owned());
    script.apply(first).await.expect("runs");
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "r updated web=2");
    late.list([]).await.expect("runs");
    assert_eq!(running.logged().await, "secret a");
    running.stop().await.expect("it stops");
}

/// A source whose list takes 1000 s, and shows a known object every 50 s.
struct Slow;

impl Source<ConfigMap> for Slow {
    fn resource(&self) -> String {
        "slow".to_owned()
    }

    async fn run(&mut self, changes: Changes<ConfigMap>) -> Result<(), WatchError> {
        let stopped = async {
            changes.send(Change::ListStarted).await?;
            for number in 0..20 {
                let object = config(&format!("web-{number}"), 1);
                let change = match changes.known(&object) {
                    Some(known) => {
                        pass(50).await;
                        Change::Unchanged(known)
                    }
                    None => Change::Applied(object.into()),
                };
                changes.send(change).await?;
            }
            let resource_version = None;
            changes.send(Change::ListEnded { resource_version }).await
        };
        _ = stopped.await;
        std::future::pending().await
    }
}

/// No event is sent for an object that the list shows unchanged.
#[tokio::test(start_paused = true)]
async fn a_list_of_unchanged_objects_makes_progress() {
    let informer = Informer::new(Slow);
    let first = tokio_util::sync::CancellationToken::new();
    let run = tokio::spawn(informer.run(first.clone()));
    informer.synced().await.expect("it runs");
    first.cancel();
    run.await.expect("no panic").expect("it stops");
    assert_eq!(informer.store().len(), 20);

    let controller = quiet().build().expect("good settings");
    let log = Log::default();
    let kind = controller.kind(KIND).expect("a new kind");
    controller.add_informer(&kind, &informer).expect("added");
    controller
        .add_watcher(&kind, log.watcher("w"))
        .expect("added");
    let stop = tokio_util::sync::CancellationToken::new();
    let task = tokio::spawn({
        let (controller, stop) = (controller.clone(), stop.clone());
        async move { controller.run(stop).await }
    });
    pass(1100).await;
    assert_eq!(log.take().await.split(", ").count(), 20);
    stop.cancel();
    task.await.expect("no panic").expect("it stops");
}

/// D24. Rows: GA-28
#[tokio::test(start_paused = true)]
async fn a_slow_handler_never_stops_the_watch_and_the_queue_is_bounded() {
    let rig = Rig::new(quiet().queue(NonZeroUsize::new(4).expect("not zero")));
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(ask(&request));
        async move {
            pass(3600).await;
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    settle().await;
    for version in 2..=1_000 {
        // It would not return if the watch waited.
        running.apply(config("web", version)).await;
    }
    assert_eq!(running.rig.informer.store().len(), 1);
    pass(3600 * 10).await;
    let logged = running.logged().await;
    let calls: Vec<_> = logged.split(", ").collect();
    assert_eq!(calls.first(), Some(&"created web=1"));
    assert_eq!(calls.last(), Some(&"updated web=1000"), "{logged}");
    assert!(
        calls.len() <= 7,
        "four by themselves, the rest coalesced: {logged}"
    );
    running.stop().await.expect("it stops");
}

/// D27. Rows: GA-33
#[tokio::test(start_paused = true)]
async fn a_handler_without_an_informer_is_an_error_that_names_its_kind() {
    let rig = Rig::new(quiet());
    let nothing = |_: Request<ConfigMap>| async { Ok::<_, Refused>(Outcome::done()) };
    let others = rig.controller.kind::<ConfigMap>("others");
    let others = others.expect("a new kind");
    rig.controller
        .add_reconciler(&others, nothing)
        .expect("checked later");
    let ended = rig
        .start()
        .ended()
        .await
        .expect_err("nothing would call it");
    assert_eq!(
        ended.to_string(),
        r#"the kind "others" has handlers and no informer; add its informer before the run"#
    );

    let running = Rig::new(quiet()).start_empty().await;
    let others = running.rig.controller.kind::<ConfigMap>("others");
    let others = others.expect("a new kind");
    let refused = running.rig.controller.add_reconciler(&others, nothing);
    assert!(
        matches!(refused, Err(AddError::NoInformer { .. })),
        "{refused:?}"
    );
    running.stop().await.expect("it stops");
}

/// Defect 16. Rows: BO-43
#[tokio::test(start_paused = true)]
async fn an_unused_kind_is_removed_completely() {
    let running = Rig::new(quiet().name("dynamic")).start_empty().await;
    let controller = running.rig.controller.clone();
    let series = || {
        let collectors = controller.prometheus_collectors();
        let metrics = collectors.iter().flat_map(|it| it.collect());
        metrics
            .map(|family| family.get_metric().len())
            .sum::<usize>()
    };
    let before = series();
    for round in 0..20 {
        let kind = controller.kind(&format!("kind-{round}"));
        let kind = kind.expect("a new kind");
        let (script, source) = Scripted::<ConfigMap>::new();
        let informer = Informer::new(source);
        controller.add_informer(&kind, &informer).expect("added");
        let handler = controller.add_watcher(&kind, running.rig.log.failing("w", 9));
        let handler = handler.expect("added");
        script.list([config("web", 1)]).await.expect("runs");
        assert_eq!(running.logged().await, "w add web=1");
        assert!(handler.remove());
        assert!(controller.remove_informer(&informer));
        settle().await;
    }
    assert_eq!(controller.pending_calls(), 0);
    assert_eq!(series(), before, "their series were removed too");
    running.stop().await.expect("it stops");
}

/// Defect 10. Rows: CK-31
#[tokio::test(start_paused = true)]
async fn a_panic_while_a_call_is_dropped_does_not_stop_the_controller() {
    /// Panics when it is dropped, also as what a panic carries.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "the drop of a call");
        }
    }
    let rig = Rig::new(quiet().timeout(secs(1)));
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(format_args!("{} {}", ask(&request), request.attempt()));
        async move {
            match (request.key().name(), request.attempt()) {
                ("late", 0) => {
                    let _bomb = Bomb;
                    pass(60).await;
                }
                ("payload", 0) => std::panic::panic_any(Bomb),
                _ => {}
            }
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let running = rig.start_empty().await;
    running.apply(config("late", 1)).await;
    running.apply(config("payload", 1)).await;
    pass(60).await;
    let logged = running.logged().await;
    assert!(
        logged.contains("created late=1 1") && logged.contains("created payload=1 1"),
        "{logged}"
    );
    running.apply(config("web", 1)).await;
    assert_eq!(
        running.logged().await,
        "created web=1 0",
        "workers are left"
    );
    running.stop().await.expect("it stops");
}

/// Defect 14. Rows: GA-111
#[tokio::test(start_paused = true)]
async fn a_filter_of_a_typed_reconciler_holds_for_dynamic_objects() {
    let log = Log::default();
    let typed = TypedReconciler::new(log.reconciler("r").filter(GenerationChanged));
    let (script, source) = Scripted::<DynamicObject>::new();
    let resource = kube::api::ApiResource::erase::<ConfigMap>(&());
    let informer = Informer::new(source);
    let controller = quiet().build().expect("good settings");
    let kind = controller.kind(KIND).expect("a new kind");
    controller.add_informer(&kind, &informer).expect("added");
    controller.add_reconciler(&kind, typed).expect("added");
    let stop = tokio_util::sync::CancellationToken::new();
    let task = tokio::spawn({
        let (controller, stop) = (controller.clone(), stop.clone());
        async move { controller.run(stop).await }
    });
    script.list([]).await.expect("runs");
    let dynamic = |object: ConfigMap| {
        let mut dynamic = DynamicObject::new("", &resource);
        dynamic.metadata = object.metadata;
        dynamic.data = serde_json::json!({ "data": object.data });
        dynamic
    };
    script.apply(dynamic(config("web", 1))).await.expect("runs");
    assert_eq!(log.take().await, "r created web=1");
    script.apply(dynamic(config("web", 2))).await.expect("runs");
    assert_eq!(log.take().await, "", "of the same generation");
    script
        .apply(dynamic(generation(config("web", 3), 2)))
        .await
        .expect("runs");
    assert_eq!(log.take().await, "r updated web=3");
    stop.cancel();
    task.await.expect("no panic").expect("it stops");
}

/// D19. Rows: BO-21
#[tokio::test(start_paused = true)]
async fn an_event_of_the_same_generation_does_not_end_the_backoff() {
    let rig = Rig::new(quiet());
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(format_args!("{} {}", ask(&request), request.attempt()));
        async { Err::<Outcome, _>(Refused("no")) }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "created web=1 0");
    for version in 2..10 {
        running.apply(config("web", version)).await;
    }
    assert_eq!(
        running.logged().await,
        "",
        "a status write is no reason to call sooner"
    );
    pass(5).await;
    assert_eq!(
        running.logged().await,
        "created web=9 1",
        "at its time, with the newest"
    );
    running.apply(generation(config("web", 10), 2)).await;
    assert_eq!(
        running.logged().await,
        "updated web=10 0",
        "a new generation counts anew"
    );
    let mut terminating = generation(config("web", 11), 2);
    terminating.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
        ));
    running.apply(terminating).await;
    assert_eq!(
        running.logged().await,
        "updated web=11 1",
        "a deletion mark is called at once"
    );
    pass(Duration::from_secs(9).as_secs()).await;
    running.logged().await;
    running.stop().await.expect("it stops");
}

/// The state before does not read as the type of the reconciler, and the new one does.
#[tokio::test(start_paused = true)]
async fn an_update_that_repairs_an_object_is_created_for_a_typed_reconciler() {
    let log = Log::default();
    let typed = TypedReconciler::new(log.reconciler("r"));
    let (script, source) = Scripted::<DynamicObject>::new();
    let resource = kube::api::ApiResource::erase::<ConfigMap>(&());
    let controller = quiet().build().expect("good settings");
    let informer = Informer::new(source);
    let kind = controller.kind(KIND).expect("a new kind");
    controller.add_informer(&kind, &informer).expect("added");
    controller.add_reconciler(&kind, typed).expect("added");
    let stop = tokio_util::sync::CancellationToken::new();
    let task = tokio::spawn({
        let (controller, stop) = (controller.clone(), stop.clone());
        async move { controller.run(stop).await }
    });
    script.list([]).await.expect("runs");
    let dynamic = |object: ConfigMap, data: serde_json::Value| {
        let mut dynamic = DynamicObject::new("", &resource);
        dynamic.metadata = object.metadata;
        dynamic.data = serde_json::json!({ "data": data });
        dynamic
    };
    let broken = dynamic(config("web", 1), serde_json::json!(7));
    script.apply(broken).await.expect("runs");
    assert_eq!(log.take().await, "");
    let repaired = dynamic(config("web", 2), serde_json::json!({ "value": "2" }));
    script.apply(repaired).await.expect("runs");
    assert_eq!(log.take().await, "r created web=2");
    stop.cancel();
    task.await.expect("no panic").expect("it stops");
}
