//! Concurrency: which calls run at the same time, which wait, and how everything ends.

use std::{
    future::Future,
    num::NonZeroUsize,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass::{
    ExponentialBackoff, Informer, InformerController, Operator, Outcome, Request,
    controller::{ErrorReport, Kind, RunError, Runnable},
    operator::OperatorError,
    retry::{NewEvent, PendingCall},
    source::Scripted,
};

use crate::rig::{Log, Refused, Rig, config, describe, pass, quiet, secs, settle};

/// A retry is running when an update arrives. The retry completes first, then the update is
/// dispatched, and the retry is not repeated.
#[tokio::test(start_paused = true)]
async fn w03_a_running_retry_never_overlaps_an_event_and_the_event_replaces_it() {
    let mut rig = Rig::new(quiet());
    let (log, running) = (rig.log.clone(), Arc::new(AtomicUsize::new(0)));
    rig.reconcile(move |request: Request<ConfigMap>| {
        let (log, running) = (log.clone(), Arc::clone(&running));
        async move {
            let others = running.fetch_add(1, Ordering::SeqCst);
            log.push(format_args!("{} beside {others}", describe(&request)));
            pass(10).await;
            running.fetch_sub(1, Ordering::SeqCst);
            match request.object().metadata.resource_version.as_deref() {
                Some("1") => Err(Refused("not yet")),
                _ => Ok(Outcome::done()),
            }
        }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    // The first call failed after 10 s. Its retry runs from 15 s to 25 s.
    pass(20).await;
    assert_eq!(
        rig.logged().await,
        "created web=1 beside 0, created web=1 beside 0"
    );
    rig.apply(config("web", 2)).await;
    pass(3600).await;
    assert_eq!(rig.logged().await, "updated web=2 beside 0");
    assert_eq!(rig.pending(), 0);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w15_a_call_is_dropped_at_its_timeout_and_not_before() {
    let failed = Log::default();
    let reports = failed.clone();
    let mut rig = Rig::new(
        InformerController::builder()
            .timeout(secs(10))
            .on_error(move |report| reports.push(report)),
    );
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let log = log.clone();
        async move {
            pass(if request.attempt() == 0 { 60 } else { 9 }).await;
            log.push(format_args!("attempt {} ends", request.attempt()));
            Ok::<_, Refused>(Outcome::done())
        }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    pass(600).await;
    assert_eq!(rig.logged().await, "attempt 1 ends");
    let failed = failed.take().await;
    let reason = ") of configs shop/web on CREATE: the handler timed out after 10s";
    assert!(failed.ends_with(reason), "{failed}");
    rig.stop().await;
}

/// Policies and hooks can call any method of the controller: it holds no lock while it calls them.
#[test]
fn w19_policies_and_hooks_that_use_the_controller_cause_no_deadlock() {
    let (send, receive) = mpsc::sync_channel(1);
    // On a separate thread: a deadlocked runtime cannot be dropped.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(use_the_controller());
        send.send(()).expect("the test waits");
    });
    let ended = receive.recv_timeout(Duration::from_secs(60));
    ended.expect("no deadlock within 60s");
}

async fn use_the_controller() {
    let controller: Arc<OnceLock<(InformerController, Kind<ConfigMap>)>> = Arc::default();
    let used = Arc::new(AtomicUsize::new(0));
    let use_it = {
        let (controller, used) = (Arc::clone(&controller), Arc::clone(&used));
        move || {
            let (it, kind) = controller.get().expect("set before it runs");
            _ = (it.pending_calls(), it.has_synced(), it.health());
            _ = it.prometheus_collectors().iter().map(|it| it.collect());
            let added = it.add_reconciler(kind, |_: Request<ConfigMap>| async {
                Ok::<_, Refused>(Outcome::done())
            });
            added.expect("added").remove();
            used.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (retry, dequeue, failed, exhausted) =
        (use_it.clone(), use_it.clone(), use_it.clone(), use_it);
    let mut rig = Rig::new(
        InformerController::builder()
            .retry_policy(move |failed: &ErrorReport<'_>| {
                retry();
                (failed.attempt < 1).then_some(secs(1))
            })
            .retry_dequeue_policy(move |_: &NewEvent<'_>, _: &PendingCall<'_>| {
                dequeue();
                true
            })
            .on_error(move |_| failed())
            .on_exhausted(move |_| {
                exhausted();
                std::future::ready(())
            }),
    );
    let both = (rig.controller.clone(), rig.kind.clone());
    assert!(controller.set(both).is_ok(), "set once");
    rig.reconcile(|_: Request<ConfigMap>| async { Err::<Outcome, _>(Refused("no")) });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    settle().await;
    rig.apply(config("web", 2)).await;
    pass(60).await;
    // Calls: 3 of the retry policy, 1 of the dequeue policy, 3 of on_error, 1 of on_exhausted.
    assert_eq!(used.load(Ordering::Relaxed), 8);
    rig.stop().await;
    // Breaks the reference cycle between the controller and its hooks.
    drop(controller);
}

#[tokio::test(start_paused = true)]
async fn w20_retries_run_concurrently_and_a_stop_waits_for_them() {
    let mut rig = Rig::new(quiet());
    let log = rig.log.clone();
    let begun = Instant::now();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let log = log.clone();
        async move {
            if request.attempt() == 0 {
                return Err(Refused("not yet"));
            }
            pass(10).await;
            log.push(begun.elapsed().as_secs());
            Ok(Outcome::done())
        }
    });
    rig.start().await;
    for name in ["a", "b", "c", "d"] {
        rig.apply(config(name, 1)).await;
    }
    pass(16).await;
    assert_eq!(
        rig.logged().await,
        "15, 15, 15, 15",
        "5 s of backoff, 10 s per call"
    );

    // A retry that is running at the stop completes; one that is not due does not start.
    rig.apply(config("last", 1)).await;
    pass(6).await;
    rig.apply(config("never", 1)).await;
    settle().await;
    let log = rig.log.clone();
    rig.stop().await;
    assert_eq!(log.take().await, "31");
}

#[tokio::test(start_paused = true)]
async fn w22_a_panic_in_user_code_fails_only_one_call() {
    let mut rig = Rig::new(
        InformerController::builder()
            .retry_policy(|_: &ErrorReport<'_>| -> Option<Duration> { panic!("the policy") })
            .retry_dequeue_policy(|_: &NewEvent<'_>, _: &PendingCall<'_>| panic!("the dequeue"))
            .on_error(|_| panic!("the hook")),
    );
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.push(format_args!("{} {}", describe(&request), request.attempt()));
        assert!(
            request.key().name() != "bad" || request.attempt() > 0,
            "bad"
        );
        async { Ok::<_, Refused>(Outcome::done()) }
    });
    rig.start().await;
    rig.apply(config("bad", 1)).await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "created bad=1 0, created web=1 0");
    // The default retry policy applies instead of the one that panics.
    pass(5).await;
    assert_eq!(rig.logged().await, "created bad=1 1");
    rig.apply(config("bad", 2)).await;
    assert_eq!(rig.logged().await, "updated bad=2 0");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w24_handlers_and_informers_can_be_added_to_a_running_controller() {
    let mut rig = Rig::new(quiet());
    let handler = |name: &'static str| {
        let log = rig.log.clone();
        move |request: Request<ConfigMap>| {
            log.push(format_args!("{name} {}", describe(&request)));
            async { Ok::<_, Refused>(Outcome::done()) }
        }
    };
    let (first, late, other) = (handler("first"), handler("late"), handler("other"));
    rig.reconcile(first);
    rig.start().await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "first created web=1");

    rig.reconcile(late);
    rig.apply(config("web", 2)).await;
    assert_eq!(
        rig.logged().await,
        "first updated web=2, late updated web=2"
    );

    let (script, source) = Scripted::new();
    let controller = &rig.controller;
    let others = controller.kind("others").expect("a new kind");
    controller
        .add_informer(&others, &Informer::new(source))
        .expect("added");
    controller.add_reconciler(&others, other).expect("added");
    script.list([config("api", 1)]).await.expect("it runs");
    assert_eq!(rig.logged().await, "other created api=1");
    // More events than the buffers hold: the new handler does not block the informer.
    for version in 3..3_000 {
        rig.apply(config("web", version)).await;
    }
    assert!(rig.logged().await.ends_with("late updated web=2999"));
    rig.stop().await;
}

/// A controller that ends after a time, with or without an error.
struct Ends {
    name: &'static str,
    after: Duration,
    fails: bool,
}

impl Runnable for Ends {
    type Error = Refused;

    fn name(&self) -> &str {
        self.name
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), Refused> {
        tokio::time::sleep(self.after).await;
        // Fails even if it was stopped meanwhile, so that both failures happen.
        drop(stop);
        if self.fails {
            return Err(Refused("broken"));
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn w25_two_simultaneous_failures_return_one_error_and_a_second_run_is_rejected() {
    let operator = Operator::new();
    for name in ["first", "second"] {
        let added = operator.add_controller(Ends {
            name,
            after: secs(5),
            fails: true,
        });
        added.expect("the operator is not running");
    }
    match operator.run_until(CancellationToken::new()).await {
        Err(OperatorError::Controller { controller, source }) => {
            assert!(["first", "second"].contains(&controller.as_str()));
            assert_eq!(source.to_string(), "broken");
        }
        other => panic!("{other:?}"),
    }
    let again = operator.run_until(CancellationToken::new()).await;
    assert!(matches!(again, Err(OperatorError::AlreadyRan)), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn w26_an_operator_waits_for_the_calls_in_progress_of_its_controllers() {
    let rig = Rig::new(quiet());
    let log = rig.log.clone();
    rig.reconcile(move |_: Request<ConfigMap>| {
        let log = log.clone();
        async move {
            log.push("begins");
            pass(30).await;
            log.push("ends");
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let operator = Operator::new();
    operator
        .add_controller(rig.controller.clone())
        .expect("the operator is not running");
    // After the stop, which is after ten seconds.
    operator
        .add_controller(Ends {
            name: "short",
            after: secs(15),
            fails: false,
        })
        .expect("the operator is not running");
    let (stop, log) = (rig.stop.clone(), rig.log.clone());
    let run = tokio::spawn({
        let log = log.clone();
        async move {
            let ended = operator.run_until(stop).await;
            log.push("the operator has ended");
            ended
        }
    });
    rig.script.list([config("web", 1)]).await.expect("it runs");
    pass(10).await;
    assert_eq!(log.take().await, "begins");
    rig.stop.cancel();
    run.await.expect("no panic").expect("no error");
    assert_eq!(log.take().await, "ends, the operator has ended");
}

/// Counts how often `future` is polled.
async fn polls<T>(future: impl Future<Output = T>, count: Arc<AtomicUsize>) -> T {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(move |context| {
        count.fetch_add(1, Ordering::Relaxed);
        future.as_mut().poll(context)
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn w27_waiting_for_a_list_or_after_the_end_of_a_source_uses_no_cpu() {
    let (waiting, running) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let (informer, stop, count) = (informer.clone(), stop.clone(), Arc::clone(&running));
        async move { polls(informer.run(stop), count).await }
    });
    let synced = tokio::spawn({
        let (informer, count) = (informer.clone(), Arc::clone(&waiting));
        async move { polls(informer.synced(), count).await }
    });
    pass(3600).await;
    assert!(!synced.is_finished());
    script.list([config("web", 1)]).await.expect("it runs");
    synced.await.expect("no panic").expect("it runs");
    let polled = waiting.load(Ordering::Relaxed);
    assert!(polled <= 6, "polled {polled} times");

    // After the end of the source, the informer waits until it is stopped.
    drop(script);
    settle().await;
    let before = running.load(Ordering::Relaxed);
    pass(3600).await;
    assert_eq!(running.load(Ordering::Relaxed), before);
    assert_eq!(informer.store().len(), 1);
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

/// A failed call waits for its retry without a worker: five calls fail with only two workers.
#[tokio::test(start_paused = true)]
async fn w29_a_pending_retry_blocks_no_worker_and_no_stop() {
    let workers = NonZeroUsize::new(2).expect("not zero");
    let mut rig = Rig::new(
        quiet()
            .concurrency(workers)
            .retry_policy(ExponentialBackoff::new(secs(5), 1)),
    );
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let log = log.clone();
        async move {
            log.push(describe(&request));
            Err::<Outcome, _>(Refused("conflict"))
        }
    });
    rig.start().await;
    for name in ["a", "b", "c", "d", "e"] {
        rig.apply(config(name, 1)).await;
    }
    assert_eq!(
        rig.logged().await,
        "created a=1, created b=1, created c=1, created d=1, created e=1"
    );
    assert_eq!(rig.pending(), 5);
    // A stop does not wait for pending retries.
    let stopped = Instant::now();
    let controller = rig.controller.clone();
    rig.stop().await;
    assert!(stopped.elapsed() < secs(1));
    let again = controller.run(CancellationToken::new()).await;
    assert!(matches!(again, Err(RunError::AlreadyRan)));
}
