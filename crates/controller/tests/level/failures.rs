//! Failed calls: hooks, retries, conflicts, panics and time limits.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DeleteParams;
use windlass_controller::{
    Context, ControllerBuilder, ErrorReport, ExponentialBackoff, Failure, Fence, FenceClosed,
    HandlerError, ObjectReconciler, Outcome, Retry, State,
};

use crate::support::{Log, Rig, config, generation, pass, secs, show};

/// Fails as its plan says, and logs the errors that its hook gets.
struct Fails {
    log: Log,
    plan: fn(u32) -> Result<Outcome, Failure>,
    then: Retry,
}

impl ObjectReconciler<ConfigMap> for Fails {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
        let last = if cx.last_attempt() { " last" } else { "" };
        self.log.say(format_args!("{}{last}", show(&cx)));
        (self.plan)(cx.attempt())
    }

    async fn failed(&self, cx: &Context<ConfigMap>, error: &HandlerError) -> Retry {
        let source =
            std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
        self.log.say(format_args!("{} failed: {source}", cx.key()));
        self.then
    }
}

fn steady(builder: ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap> {
    builder
        .retry_policy(ExponentialBackoff::new(secs(10), 2).jitter(0.0))
        .on_error(|_: &ErrorReport<'_>| ())
}

/// Rows: BO-18, BO-20
#[tokio::test(start_paused = true)]
async fn the_hook_gets_the_error_of_each_attempt_and_the_policy_decides() {
    let log = Log::new();
    let fails = Fails {
        log: log.clone(),
        plan: |_| Err(Failure::new("the disk is full")),
        then: Retry::Policy,
    };
    let rig = Rig::start(&log, steady, fails).await;
    rig.apply(config("web", 1)).await;
    assert_eq!(
        rig.logged().await,
        "0.0 web@1 for changed, 0.0 web failed: the disk is full"
    );
    pass(secs(300)).await;
    let calls = rig.logged().await;
    assert!(calls.contains("10.0 web@1 for retry attempt 1"), "{calls}");
    assert!(calls.contains("web@1 for retry attempt 2 last"), "{calls}");
    assert_eq!(calls.matches("failed").count(), 2, "{calls}");
    assert_eq!(rig.controller.engine().dead_letters().len(), 1);
    rig.stop().await;
}

/// Rows: BO-18, BO-19
#[tokio::test(start_paused = true)]
async fn the_hook_can_set_the_delay_or_prevent_the_retry() {
    let log = Log::new();
    for (then, calls) in [
        (Retry::After(secs(77)), "77.0 web@1 for retry attempt 1"),
        (Retry::Never, ""),
    ] {
        let fails = Fails {
            log: log.clone(),
            plan: |attempt| {
                if attempt == 0 {
                    Err(Failure::new("no"))
                } else {
                    Ok(Outcome::done())
                }
            },
            then,
        };
        let log = Log::new();
        let fails = Fails {
            log: log.clone(),
            ..fails
        };
        let rig = Rig::start(&log, steady, fails).await;
        rig.apply(config("web", 1)).await;
        rig.logged().await;
        pass(secs(1000)).await;
        assert_eq!(rig.logged().await, calls, "{then:?}");
        // The next event calls it in any case.
        rig.apply(generation("web", 2)).await;
        assert!(rig.logged().await.contains("web@2 for changed"));
        rig.stop().await;
    }
}

/// Rows: BO-19
#[tokio::test(start_paused = true)]
async fn typed_failures_are_transient_permanent_or_quiet_conflicts() {
    for (plan, calls) in [
        (
            (|attempt| match attempt {
                0 => Err(Failure::new("busy").retry_after(secs(33))),
                _ => Ok(Outcome::done()),
            }) as fn(u32) -> Result<Outcome, Failure>,
            "33.0 web@1 for retry attempt 1",
        ),
        (|_| Err(Failure::new("bad spec").permanent()), ""),
        (|_| Err(Failure::new("taken").conflict().permanent()), ""),
    ] {
        let log = Log::new();
        let fails = Fails {
            log: log.clone(),
            plan,
            then: Retry::Policy,
        };
        let rig = Rig::start(&log, steady, fails).await;
        rig.apply(config("web", 1)).await;
        rig.logged().await;
        pass(secs(1000)).await;
        assert_eq!(rig.logged().await, calls);
        rig.stop().await;
    }

    // A conflict: repeated after the first delay, each time, without an attempt and without hooks.
    let log = Log::new();
    let conflicts = log.reconciler(|call| async move {
        if call <= 3 {
            Err(Failure::new("outdated").conflict())
        } else {
            Ok(Outcome::done())
        }
    });
    let reported = Arc::new(parking_lot::Mutex::new(0));
    let counted = {
        let reported = Arc::clone(&reported);
        move |builder: ControllerBuilder<ConfigMap>| {
            steady(builder).on_error(move |_: &ErrorReport<'_>| *reported.lock() += 1)
        }
    };
    let rig = Rig::start(&log, counted, conflicts).await;
    rig.apply(config("web", 1)).await;
    pass(secs(1000)).await;
    let calls =
        "0.0 web@1 for changed, 10.0 web@1 for retry, 20.0 web@1 for retry, 30.0 web@1 for retry";
    assert_eq!(rig.logged().await, calls);
    assert_eq!(*reported.lock(), 0);
    rig.stop().await;
}

/// Rows: BO-34
#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_or_panics_fails_and_is_repeated() {
    struct Hangs(Log);

    impl ObjectReconciler<ConfigMap> for Hangs {
        type Error = Failure;

        async fn reconcile(&self, cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
            self.0.say(show(&cx));
            match cx.attempt() {
                0 => std::future::pending().await,
                1 => panic!("out of range"),
                _ => Ok(Outcome::done()),
            }
        }

        async fn failed(&self, _: &Context<ConfigMap>, error: &HandlerError) -> Retry {
            self.0.say(error);
            Retry::Policy
        }
    }

    let log = Log::new();
    let limited = |builder| steady(builder).timeout(secs(5));
    let rig = Rig::start(&log, limited, Hangs(log.clone())).await;
    rig.apply(config("web", 1)).await;
    pass(secs(1000)).await;
    let calls = rig.logged().await;
    for part in [
        "0.0 web@1 for changed, 5.0 the handler timed out after 5s, 15.0 web@1 for retry attempt 1",
        "15.0 the handler panicked: out of range",
        "web@1 for retry attempt 2",
    ] {
        assert!(calls.contains(part), "{part}: {calls}");
    }
    rig.stop().await;
}

/// Rows: BO-20
#[tokio::test(start_paused = true)]
async fn the_state_of_a_failed_call_reaches_the_next_one() {
    struct Counts(Log);

    impl ObjectReconciler<ConfigMap> for Counts {
        type Error = Failure;

        async fn reconcile(&self, cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
            let step = cx.state::<u32>().copied().unwrap_or_default();
            self.0.say(format_args!("step {step}"));
            if step < 2 {
                return Err(Failure::new("not yet").state(State::new(step + 1)));
            }
            Ok(Outcome::done())
        }
    }

    let log = Log::new();
    let rig = Rig::start(&log, steady, Counts(log.clone())).await;
    rig.apply(config("web", 1)).await;
    pass(Duration::from_secs(100)).await;
    assert_eq!(rig.logged().await, "0.0 step 0, 10.0 step 1, 30.0 step 2");
    rig.stop().await;
}

/// Rows: BO-21
#[tokio::test(start_paused = true)]
async fn an_event_in_the_backoff_runs_at_once_and_neither_resets_nor_advances_the_schedule() {
    let log = Log::new();
    let fails = log.reconciler(|_| async { Err(Failure::new("no")) });
    let rig = Rig::start(&log, steady, fails).await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "0.0 web@1 for changed");
    pass(secs(15)).await;
    assert_eq!(rig.logged().await, "10.0 web@1 for retry attempt 1");
    // The retry is due at 30. A change of the labels, of the same generation, runs at once.
    for version in 2..6 {
        let mut changed = config("web", version);
        changed.metadata.labels = Some([("version".to_owned(), version.to_string())].into());
        rig.apply(changed).await;
    }
    let calls = rig.logged().await;
    assert!(calls.starts_with("15.0 web@"), "{calls}");
    let early = calls.matches("web@").count();
    assert!(
        early <= 2,
        "at most once in the first delay of the policy: {calls}"
    );
    pass(secs(100)).await;
    let calls = rig.logged().await;
    assert!(calls.contains("30.0 web@5 for retry attempt 2"), "{calls}");
    rig.stop().await;
}

/// Rows: BO-31
#[tokio::test(start_paused = true)]
async fn each_call_is_reported_and_a_dropped_one_as_abandoned() {
    let (log, calls) = (Log::new(), Arc::new(parking_lot::Mutex::new(Vec::new())));
    let reconciler = log.reconciler(|call| async move {
        match call {
            1 => Ok(Outcome::requeue_after(secs(5))),
            2 => Err(Failure::new("no")),
            3 => Err(Failure::new("outdated").conflict()),
            4 => Err(Failure::new("for ever").conflict().permanent()),
            5 => Ok(Outcome::done()),
            _ => std::future::pending().await,
        }
    });
    let reported = {
        let calls = Arc::clone(&calls);
        move |builder: ControllerBuilder<ConfigMap>| {
            steady(builder).on_call(move |call: &windlass_controller::CallReport<'_>| {
                use windlass_controller::CallOutcome as Ended;
                let ended = match call.outcome {
                    Ended::Succeeded => "succeeded",
                    Ended::Requeued(_) => "requeued",
                    Ended::Failed(_) => "failed",
                    Ended::Conflict(_) => "conflict",
                    Ended::Abandoned => "abandoned",
                    _ => "unknown",
                };
                calls
                    .lock()
                    .push(format!("{} {} {ended}", call.key, call.attempt));
            })
        }
    };
    let rig = Rig::start(&log, reported, reconciler).await;
    rig.apply(config("web", 1)).await;
    pass(secs(100)).await;
    for version in [2, 3] {
        rig.apply(generation("web", version)).await;
        rig.logged().await;
    }
    rig.abort().await;
    let calls = calls.lock().join(", ");
    // A permanent conflict is an error.
    let expected = "web 0 requeued, web 0 failed, web 1 conflict, web 1 failed, web 0 succeeded, \
                    web 0 abandoned";
    assert_eq!(calls, expected);
}

/// A call in progress when the lease ends has neither failed nor succeeded, and the next lease
/// repeats it.
///
/// Rows: BO-31
#[tokio::test(start_paused = true)]
async fn a_call_that_the_fence_refuses_is_abandoned_and_repeated() {
    let (log, calls) = (Log::new(), Arc::new(parking_lot::Mutex::new(Vec::new())));
    let (fence, errors) = (Fence::new(), Arc::new(parking_lot::Mutex::new(0)));
    fence.open_until(fence.now() + secs(30));
    let reconciler = {
        let log = log.clone();
        move |cx: Context<ConfigMap>| {
            log.say(show(&cx));
            async move {
                if cx.attempt() > 0 {
                    return Ok(Outcome::done());
                }
                pass(secs(20)).await;
                let configs = kube::Api::<ConfigMap>::namespaced(cx.client(), "default");
                match configs.delete("other", &DeleteParams::default()).await {
                    // There is no server.
                    Err(error) if FenceClosed::find(&error).is_none() => Ok(Outcome::done()),
                    written => Err(Failure::new(written.expect_err("refused"))),
                }
            }
        }
    };
    let configure = {
        let (calls, errors) = (Arc::clone(&calls), Arc::clone(&errors));
        move |builder: ControllerBuilder<ConfigMap>| {
            steady(builder)
                .on_error(move |_: &ErrorReport<'_>| *errors.lock() += 1)
                .on_call(move |call: &windlass_controller::CallReport<'_>| {
                    let outcome = match call.outcome {
                        windlass_controller::CallOutcome::Abandoned => "abandoned",
                        windlass_controller::CallOutcome::Succeeded => "succeeded",
                        _ => "other",
                    };
                    calls
                        .lock()
                        .push(format!("{outcome} at attempt {}", call.attempt));
                })
        }
    };
    let fenced = |controller: &windlass_controller::Controller<ConfigMap>| {
        windlass_controller::Runnable::set_fence(controller, &fence);
    };
    let rig = Rig::prepared(&log, configure, reconciler, fenced).await;
    rig.apply(config("web", 1)).await;
    pass(secs(5)).await;
    assert_eq!(rig.logged().await, "0.0 web@1 for changed");
    // The lease ends at 10, the call writes at 20, and the next lease begins at 100.
    fence.close();
    pass(secs(95)).await;
    assert_eq!(rig.logged().await, "", "no call without a lease");
    assert_eq!(*calls.lock(), ["abandoned at attempt 0"]);
    fence.open_until(fence.now() + secs(1000));
    pass(secs(50)).await;
    assert!(rig.logged().await.starts_with("100.0 web@1 for retry"));
    assert_eq!(
        *calls.lock(),
        ["abandoned at attempt 0", "succeeded at attempt 0"]
    );
    assert_eq!(*errors.lock(), 0);
    rig.stop().await;
}

/// A rate limit postpones an early call past other events, and the retry keeps its time and attempt.
///
/// Rows: BO-21, BO-22
#[tokio::test(start_paused = true)]
async fn a_deferred_call_in_the_backoff_keeps_the_schedule_and_its_reasons() {
    let log = Log::new();
    let fails = log.reconciler(|_| async { Err(Failure::new("no")) });
    let one = std::num::NonZeroU32::MIN;
    let limited = |builder| steady(builder).rate_limit(one, secs(4));
    let rig = Rig::start(&log, limited, fails).await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "0.0 web@1 for changed");
    pass(secs(12)).await;
    assert_eq!(rig.logged().await, "10.0 web@1 for retry attempt 1");
    // The next retry is due at 30. The limit allows the early call at 14.
    let mut changed = config("web", 2);
    changed.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    rig.apply(changed).await;
    pass(secs(10)).await;
    let calls = "14.0 web@2 for changed, requeue attempt 2";
    assert_eq!(rig.logged().await, calls);
    pass(secs(6)).await;
    assert_eq!(
        rig.logged().await,
        "",
        "the early failure has not changed the schedule"
    );
    pass(secs(5)).await;
    assert_eq!(rig.logged().await, "30.0 web@2 for retry attempt 2");
    rig.stop().await;
}
