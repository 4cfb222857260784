//! Which work waits for which other, and which must not.

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
    controller::{Controller, ErrorReport, RunError},
    operator::OperatorError,
    retry::{Arrival, PendingRetry},
    source::Scripted,
};

use crate::rig::{KIND, Log, Refused, Rig, ask, config, pass, quiet, secs, settle};

/// A retry that is under way when an update comes ends first; then the update replaces it.
#[tokio::test(start_paused = true)]
async fn w03_a_retry_under_way_never_overlaps_an_event_and_does_not_outlive_it() {
    let mut rig = Rig::new(quiet());
    let (log, hands) = (rig.log.clone(), Arc::new(AtomicUsize::new(0)));
    rig.reconcile(move |request: Request<ConfigMap>| {
        let (log, hands) = (log.clone(), Arc::clone(&hands));
        async move {
            let others = hands.fetch_add(1, Ordering::SeqCst);
            log.say(format_args!("{} beside {others}", ask(&request)));
            pass(10).await;
            hands.fetch_sub(1, Ordering::SeqCst);
            match request.object().metadata.resource_version.as_deref() {
                Some("1") => Err(Refused("not yet")),
                _ => Ok(Outcome::done()),
            }
        }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    // The first call has failed after 10 s, and its retry runs from 15 s to 25 s.
    pass(20).await;
    assert_eq!(
        rig.said().await,
        "created web=1 beside 0, created web=1 beside 0"
    );
    rig.apply(config("web", 2)).await;
    pass(3600).await;
    assert_eq!(rig.said().await, "updated web=2 beside 0");
    assert_eq!(rig.pending(), 0);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w15_a_call_that_takes_too_long_is_dropped_and_one_that_does_not_keeps_its_time() {
    let failed = Log::default();
    let told = failed.clone();
    let mut rig = Rig::new(
        InformerController::builder()
            .timeout(secs(10))
            .on_error(move |report| told.say(report)),
    );
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let log = log.clone();
        async move {
            pass(if request.attempt() == 0 { 60 } else { 9 }).await;
            log.say(format_args!("attempt {} ends", request.attempt()));
            Ok::<_, Refused>(Outcome::done())
        }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    pass(600).await;
    assert_eq!(rig.said().await, "attempt 1 ends");
    assert_eq!(
        failed.take().await,
        "reconciler 0 of configs shop/web on CREATE: the handler took longer than 10s"
    );
    rig.stop().await;
}

/// A policy and a hook may do with the controller whatever they like: no lock is held.
#[test]
fn w19_policies_and_hooks_that_use_the_controller_do_not_lock_it_up() {
    let (tell, told) = mpsc::sync_channel(1);
    // On a thread of its own: what is locked up cannot be dropped.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(use_the_controller());
        tell.send(()).expect("it is waited for");
    });
    let ended = told.recv_timeout(Duration::from_secs(60));
    ended.expect("it ends, and is not locked up");
}

async fn use_the_controller() {
    let myself: Arc<OnceLock<InformerController>> = Arc::default();
    let used = Arc::new(AtomicUsize::new(0));
    let use_it = {
        let (myself, used) = (Arc::clone(&myself), Arc::clone(&used));
        move || {
            let it = myself.get().expect("set before it runs");
            _ = (it.pending_retries(), it.has_synced(), it.health());
            _ = it.prometheus_collectors().iter().map(|it| it.collect());
            let added = it.add_reconciler(KIND, |_: Request<ConfigMap>| async {
                Ok::<_, Refused>(Outcome::done())
            });
            it.remove_reconciler(KIND, added.expect("added"));
            used.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (retry, dequeue, failed, given_up) =
        (use_it.clone(), use_it.clone(), use_it.clone(), use_it);
    let mut rig = Rig::new(
        InformerController::builder()
            .retry_policy(move |failed: &ErrorReport<'_>| {
                retry();
                (failed.attempt < 1).then_some(secs(1))
            })
            .retry_dequeue_policy(move |_: &Arrival<'_>, _: &PendingRetry<'_>| {
                dequeue();
                true
            })
            .on_error(move |_| failed())
            .on_exhausted(move |_| {
                given_up();
                std::future::ready(())
            }),
    );
    myself.set(rig.controller.clone()).expect("set once");
    rig.reconcile(|_: Request<ConfigMap>| async { Err::<Outcome, _>(Refused("no")) });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    settle().await;
    rig.apply(config("web", 2)).await;
    pass(60).await;
    // Three failures, of which one was dequeued and one was the last: 3 + 1 + 3 + 1.
    assert_eq!(used.load(Ordering::Relaxed), 8);
    rig.stop().await;
    // The hooks hold the controller, and it holds them.
    drop(myself);
}

#[tokio::test(start_paused = true)]
async fn w20_retries_run_side_by_side_and_are_waited_for_at_the_end() {
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
            log.say(begun.elapsed().as_secs());
            Ok(Outcome::done())
        }
    });
    rig.start().await;
    for name in ["a", "b", "c", "d"] {
        rig.apply(config(name, 1)).await;
    }
    pass(16).await;
    assert_eq!(rig.said().await, "15, 15, 15, 15", "5 s later, 10 s long");

    // One that is under way when the controller is stopped ends; one that waits does not begin.
    rig.apply(config("last", 1)).await;
    pass(6).await;
    rig.apply(config("never", 1)).await;
    settle().await;
    let log = rig.log.clone();
    rig.stop().await;
    assert_eq!(log.take().await, "31");
}

#[tokio::test(start_paused = true)]
async fn w22_a_panic_anywhere_in_the_users_code_is_a_failure_of_one_call() {
    let mut rig = Rig::new(
        InformerController::builder()
            .retry_policy(|_: &ErrorReport<'_>| -> Option<Duration> { panic!("the policy") })
            .retry_dequeue_policy(|_: &Arrival<'_>, _: &PendingRetry<'_>| panic!("the dequeue"))
            .on_error(|_| panic!("the hook")),
    );
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(format_args!("{} {}", ask(&request), request.attempt()));
        assert!(
            request.key().name() != "bad" || request.attempt() > 0,
            "bad"
        );
        async { Ok::<_, Refused>(Outcome::done()) }
    });
    rig.start().await;
    rig.apply(config("bad", 1)).await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.said().await, "created bad=1 0, created web=1 0");
    // Even the retry comes, as the default policy says.
    pass(5).await;
    assert_eq!(rig.said().await, "created bad=1 1");
    rig.apply(config("bad", 2)).await;
    assert_eq!(rig.said().await, "updated bad=2 0");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w24_handlers_and_informers_that_are_added_while_it_runs_are_served() {
    let mut rig = Rig::new(quiet());
    let says = |name: &'static str| {
        let log = rig.log.clone();
        move |request: Request<ConfigMap>| {
            log.say(format_args!("{name} {}", ask(&request)));
            async { Ok::<_, Refused>(Outcome::done()) }
        }
    };
    let (first, late, other) = (says("first"), says("late"), says("other"));
    rig.reconcile(first);
    rig.start().await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.said().await, "first created web=1");

    rig.reconcile(late);
    rig.apply(config("web", 2)).await;
    assert_eq!(rig.said().await, "first updated web=2, late updated web=2");

    let (script, source) = Scripted::new();
    let controller = &rig.controller;
    controller
        .add_informer("others", &Informer::new(source))
        .expect("added");
    controller.add_reconciler("others", other).expect("added");
    script.list([config("api", 1)]).await.expect("it runs");
    assert_eq!(rig.said().await, "other created api=1");
    // And it blocks nothing: more than the buffers hold.
    for version in 3..3_000 {
        rig.apply(config("web", version)).await;
    }
    assert!(rig.said().await.ends_with("late updated web=2999"));
    rig.stop().await;
}

/// Fails, or ends well, after its time.
struct Ends {
    name: &'static str,
    after: Duration,
    well: bool,
}

impl Controller for Ends {
    type Error = Refused;

    fn name(&self) -> &str {
        self.name
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), Refused> {
        tokio::time::sleep(self.after).await;
        if self.well {
            return Ok(());
        }
        // Also where it is stopped in the meantime: both failures are on their way.
        drop(stop);
        Err(Refused("broken"))
    }
}

#[tokio::test(start_paused = true)]
async fn w25_two_controllers_that_fail_at_once_are_one_error_and_it_runs_once() {
    let operator = Operator::new();
    for name in ["first", "second"] {
        let added = operator.add_controller(Ends {
            name,
            after: secs(5),
            well: false,
        });
        added.expect("it does not run yet");
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
            log.say("begins");
            pass(30).await;
            log.say("ends");
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let operator = Operator::new();
    operator
        .add_controller(rig.controller.clone())
        .expect("it does not run yet");
    // One that ends well ends nothing else.
    operator
        .add_controller(Ends {
            name: "short",
            after: secs(1),
            well: true,
        })
        .expect("it does not run yet");
    let (stop, log) = (rig.stop.clone(), rig.log.clone());
    let run = tokio::spawn({
        let log = log.clone();
        async move {
            let ended = operator.run_until(stop).await;
            log.say("the operator has ended");
            ended
        }
    });
    rig.script.list([config("web", 1)]).await.expect("it runs");
    pass(10).await;
    assert_eq!(log.take().await, "begins");
    rig.stop.cancel();
    run.await.expect("no panic").expect("it ends well");
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
async fn w27_to_wait_for_a_list_and_to_outlive_a_source_costs_nothing() {
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

    // The source ends: the informer waits to be stopped.
    drop(script);
    settle().await;
    let before = running.load(Ordering::Relaxed);
    pass(3600).await;
    assert_eq!(running.load(Ordering::Relaxed), before);
    assert_eq!(informer.store().len(), 1);
    stop.cancel();
    run.await.expect("no panic").expect("it ends well");
}

/// A backoff is not slept through in a worker: all that fail wait at once, beside the two.
#[tokio::test(start_paused = true)]
async fn w29_a_call_that_waits_to_be_made_again_holds_no_worker_and_no_stop() {
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
            log.say(ask(&request));
            Err::<Outcome, _>(Refused("conflict"))
        }
    });
    rig.start().await;
    for name in ["a", "b", "c", "d", "e"] {
        rig.apply(config(name, 1)).await;
    }
    assert_eq!(
        rig.said().await,
        "created a=1, created b=1, created c=1, created d=1, created e=1"
    );
    assert_eq!(rig.pending(), 5);
    // And no stop waits for one.
    let stopped = Instant::now();
    let controller = rig.controller.clone();
    rig.stop().await;
    assert!(stopped.elapsed() < secs(1));
    let again = controller.run(CancellationToken::new()).await;
    assert!(matches!(again, Err(RunError::AlreadyRan)));
}
