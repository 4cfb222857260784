//! Which calls are repeated, when, and with which object.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    Action, ErrorReport, ExponentialBackoff, Failure, InformerController,
    InformerControllerBuilder, NeverDequeue, NeverRetry, Outcome, Request, RetryObject, State,
};
use windlass_informer::{Informer, Scripted};

use crate::support::{KIND, Log, Refused, Rig, ask, config, generation, pass, reborn, secs, show};

/// A controller that reports nothing.
fn quiet() -> InformerControllerBuilder {
    InformerController::builder().on_error(|_| {})
}

/// Rows: GA-03, GA-23
#[tokio::test(start_paused = true)]
async fn the_grafana_preset_retries_five_times() {
    let delays = delays(quiet().retry_policy(ExponentialBackoff::GRAFANA), 3600).await;
    // Exactly, to the millisecond of the runtime's timer: no tick.
    assert_eq!(delays.len(), 5);
    for (waited, logged) in delays.iter().zip([5_000, 10_000, 20_000, 40_000, 80_000]) {
        assert!((logged..logged + 3).contains(waited), "{delays:?}");
    }
}

/// Defect 12. Rows: GA-23
#[tokio::test(start_paused = true)]
async fn by_default_retries_never_end() {
    let day = 24 * 3600;
    let delays = delays(quiet(), day).await;
    for (waited, logged) in delays.iter().zip([1_000_u128, 2_000, 4_000, 8_000, 16_000]) {
        assert!(
            (logged * 9 / 10..=logged * 11 / 10 + 3).contains(waited),
            "{delays:?}"
        );
    }
    assert!(delays.iter().all(|waited| *waited <= 300_003), "{delays:?}");
    let total: u128 = delays.iter().sum();
    assert!(
        total > u128::from(day - 301) * 1_000,
        "the last one is not long ago"
    );
}

/// The delays between the calls of a reconciler that always fails, in milliseconds.
async fn delays(builder: InformerControllerBuilder, seconds: u64) -> Vec<u128> {
    let times = Arc::new(Mutex::new(Vec::new()));
    let rig = Rig::new(builder);
    let calls = Arc::clone(&times);
    rig.reconcile(move |_: Request<ConfigMap>| {
        calls.lock().push(Instant::now());
        async { Err::<Outcome, _>(Refused("no")) }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(seconds).await;
    running.stop().await.expect("it stops");
    let times = times.lock();
    (times.windows(2))
        .map(|pair| (pair[1] - pair[0]).as_millis())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_a_closure_gets_a_random_number_and_the_object() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let policy = {
        let seen = Arc::clone(&seen);
        move |failed: &ErrorReport<'_>| {
            let object = failed.object.expect("the call has an object");
            let object = object.typed::<ConfigMap>().expect("it decodes");
            let name = object.and_then(|it| it.metadata.name.clone());
            seen.lock().push((name, failed.random));
            (failed.attempt < 20).then_some(secs(1))
        }
    };
    let rig = Rig::new(quiet().retry_policy(policy));
    rig.reconcile(|_: Request<ConfigMap>| async { Err::<Outcome, _>(Refused("no")) });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(60).await;
    running.stop().await.expect("it stops");
    let seen = seen.lock();
    assert_eq!(seen.len(), 21);
    assert!(seen.iter().all(|(name, _)| name.as_deref() == Some("web")));
    assert!(
        seen.iter().all(|(_, random)| (0.0..1.0).contains(random)),
        "{seen:?}"
    );
    let first = seen[0].1;
    assert!(
        seen.iter().any(|(_, random)| (random - first).abs() > 0.01),
        "{seen:?}"
    );
}

/// A conflict is not counted as a failed attempt, whatever its delay is.
#[tokio::test(start_paused = true)]
async fn a_conflict_is_repeated_after_its_delay_and_not_if_it_is_permanent() {
    let reported = Log::default();
    let reports = reported.clone();
    let builder = InformerController::builder()
        .retry_policy(|_: &ErrorReport<'_>| Some(secs(1)))
        .on_error(move |report| reports.say(format_args!("{} {:?}", report.key, report.retry_in)));
    let rig = Rig::new(builder);
    let (log, conflicts) = (rig.log.clone(), AtomicU32::new(0));
    rig.reconcile(move |request: Request<ConfigMap>| {
        let (name, attempt) = (request.key().name(), request.attempt());
        log.say(format_args!("{name}, attempt {attempt}"));
        let conflict = Failure::new("outdated").conflict();
        let failure = match name {
            "soon" => conflict,
            "later" => conflict.retry_after(secs(30)),
            _ => conflict.permanent(),
        };
        let is_first = conflicts.fetch_add(1, Ordering::Relaxed) < 3;
        async move {
            if is_first {
                return Err(failure);
            }
            Ok(Outcome::done())
        }
    });
    let running = rig.start_empty().await;
    for name in ["soon", "later", "never"] {
        running.apply(config(name, 1)).await;
    }
    assert_eq!(
        running.logged().await,
        "soon, attempt 0, later, attempt 0, never, attempt 0"
    );
    pass(29).await;
    assert_eq!(running.logged().await, "soon, attempt 0");
    pass(300).await;
    assert_eq!(running.logged().await, "later, attempt 0");
    assert_eq!(reported.take().await, "shop/never None");
    let letters = running.rig.controller.dead_letters();
    let letters: Vec<_> = letters.iter().map(|it| it.key.name()).collect();
    assert_eq!(letters, ["never"]);
    running.stop().await.expect("it stops");
}

/// Rows: GA-23, GA-106
#[tokio::test(start_paused = true)]
async fn a_user_defined_policy_receives_the_error_and_the_attempt() {
    let rig = Rig::new(quiet().retry_policy(|failed: &ErrorReport<'_>| {
        let (error, attempt) = (failed.error, failed.attempt);
        let refused = error.downcast_ref::<Refused>().expect("ours");
        (refused.0 == "again" && attempt < 2).then_some(Duration::from_secs(1))
    }));
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(format_args!(
            "{} {} {}",
            show(request.object()),
            request.attempt(),
            request.last_attempt()
        ));
        let web = request.key().name() == "web";
        async move { Err::<Outcome, _>(Refused(if web { "again" } else { "hopeless" })) }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(config("api", 1)).await;
    pass(60).await;
    assert_eq!(
        running.logged().await,
        "web=1 0 false, api=1 0 false, web=1 1 false, web=1 2 false"
    );
    running.stop().await.expect("it stops");
}

/// Rows: BO-20
#[tokio::test(start_paused = true)]
async fn the_last_attempt_is_marked() {
    let rig = Rig::new(quiet().retry_policy(ExponentialBackoff::new(secs(1), 2)));
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(format_args!(
            "{} {}",
            request.attempt(),
            request.last_attempt()
        ));
        async { Err::<Outcome, _>(Refused("no")) }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(60).await;
    assert_eq!(running.logged().await, "0 false, 1 false, 2 true");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn without_retries_the_first_attempt_is_the_last() {
    let rig = Rig::new(quiet().retry_policy(NeverRetry));
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(request.last_attempt());
        async { Err::<Outcome, _>(Refused("no")) }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(60).await;
    assert_eq!(running.logged().await, "true");
    running.stop().await.expect("it stops");
}

/// Rows: GA-95, GA-96, GA-100
#[tokio::test(start_paused = true)]
async fn a_failed_call_leaves_its_state_to_all_further_calls() {
    let rig = Rig::new(quiet());
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let step = request.state().and_then(State::get::<u32>).copied();
        log.say(format_args!("{step:?}"));
        async move {
            match (request.attempt(), step) {
                (0, None) => Err(Failure::new("first").state(State::new(1_u32))),
                // This error has no state, so that the earlier state is kept.
                (1, Some(1)) => Err(Failure::from(Refused("second"))),
                (2, Some(1)) => Err(Failure::new("third").state(State::new(2_u32))),
                (3, Some(2)) => Ok(Outcome::done().state(State::new(9_u32))),
                other => panic!("{other:?}"),
            }
        }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(600).await;
    assert_eq!(running.logged().await, "None, Some(1), Some(1), Some(2)");
    // The next event causes a new request.
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "None");
    running.stop().await.expect("it stops");
}

/// Rows: GA-98, GA-99, GA-108
#[tokio::test(start_paused = true)]
async fn a_requeued_call_is_repeated_with_its_state() {
    let rig = Rig::new(quiet());
    let log = rig.log.clone();
    let count = AtomicU32::new(0);
    rig.reconcile(move |request: Request<ConfigMap>| {
        let calls = count.fetch_add(1, Ordering::Relaxed);
        let seen = request.state().and_then(State::get::<u32>).copied();
        log.say(format_args!(
            "{} {seen:?} {}",
            ask(&request),
            request.attempt()
        ));
        let seen = seen.unwrap_or(0);
        async move {
            Ok::<_, Refused>(match (calls, seen) {
                (3.., _) => Outcome::done(),
                // The state is kept until an outcome without a state.
                (2, _) => Outcome::requeue_after(secs(30)),
                _ => Outcome::requeue_after(secs(30)).state(State::new(seen + 1)),
            })
        }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "created web=1 None 0");
    pass(29).await;
    assert_eq!(running.logged().await, "");
    pass(1).await;
    assert_eq!(running.logged().await, "created web=1 Some(1) 0");
    pass(600).await;
    assert_eq!(
        running.logged().await,
        "created web=1 Some(2) 0, created web=1 None 0"
    );
    assert_eq!(running.rig.controller.pending_calls(), 0);
    running.stop().await.expect("it stops");
}

/// Rows: GA-99
#[tokio::test(start_paused = true)]
async fn a_requeue_repeats_its_action_with_the_same_objects() {
    let controller = quiet().build().expect("good settings");
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).resync(secs(3600)).build();
    let kind = controller.kind(KIND).expect("a new kind");
    controller.add_informer(&kind, &informer).expect("added");
    let log = Log::default();
    let lines = log.clone();
    let reconciler = move |request: Request<ConfigMap>| {
        let old = request.old().map_or("nothing".to_owned(), |old| show(old));
        let round = request.state().and_then(State::get::<u32>).copied();
        lines.say(format_args!("{} after {old}, {round:?}", ask(&request)));
        async move {
            Ok::<_, Refused>(match round {
                None => Outcome::requeue_after(secs(30)).state(State::new(1_u32)),
                Some(_) => Outcome::done(),
            })
        }
    };
    controller.add_reconciler(&kind, reconciler).expect("added");
    tokio::spawn(async move { controller.run(CancellationToken::new()).await });
    script.list([]).await.expect("it runs");

    script.apply(config("web", 1)).await.expect("it runs");
    pass(40).await;
    assert_eq!(
        log.take().await,
        "created web=1 after nothing, None, created web=1 after nothing, Some(1)"
    );
    script.apply(config("web", 2)).await.expect("it runs");
    pass(40).await;
    assert_eq!(
        log.take().await,
        "updated web=2 after web=1, None, updated web=2 after web=1, Some(1)"
    );
    // One resync in each hour.
    pass(3600).await;
    assert_eq!(
        log.take().await,
        "resynced web=2 after nothing, None, resynced web=2 after nothing, Some(1)"
    );
    script.delete(config("web", 3)).await.expect("it runs");
    pass(40).await;
    assert_eq!(
        log.take().await,
        "deleted web=3 after nothing, None, deleted web=3 after nothing, Some(1)"
    );
}

#[tokio::test(start_paused = true)]
async fn an_error_can_set_the_delay_and_forbid_retries() {
    let rig = Rig::new(quiet());
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(request.attempt());
        let attempt = request.attempt();
        async move {
            Err::<Outcome, _>(match attempt {
                0 => Failure::new("busy").retry_after(secs(100)),
                _ => Failure::new("hopeless").permanent(),
            })
        }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(99).await;
    assert_eq!(running.logged().await, "0");
    pass(1).await;
    assert_eq!(running.logged().await, "1");
    pass(3600).await;
    assert_eq!(running.logged().await, "");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_retry_has_the_newest_object_or_the_one_that_was_received() {
    for (object, retried) in [
        (RetryObject::Latest, "r created web=2"),
        (RetryObject::AsReceived, "r created web=1"),
    ] {
        let rig = Rig::new(
            quiet()
                .retry_object(object)
                .retry_dequeue_policy(NeverDequeue),
        );
        let log = rig.log.clone();
        rig.reconcile(move |request: Request<ConfigMap>| {
            log.say(format_args!("r {}", ask(&request)));
            let fails = show(request.object()) == "web=1" && request.attempt() == 0;
            async move {
                if fails {
                    return Err(Refused("not yet"));
                }
                Ok(Outcome::done())
            }
        });
        let running = rig.start_empty().await;
        running.apply(config("web", 1)).await;
        running.apply(generation(config("web", 2), 2)).await;
        assert_eq!(running.logged().await, "r created web=1, r updated web=2");
        pass(5).await;
        assert_eq!(running.logged().await, retried, "{object:?}");
        running.stop().await.expect("it stops");
    }
}

#[tokio::test(start_paused = true)]
async fn the_retry_of_a_resync_has_the_newest_object() {
    let rig = Rig::new(quiet());
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).resync(secs(60)).build();
    let controller = quiet().build().expect("settings that agree");
    let kind = controller.kind(KIND).expect("a new kind");
    controller.add_informer(&kind, &informer).expect("added");
    let log = rig.log.clone();
    let reconciler = move |request: Request<ConfigMap>| {
        log.say(ask(&request));
        let fails = request.action() == Action::Resynced;
        async move {
            if fails {
                return Err(Refused("not yet"));
            }
            Ok(Outcome::done())
        }
    };
    controller.add_reconciler(&kind, reconciler).expect("added");
    let task = tokio::spawn({
        let (controller, stop) = (controller.clone(), rig.stop.clone());
        async move { controller.run(stop).await }
    });
    script.list([config("web", 1)]).await.expect("it runs");
    assert_eq!(rig.log.take().await, "created web=1");
    let mut seconds = 0;
    let logged = loop {
        match &*rig.log.take().await {
            "" => pass(1).await,
            logged => break logged.to_owned(),
        }
        seconds += 1;
        assert!(seconds < 3600, "no resync within an hour");
    };
    assert_eq!(logged, "resynced web=1");
    // Of the same generation, so that it waits for the retry.
    script.apply(config("web", 2)).await.expect("it runs");
    assert_eq!(rig.log.take().await, "");
    pass(5).await;
    assert_eq!(rig.log.take().await, "updated web=2", "the newest");
    rig.stop.cancel();
    task.await.expect("no panic").expect("it stops");
}

/// The store may know of a successor before it is dispatched.
#[tokio::test(start_paused = true)]
async fn a_retry_never_receives_a_recreated_object() {
    let builder = quiet().concurrency(NonZeroUsize::MIN);
    let rig = Rig::new(builder.retry_policy(ExponentialBackoff::GRAFANA));
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(ask(&request));
        async move {
            match (request.key().name(), request.attempt()) {
                ("web", 0) => Err(Refused("not yet")),
                // While this one is called, no other one is.
                ("api", _) => {
                    pass(100).await;
                    Ok(Outcome::done())
                }
                _ => Ok(Outcome::done()),
            }
        }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "created web=1");
    running.apply(config("api", 1)).await;
    running.apply(reborn("web", 2)).await;
    assert_eq!(running.logged().await, "created api=1");
    pass(5).await;
    assert_eq!(running.logged().await, "");
    pass(100).await;
    assert_eq!(
        running.logged().await,
        "deleted web=1, created web=2, deleted web=1, created web=2"
    );
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_failed_delete_is_retried_with_the_last_known_object() {
    let rig = Rig::new(quiet());
    rig.watch(rig.log.failing("w", 0));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.logged().await;
    running
        .rig
        .controller
        .remove_all_watchers(&running.rig.kind);
    running.rig.watch(running.rig.log.failing("w", 2));
    running.delete(config("web", 7)).await;
    assert_eq!(running.logged().await, "w delete web=7");
    pass(15).await;
    assert_eq!(running.logged().await, "w delete web=7, w delete web=7");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_recreated_object_inherits_no_retries() {
    let rig = Rig::new(quiet().retry_dequeue_policy(NeverDequeue));
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(ask(&request));
        let fails = show(request.object()) == "web=1" && request.attempt() == 0;
        async move {
            if fails {
                return Err(Refused("not yet"));
            }
            Ok(Outcome::done())
        }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(config("web", 2)).await;
    running.logged().await;
    running.apply(reborn("web", 3)).await;
    assert_eq!(running.logged().await, "deleted web=2, created web=3");
    pass(600).await;
    assert_eq!(running.logged().await, "");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_removed_handler_is_not_called_any_more() {
    let rig = Rig::new(quiet());
    let added = (rig.controller).add_watcher(&rig.kind, rig.log.failing("w1", 9));
    let first = added.expect("added");
    rig.watch(rig.log.failing("w2", 1));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "w1 add web=1, w2 add web=1");
    assert_eq!(running.rig.controller.pending_calls(), 2);
    assert!(first.remove());
    assert_eq!(running.rig.controller.pending_calls(), 1);
    pass(600).await;
    // The one behind it keeps its own.
    assert_eq!(running.logged().await, "w2 add web=1");
    running.stop().await.expect("it stops");
}

/// A periodic reconciler that changes its own object: grafana-app-sdk adds a chain of
/// requeues for each event, here there is one.
#[tokio::test(start_paused = true)]
async fn a_periodic_reconciler_that_writes_status_keeps_one_pending_call() {
    let rig = Rig::new(quiet().retry_dequeue_policy(NeverDequeue));
    rig.reconcile(|_: Request<ConfigMap>| async {
        Ok::<_, Refused>(Outcome::requeue_after(secs(60)))
    });
    let running = rig.start_empty().await;
    for round in 1..50 {
        running.apply(config("web", round)).await;
        pass(7).await;
        assert_eq!(running.rig.controller.pending_calls(), 1);
    }
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn an_infinite_delay_never_expires() {
    let rig = Rig::new(quiet());
    rig.reconcile(|_: Request<ConfigMap>| async {
        Ok::<_, Refused>(Outcome::requeue_after(Duration::MAX))
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(3600).await;
    assert_eq!(running.rig.controller.pending_calls(), 1);
    running.stop().await.expect("it stops");
}

/// The same seed gives the same run.
#[tokio::test(start_paused = true)]
async fn jitter_comes_from_the_seed() {
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let delays = Arc::new(Mutex::new(Vec::new()));
        let hook = Arc::clone(&delays);
        let builder = InformerController::builder()
            .seed(seed)
            .retry_policy(ExponentialBackoff::new(secs(1), 5).jitter(0.5))
            .on_error(move |report| hook.lock().push(report.retry_in));
        let rig = Rig::new(builder);
        rig.watch(rig.log.failing("w", 9));
        let running = rig.start_empty().await;
        running.apply(config("web", 1)).await;
        pass(600).await;
        running.stop().await.expect("it stops");
        runs.push(delays.lock().clone());
    }
    assert_eq!(runs[0].len(), 6);
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

/// The count and the state of another action say nothing about the delete.
#[tokio::test(start_paused = true)]
async fn a_delete_begins_with_no_attempts_and_no_state_of_earlier_calls() {
    let rig = Rig::new(quiet().retry_policy(ExponentialBackoff::new(secs(1), 2)));
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let state = request.state().and_then(State::get::<u32>).copied();
        log.say(format_args!(
            "{} {} {state:?}",
            ask(&request),
            request.attempt()
        ));
        async { Err::<Outcome, _>(Failure::new("no").state(State::new(7_u32))) }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(2).await;
    let failed = "created web=1 0 None, created web=1 1 Some(7)";
    assert_eq!(running.logged().await, failed);
    running.delete(config("web", 2)).await;
    pass(60).await;
    assert_eq!(
        running.logged().await,
        "deleted web=2 0 None, deleted web=2 1 Some(7), deleted web=2 2 Some(7)"
    );
    running.stop().await.expect("it stops");
}

/// The watcher receives the change from the state with which its last call failed.
#[tokio::test(start_paused = true)]
async fn an_update_after_a_failed_add_begins_at_the_state_that_the_watcher_received() {
    let rig = Rig::new(quiet());
    rig.watch(rig.log.failing("w", 1));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "w add web=1");
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "", "in backoff");
    running.apply(generation(config("web", 3), 2)).await;
    assert_eq!(running.logged().await, "w update web=1 web=3");
    running.stop().await.expect("it stops");
}

/// In backoff, the event of the same generation replaces the call.
#[tokio::test(start_paused = true)]
async fn a_call_with_the_object_as_received_is_replaced_by_a_later_event() {
    let rig = Rig::new(quiet().retry_object(RetryObject::AsReceived));
    rig.watch(rig.log.failing("w", 1));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "w add web=1");
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "", "in backoff");
    pass(60).await;
    assert_eq!(running.logged().await, "w update web=1 web=2");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_kept_call_passes_its_attempt_number_to_the_call_for_the_event() {
    let builder = quiet()
        .retry_object(RetryObject::AsReceived)
        .retry_dequeue_policy(NeverDequeue);
    let rig = Rig::new(builder);
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(format_args!("{} {}", ask(&request), request.attempt()));
        async { Err::<Outcome, _>(Refused("no")) }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "created web=1 0");
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "updated web=2 1");
    running.stop().await.expect("it stops");
}

/// Unlike a failed call, it does not wait.
#[tokio::test(start_paused = true)]
async fn an_event_of_the_same_generation_replaces_a_requeue_at_once() {
    let rig = Rig::new(quiet());
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(ask(&request));
        async { Ok::<_, Refused>(Outcome::requeue_after(secs(100))) }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "created web=1");
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "updated web=2");
    pass(99).await;
    assert_eq!(running.logged().await, "");
    pass(2).await;
    assert_eq!(running.logged().await, "updated web=2");
    running.stop().await.expect("it stops");
}
