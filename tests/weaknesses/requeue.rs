//! Retries and requeues: once, on time, and with the state of the previous call.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass::{
    Action, ExponentialBackoff, Failure, Informer, InformerController, ListWatch, Outcome, Request,
    controller::ErrorReport,
    handler::State,
    retry::{
        NeverDequeue, NeverRetry, NewEvent, OpinionatedRetryDequeuePolicy, PendingCall,
        RetryDequeuePolicy,
    },
};
use windlass_apiserver::ApiServer;

use crate::rig::{Log, Refused, Rig, config, describe, pass, quiet, secs};

/// The reconciler's own writes cause events, and the informer resyncs. Still there is only one
/// pending requeue at any time during an hour, under each dequeue policy.
#[tokio::test(start_paused = true)]
async fn w01_a_periodic_reconciler_that_writes_status_has_one_pending_requeue() {
    for calls in [
        check_periodic(|_: &NewEvent<'_>, _: &PendingCall<'_>| true).await,
        check_periodic(OpinionatedRetryDequeuePolicy).await,
        check_periodic(NeverDequeue).await,
    ] {
        // Each minute: the requeue and the event of one write; also the resyncs.
        assert!((60..=2 * 60 + 10).contains(&calls), "{calls} calls");
    }
}

/// Runs the reconciler for an hour and checks that one call is pending. Returns the number of calls.
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
async fn w04_the_next_retry_receives_the_state_of_the_previous_one() {
    let mut rig = Rig::new(quiet());
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let step = request.state().and_then(State::get::<&str>).copied();
        log.push(step.unwrap_or("-"));
        let attempt = request.attempt();
        async move {
            Err::<Outcome, _>(match attempt {
                // The first call returns no state, the second one returns a state, and the third
                // one changes it.
                1 => Failure::new("ordered").state(State::new("ordered")),
                2 => Failure::new("paid").state(State::new("paid")),
                _ => Failure::new("nothing new"),
            })
        }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    pass(600).await;
    assert_eq!(rig.logged().await, "-, -, ordered, paid, paid, paid");
    rig.stop().await;
}

/// A failure can contain its retry delay, so neither the error nor the delay can hide the other.
#[tokio::test(start_paused = true)]
async fn w05_an_error_with_a_retry_delay_is_reported_counted_and_limited() {
    let reports = Log::default();
    let (failed, exhausted) = (reports.clone(), reports.clone());
    let mut rig = Rig::new(
        InformerController::builder()
            .retry_policy(ExponentialBackoff::new(secs(1), 2))
            .on_error(move |report| failed.push(format_args!("{:?}", report.retry_in)))
            .on_exhausted(move |_| {
                exhausted.push("exhausted");
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
        reports.take().await,
        "Some(30s), Some(30s), None, exhausted",
        "each failure, and the end of the retries"
    );
    assert_eq!(rig.counted("reconciler_errors_total", &[]), 3);
    assert_eq!(rig.counted("retries_exhausted_total", &[]), 1);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w17_a_call_with_exhausted_retries_is_reported_counted_and_can_be_redriven() {
    let reports = Log::default();
    let hook = reports.clone();
    let mut rig = Rig::new(quiet().retry_policy(NeverRetry).on_exhausted(move |call| {
        hook.push(call);
        std::future::ready(())
    }));
    let (log, repaired) = (rig.log.clone(), Arc::new(AtomicBool::new(false)));
    let is_repaired = Arc::clone(&repaired);
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.push(describe(&request));
        let succeeds = is_repaired.load(Ordering::Relaxed);
        async move {
            if succeeds {
                return Ok(Outcome::done());
            }
            Err(Refused("no"))
        }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "created web=1");
    let report = reports.take().await;
    let (handler, failed) = report.split_once(") of ").expect("the type is in brackets");
    assert!(
        handler.starts_with("reconciler 0 (weaknesses::"),
        "{report}"
    );
    assert_eq!(failed, "configs shop/web on CREATE: the handler failed: no");
    assert_eq!(rig.counted("retries_exhausted_total", &[]), 1);

    let dead_letters = rig.controller.dead_letters();
    let [call] = dead_letters.as_slice() else {
        panic!("{dead_letters:?}");
    };
    assert_eq!((call.key.name(), call.action), ("web", Action::Created));
    assert_eq!(call.error.to_string(), "the handler failed");
    repaired.store(true, Ordering::Relaxed);
    assert!(rig.controller.redrive(call));
    assert_eq!(rig.logged().await, "created web=1");
    assert!(rig.controller.dead_letters().is_empty());
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w17_a_resync_repeats_a_call_with_exhausted_retries() {
    let mut rig = Rig::over(quiet().retry_policy(NeverRetry), |source| {
        Informer::builder(source).resync(secs(600)).build()
    });
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.push(describe(&request));
        async { Err::<Outcome, _>(Refused("no")) }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "created web=1");
    pass(1200).await;
    assert!(rig.logged().await.starts_with("resynced web=1"));
    rig.stop().await;
}

/// The delay is measured from the end of the failed call, with the precision of the runtime's timer.
#[tokio::test(start_paused = true)]
async fn w21_retry_delays_are_exact_to_the_millisecond() {
    let mut rig = Rig::new(quiet().retry_policy(|failed: &ErrorReport<'_>| {
        let attempt = failed.attempt;
        // Neither is a whole number of seconds.
        [secs(1).mul_f64(0.25), secs(1).mul_f64(1.35)]
            .get(attempt as usize)
            .copied()
    }));
    let times: Arc<Mutex<Vec<(Instant, Instant)>>> = Arc::default();
    let record = Arc::clone(&times);
    rig.reconcile(move |_: Request<ConfigMap>| {
        let (begun, record) = (Instant::now(), Arc::clone(&record));
        async move {
            tokio::time::sleep(secs(1).mul_f64(0.7)).await;
            let mut record = record.lock().expect("not poisoned");
            record.push((begun, Instant::now()));
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
    for (waited, expected) in waits.iter().zip([250, 1350]) {
        assert!((expected..expected + 3).contains(waited), "{waits:?}");
    }
    rig.stop().await;
}

#[test]
fn w42_a_backoff_has_exact_attempts_jitter_a_cap_and_no_overflow() {
    let five = ExponentialBackoff::new(secs(5), 5);
    let delays: Vec<_> = (0..7)
        .map(|attempt| five.delay_after(attempt, 0.0).map(|it| it.as_secs()))
        .collect();
    assert_eq!(
        delays,
        [Some(5), Some(10), Some(20), Some(40), Some(80), None, None],
        "exactly five attempts"
    );

    let capped = ExponentialBackoff::forever(secs(1))
        .cap(secs(60))
        .jitter(0.5);
    for attempt in [10, 63, 64, 1_024, u32::MAX] {
        for random in [0.0, 0.5, 0.999] {
            let delay = capped
                .delay_after(attempt, random)
                .expect("no limit of attempts");
            assert!((secs(30)..=secs(60)).contains(&delay), "{delay:?}");
        }
    }
    assert_ne!(
        capped.delay_after(3, 0.1),
        capped.delay_after(3, 0.9),
        "calls that failed together are not retried together"
    );
}

/// A handler writes the status of its object and then fails, on a kind without a generation. The
/// write does not end the backoff, whether the store keeps JSON or decoded objects.
#[tokio::test(start_paused = true)]
async fn a_status_write_before_a_failure_does_not_end_the_backoff() {
    let json = calls_in_a_minute(|namespaces| namespaces).await;
    let decoded = calls_in_a_minute(ListWatch::decoded).await;
    // After 0, 1, 3, 7, 15 and 31 seconds.
    assert_eq!((json, decoded), (6, 6));
}

/// The number of calls of a reconciler that writes a status and then fails.
async fn calls_in_a_minute(form: impl FnOnce(ListWatch<Namespace>) -> ListWatch<Namespace>) -> u32 {
    let namespaces = Api::<Namespace>::all(ApiServer::new().client());
    let informer = Informer::new(form(ListWatch::new(namespaces.clone())));
    let quiet = quiet().retry_policy(ExponentialBackoff::forever(secs(1)));
    let controller = quiet.build().expect("good settings");
    let kind = controller.kind("namespaces").expect("a new kind");
    (controller.add_informer(&kind, &informer)).expect("the first informer");
    let calls = Arc::new(AtomicU32::new(0));
    let (count, writer) = (Arc::clone(&calls), namespaces.clone());
    let reconcile = move |request: Request<Namespace>| {
        let (count, writer) = (Arc::clone(&count), writer.clone());
        async move {
            if request.key().name() != "shop" {
                return Ok(Outcome::done());
            }
            let tried = count.fetch_add(1, Ordering::Relaxed);
            if tried > 100 {
                // Without a backoff, virtual time would not pass.
                return Ok(Outcome::done());
            }
            let condition =
                json!({ "type": "Tried", "status": "True", "message": tried.to_string() });
            let status = json!({ "status": { "conditions": [condition] } });
            let (params, patch) = (PatchParams::default(), Patch::Merge(status));
            let written = writer.patch_status("shop", &params, &patch);
            let written = written.await?.metadata;
            assert_eq!(written.generation, None);
            Err::<_, Failure>(Failure::new("as planned"))
        }
    };
    (controller.add_reconciler(&kind, reconcile)).expect("a reconciler");
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let (controller, stop) = (controller.clone(), stop.clone());
        async move { controller.run(stop).await }
    });
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("shop".to_owned());
    let created = namespaces.create(&PostParams::default(), &namespace).await;
    created.expect("a new namespace");
    pass(60).await;
    stop.cancel();
    (run.await.expect("no panic")).expect("it stops");
    calls.load(Ordering::Relaxed)
}
