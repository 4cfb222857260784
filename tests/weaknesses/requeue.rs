//! Repeated calls: once, at their time, with the state that they left.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::Instant;
use windlass::{
    Action, ExponentialBackoff, Failure, Informer, InformerController, Outcome, Request,
    controller::ErrorReport,
    handler::State,
    retry::{
        AlwaysDequeue, NeverDequeue, NeverRetry, OpinionatedRetryDequeuePolicy, RetryDequeuePolicy,
    },
};

use crate::rig::{Log, Refused, Rig, ask, config, pass, quiet, secs};

/// Its own writes come back as events and its informer resyncs, and still there is one chain,
/// whatever the dequeue policy: after an hour as after a minute.
#[tokio::test(start_paused = true)]
async fn w01_a_periodic_reconciler_that_writes_status_keeps_one_pending_run() {
    for calls in [
        check_periodic(AlwaysDequeue).await,
        check_periodic(OpinionatedRetryDequeuePolicy).await,
        check_periodic(NeverDequeue).await,
    ] {
        // Each minute the pending one and the echo of the one write, and the resyncs.
        assert!((60..=2 * 60 + 10).contains(&calls), "{calls} calls");
    }
}

/// Runs it for an hour; never is more than one call pending. Returns how many were made.
async fn check_periodic(policy: impl RetryDequeuePolicy) -> u32 {
    let mut rig = Rig::over(quiet().retry_dequeue_policy(policy), |source| {
        Informer::builder(source).resync(secs(600)).build()
    });
    let (script, calls) = (Arc::clone(&rig.script), Arc::new(AtomicU32::new(0)));
    let written: Arc<Mutex<Option<Instant>>> = Arc::default();
    let count = Arc::clone(&calls);
    rig.reconcile(move |_: Request<ConfigMap>| {
        let call = count.fetch_add(1, Ordering::Relaxed);
        let mut written = written.lock().expect("not poisoned");
        let due = written.is_none_or(|at| at.elapsed() >= secs(60));
        if due {
            *written = Some(Instant::now());
        }
        let script = Arc::clone(&script);
        async move {
            if due {
                script.apply(config("web", 2 + call)).await?;
            }
            Ok::<_, Failure>(Outcome::requeue_after(secs(60)))
        }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    for _ in 0..60 {
        pass(60).await;
        assert_eq!(rig.pending(), 1);
    }
    rig.stop().await;
    calls.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn w04_a_state_that_a_retry_leaves_is_there_in_the_next() {
    let mut rig = Rig::new(quiet());
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let step = request.state().and_then(State::get::<&str>).copied();
        log.say(step.unwrap_or("-"));
        let attempt = request.attempt();
        async move {
            Err::<Outcome, _>(match attempt {
                // The first call leaves nothing; the second does, and the third changes it.
                1 => Failure::new("ordered").state(State::new("ordered")),
                2 => Failure::new("paid").state(State::new("paid")),
                _ => Failure::new("nothing new"),
            })
        }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    pass(600).await;
    assert_eq!(rig.said().await, "-, -, ordered, paid, paid, paid");
    rig.stop().await;
}

/// An error is the only way to say that a call failed, and it can say when to come back: the
/// two cannot hide each other.
#[tokio::test(start_paused = true)]
async fn w05_an_error_that_says_when_to_try_again_is_reported_counted_and_ends() {
    let told = Log::default();
    let (failed, given_up) = (told.clone(), told.clone());
    let mut rig = Rig::new(
        InformerController::builder()
            .retry_policy(ExponentialBackoff::new(secs(1), 2))
            .on_error(move |report| failed.say(format_args!("{:?}", report.retry_in)))
            .on_exhausted(move |_| {
                given_up.say("given up");
                std::future::ready(())
            }),
    );
    rig.reconcile(|_: Request<ConfigMap>| async {
        Err::<Outcome, _>(Failure::new("busy").retry_after(secs(30)))
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    pass(3600).await;
    assert_eq!(
        told.take().await,
        "Some(30s), Some(30s), None, given up",
        "each failure, and the end"
    );
    assert_eq!(rig.counted("reconciler_errors_total", &[]), 3);
    assert_eq!(rig.counted("retries_exhausted_total", &[]), 1);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w17_what_is_given_up_is_told_and_counted_and_can_be_made_again() {
    let told = Log::default();
    let hook = told.clone();
    let mut rig = Rig::new(quiet().retry_policy(NeverRetry).on_exhausted(move |call| {
        hook.say(call);
        std::future::ready(())
    }));
    let (log, mended) = (rig.log.clone(), Arc::new(AtomicBool::new(false)));
    let well = Arc::clone(&mended);
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(ask(&request));
        let well = well.load(Ordering::Relaxed);
        async move {
            if well {
                return Ok(Outcome::done());
            }
            Err(Refused("no"))
        }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.said().await, "created web=1");
    let line = "reconciler 0 of configs shop/web on CREATE: the handler failed: no";
    assert_eq!(told.take().await, line);
    assert_eq!(rig.counted("retries_exhausted_total", &[]), 1);

    let given_up = rig.controller.given_up();
    let [call] = given_up.as_slice() else {
        panic!("{given_up:?}");
    };
    assert_eq!((call.key.name(), call.action), ("web", Action::Created));
    assert_eq!(call.error.to_string(), "the handler failed");
    mended.store(true, Ordering::Relaxed);
    assert!(rig.controller.redrive(call));
    assert_eq!(rig.said().await, "created web=1");
    assert!(rig.controller.given_up().is_empty());
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w17_what_was_given_up_comes_back_with_a_resync() {
    let mut rig = Rig::over(quiet().retry_policy(NeverRetry), |source| {
        Informer::builder(source).resync(secs(600)).build()
    });
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(ask(&request));
        async { Err::<Outcome, _>(Refused("no")) }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.said().await, "created web=1");
    pass(1200).await;
    assert!(rig.said().await.starts_with("resynced web=1"));
    rig.stop().await;
}

/// To the millisecond of the runtime's timer, from the end of the call that failed: no tick.
#[tokio::test(start_paused = true)]
async fn w21_a_delay_is_kept_to_the_millisecond() {
    let mut rig = Rig::new(quiet().retry_policy(|failed: &ErrorReport<'_>| {
        let attempt = failed.attempt;
        // Both shorter than a second and no whole number of seconds.
        [secs(1).mul_f64(0.25), secs(1).mul_f64(1.35)]
            .get(attempt as usize)
            .copied()
    }));
    let times: Arc<Mutex<Vec<(Instant, Instant)>>> = Arc::default();
    let book = Arc::clone(&times);
    rig.reconcile(move |_: Request<ConfigMap>| {
        let (begun, book) = (Instant::now(), Arc::clone(&book));
        async move {
            tokio::time::sleep(secs(1).mul_f64(0.7)).await;
            let mut book = book.lock().expect("not poisoned");
            book.push((begun, Instant::now()));
            Err::<Outcome, _>(Refused("not yet"))
        }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    pass(60).await;
    let times = times.lock().expect("not poisoned").clone();
    let waits: Vec<_> = (times.windows(2))
        .map(|pair| (pair[1].0 - pair[0].1).as_millis())
        .collect();
    assert_eq!(waits.len(), 2);
    for (waited, said) in waits.iter().zip([250, 1350]) {
        assert!((said..said + 3).contains(waited), "{waits:?}");
    }
    rig.stop().await;
}

#[test]
fn w42_a_backoff_means_what_it_says_and_has_jitter_and_a_cap_and_no_overflow() {
    let five = ExponentialBackoff::new(secs(5), 5);
    let delays: Vec<_> = (0..7)
        .map(|attempt| five.delay_after(attempt, 0.0).map(|it| it.as_secs()))
        .collect();
    assert_eq!(
        delays,
        [Some(5), Some(10), Some(20), Some(40), Some(80), None, None],
        "five attempts are five"
    );

    let capped = ExponentialBackoff::forever(secs(1))
        .cap(secs(60))
        .jitter(0.5);
    for attempt in [10, 63, 64, 1_024, u32::MAX] {
        for random in [0.0, 0.5, 0.999] {
            let delay = capped.delay_after(attempt, random).expect("for ever");
            assert!((secs(30)..=secs(60)).contains(&delay), "{delay:?}");
        }
    }
    assert_ne!(
        capped.delay_after(3, 0.1),
        capped.delay_after(3, 0.9),
        "what failed together is not tried again together"
    );
}
