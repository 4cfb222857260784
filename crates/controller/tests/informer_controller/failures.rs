//! A handler that fails affects itself, and no other handler.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use parking_lot::Mutex;
use windlass_controller::{
    Action, DeadLetter, ErrorReport, ExponentialBackoff, Failure, InformerController, NeverRetry,
    Outcome, Request, SimpleWatcher,
};

use crate::support::{Log, Refused, Rig, config, pass, secs, show};

/// An error whose `Drop` panics.
#[derive(Debug, thiserror::Error)]
#[error("out of cheese")]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// Rows: GA-22
#[tokio::test(start_paused = true)]
async fn the_error_handler_receives_failures_and_does_not_affect_retries() {
    let log = Log::default();
    let hook = log.clone();
    let rig = Rig::new(
        InformerController::builder()
            .retry_policy(ExponentialBackoff::GRAFANA)
            .on_error(move |report| hook.say(line(report))),
    );
    rig.watch(rig.log.failing("w", 2));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(60).await;
    assert_eq!(
        running.logged().await,
        "w add web=1, w add web=1, w add web=1"
    );
    assert_eq!(
        log.take().await,
        "watcher 0 of configs shop/web on CREATE: the handler failed: not yet (0 5s), \
         watcher 0 of configs shop/web on CREATE: the handler failed: not yet (1 10s)"
    );
    running.stop().await.expect("it stops");
}

fn line(report: &ErrorReport<'_>) -> String {
    let retry = report.retry_in.unwrap_or_default();
    let text = without_type(&report.to_string());
    format!("{text} ({} {}s)", report.attempt, retry.as_secs())
}

/// The text of a report, without the type of the handler.
fn without_type(text: &str) -> String {
    let (before, rest) = text.split_once(" (").expect("the type is in brackets");
    let (name, after) = rest.split_once(") of ").expect("the type is in brackets");
    assert!(name.starts_with("informer_controller::"), "{text}");
    format!("{before} of {after}")
}

#[tokio::test(start_paused = true)]
async fn only_the_failed_handler_is_called_again() {
    let rig = Rig::new(InformerController::builder());
    rig.watch(rig.log.watcher("w1"))
        .watch(rig.log.failing("w2", 1))
        .watch(rig.log.watcher("w3"))
        .reconcile(rig.log.reconciler("r"));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(
        running.logged().await,
        "w1 add web=1, w2 add web=1, w3 add web=1, r created web=1"
    );
    pass(5).await;
    assert_eq!(running.logged().await, "w2 add web=1");
    pass(600).await;
    assert_eq!(running.logged().await, "");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_one_call() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&reports);
    let rig = Rig::new(InformerController::builder().on_error(move |report| {
        hook.lock().push(report.error.to_string());
    }));
    let log = rig.log.clone();
    let calls = Mutex::new(0);
    rig.watch(SimpleWatcher::new().on_add(move |object: Arc<ConfigMap>| {
        let mut calls = calls.lock();
        *calls += 1;
        // Once before the first `await`, and once after.
        assert!(*calls != 1, "out of cheese");
        let (log, second) = (log.clone(), *calls == 2);
        async move {
            tokio::task::yield_now().await;
            assert!(!second, "out of bread");
            log.say(format_args!("w add {}", show(&object)));
            Ok::<_, Refused>(())
        }
    }))
    .reconcile(rig.log.reconciler("r"));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "r created web=1");
    pass(60).await;
    assert_eq!(running.logged().await, "w add web=1");
    assert_eq!(
        *reports.lock(),
        [
            "the handler panicked: out of cheese",
            "the handler panicked: out of bread"
        ]
    );
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn an_error_whose_drop_panics_does_not_end_the_run() {
    let reports = Log::default();
    let hook = reports.clone();
    let rig = Rig::new(InformerController::builder().on_error(move |report| {
        assert!(report.error.downcast_ref::<Bomb>().is_some());
        hook.say(report.attempt);
    }));
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(show(request.object()));
        let fails = request.attempt() < 2;
        async move {
            if fails {
                return Err(Bomb);
            }
            Ok(Outcome::done())
        }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(60).await;
    assert_eq!(running.logged().await, "web=1, web=1, web=1");
    assert_eq!(reports.take().await, "0, 1");
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "web=2");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_hook_has_no_effect_on_calls() {
    let builder = InformerController::builder()
        .on_error(|_| panic!("the hook"))
        .retry_policy(|_: &ErrorReport<'_>| -> Option<Duration> { panic!("the policy") });
    let rig = Rig::new(builder);
    rig.watch(rig.log.failing("w", 1));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "w add web=1");
    // The default policy has this delay.
    pass(5).await;
    assert_eq!(running.logged().await, "w add web=1");
    running.stop().await.expect("it stops");
}

/// Rows: BO-34
#[tokio::test(start_paused = true)]
async fn a_call_that_times_out_is_dropped_and_counts_as_failed() {
    let rig = Rig::new(
        InformerController::builder()
            .timeout(secs(3))
            .on_error(|_| {}),
    );
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let log = log.clone();
        async move {
            log.say(format_args!("attempt {}", request.attempt()));
            if request.attempt() == 0 {
                std::future::pending::<()>().await;
            }
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "attempt 0");
    pass(3).await;
    assert_eq!(running.logged().await, "");
    pass(5).await;
    assert_eq!(running.logged().await, "attempt 1");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_call_is_reported() {
    let dead_letters = Log::default();
    let hook = dead_letters.clone();
    let builder = InformerController::builder()
        .retry_policy(NeverRetry)
        .on_error(|_| {})
        .on_exhausted(move |call| {
            hook.say(without_type(&call.to_string()));
            std::future::ready(())
        });
    let rig = Rig::new(builder);
    rig.watch(rig.log.failing("w", 9));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(600).await;
    assert_eq!(running.logged().await, "w add web=1");
    assert_eq!(
        dead_letters.take().await,
        "watcher 0 of configs shop/web on CREATE: the handler failed: not yet"
    );
    assert_eq!(running.rig.controller.pending_calls(), 0);
    // A later event starts afresh.
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "w update web=1 web=2");
    running.stop().await.expect("it stops");
}

/// The number of a handler alone names none.
#[tokio::test(start_paused = true)]
async fn an_exhausted_call_and_its_dead_letter_name_the_type_of_the_handler() {
    let reports = Log::default();
    let hook = reports.clone();
    let builder = InformerController::builder()
        .retry_policy(NeverRetry)
        .on_error(|_| {})
        .on_exhausted(move |exhausted: DeadLetter| {
            hook.say(exhausted);
            std::future::ready(())
        });
    let rig = Rig::new(builder);
    rig.reconcile(publish);
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(60).await;
    assert_eq!(
        reports.take().await,
        "reconciler 0 (informer_controller::failures::publish) of configs shop/web on CREATE: the \
         handler failed: no"
    );
    let [letter] = &running.rig.controller.dead_letters()[..] else {
        panic!("one dead letter");
    };
    assert_eq!(
        letter.handler_type,
        "informer_controller::failures::publish"
    );
    running.stop().await.expect("it stops");
}

async fn publish(_: Request<ConfigMap>) -> Result<Outcome, Refused> {
    Err(Refused("no"))
}

/// The hook sees the object, so that it can write a status, and the object's next call waits for
/// its end. A hook that panics ends nothing.
#[tokio::test(start_paused = true)]
async fn on_exhausted_sees_the_object_and_the_next_call_waits_for_it() {
    let log = Log::default();
    let (hook, handler) = (log.clone(), log.clone());
    let builder = InformerController::builder()
        .retry_policy(NeverRetry)
        .on_error(|_| {})
        .on_exhausted(move |exhausted: DeadLetter| {
            let hook = hook.clone();
            async move {
                let object = exhausted.object::<ConfigMap>().expect("a config map");
                assert!(exhausted.object::<Pod>().is_none(), "it is no pod");
                hook.say(format_args!("begin {}", show(&object)));
                tokio::time::sleep(secs(5)).await;
                hook.say("end");
                assert!(!show(&object).contains('1'), "a bug of the hook's");
            }
        });
    let rig = Rig::new(builder);
    rig.reconcile(move |request: Request<ConfigMap>| {
        handler.say(format_args!("call {}", show(request.object())));
        async { Err::<Outcome, _>(Refused("no")) }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(config("web", 2)).await;
    pass(60).await;
    assert_eq!(
        log.take().await,
        "call web=1, begin web=1, end, call web=2, begin web=2, end"
    );
    running.stop().await.expect("it stops");
}

/// A hook has the time limit of a handler.
#[tokio::test(start_paused = true)]
async fn on_exhausted_is_dropped_when_it_takes_too_long() {
    let log = Log::default();
    let handler = log.clone();
    let builder = InformerController::builder()
        .retry_policy(NeverRetry)
        .timeout(secs(10))
        .on_error(|_| {})
        .on_exhausted(|_| std::future::pending());
    let rig = Rig::new(builder);
    rig.reconcile(move |request: Request<ConfigMap>| {
        handler.say(format_args!("call {}", show(request.object())));
        async { Err::<Outcome, _>(Refused("no")) }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(config("web", 2)).await;
    pass(5).await;
    assert_eq!(log.take().await, "call web=1");
    pass(60).await;
    assert_eq!(log.take().await, "call web=2");
    running.stop().await.expect("it stops");
}

/// Rows: GA-23
#[tokio::test(start_paused = true)]
async fn a_retry_policy_sees_the_object_the_handler_and_the_error() {
    let log = Log::default();
    let policy = log.clone();
    let builder = InformerController::builder().on_error(|_| {}).retry_policy(
        move |failed: &ErrorReport<'_>| {
            let text = without_type(&failed.to_string());
            policy.say(format_args!("{text}, attempt {}", failed.attempt));
            assert!(failed.retry_in.is_none());
            (failed.key.name() == "web" && failed.attempt < 1).then_some(secs(1))
        },
    );
    let rig = Rig::new(builder);
    rig.reconcile(|_: Request<ConfigMap>| async { Err::<Outcome, _>(Refused("no")) });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(60).await;
    running.apply(config("api", 1)).await;
    pass(60).await;
    let failed = |name, attempt| {
        format!(
            "reconciler 0 of configs shop/{name} on CREATE: the handler failed: no, attempt {attempt}"
        )
    };
    let all = [failed("web", 0), failed("web", 1), failed("api", 0)];
    assert_eq!(log.take().await, all.join(", "));
    running.stop().await.expect("it stops");
}

/// Errors of `anyhow` and boxed ones need no conversion, as a handler's type of error and by `?`.
#[tokio::test(start_paused = true)]
async fn anyhow_and_boxed_errors_are_errors_of_a_handler() {
    type Boxed = Box<dyn std::error::Error + Send + Sync>;
    async fn by_question_mark(request: Request<ConfigMap>) -> Result<Outcome, Failure> {
        let boxed: Result<(), Boxed> = Err("boxed".into());
        match request.attempt() {
            0 => boxed?,
            _ => Err(anyhow::anyhow!("inner").context("outer"))?,
        }
        Ok(Outcome::done())
    }
    let log = Log::default();
    let hook = log.clone();
    let builder = InformerController::builder()
        .retry_policy(ExponentialBackoff::new(secs(1), 1))
        .on_error(move |report| hook.say(report));
    let rig = Rig::new(builder);
    rig.reconcile(by_question_mark);
    rig.reconcile(|_: Request<ConfigMap>| async { Err::<Outcome, _>(anyhow::anyhow!("anyhow")) });
    rig.reconcile(|_: Request<ConfigMap>| async { Err::<Outcome, Boxed>("box".into()) });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(60).await;
    let log = log.take().await;
    for logged in [": boxed", ": outer: inner", ": anyhow", ": box,"] {
        assert!(log.contains(logged), "{logged}: {log}");
    }
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn dead_letters_can_be_inspected_and_redriven() {
    let builder = InformerController::builder()
        .retry_policy(ExponentialBackoff::new(secs(1), 1))
        .on_error(|_| {});
    let rig = Rig::new(builder);
    rig.watch(rig.log.failing("w", 3));
    let running = rig.start_empty().await;
    let controller = &running.rig.controller;
    running.apply(config("web", 1)).await;
    assert!(controller.dead_letters().is_empty());
    pass(60).await;
    assert_eq!(running.logged().await, "w add web=1, w add web=1");

    let dead_letters = controller.dead_letters();
    assert_eq!(dead_letters.len(), 1);
    assert_eq!(dead_letters[0].key.to_string(), "shop/web");
    assert_eq!(dead_letters[0].action, Action::Created);
    assert_eq!(dead_letters[0].attempts, 2);
    assert_eq!(dead_letters[0].error.reason(), "failed");

    // A redriven call starts at the first attempt, with its own retries.
    assert!(controller.redrive(&dead_letters[0]));
    assert!(!controller.redrive(&dead_letters[0]), "once");
    pass(60).await;
    assert_eq!(running.logged().await, "w add web=1, w add web=1");
    assert!(controller.dead_letters().is_empty());
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_dropped_after_an_event_or_the_removal_of_the_handler() {
    let builder = InformerController::builder()
        .retry_policy(NeverRetry)
        .on_error(|_| {});
    let rig = Rig::new(builder);
    rig.watch(rig.log.failing("w", 2));
    let running = rig.start_empty().await;
    let controller = &running.rig.controller;
    running.apply(config("web", 1)).await;
    running.apply(config("api", 1)).await;
    running.logged().await;
    let dead_letters = controller.dead_letters();
    assert_eq!(dead_letters.len(), 2);

    running.apply(config("web", 2)).await;
    running.logged().await;
    assert!(!controller.redrive(&dead_letters[0]), "overtaken");
    assert_eq!(controller.dead_letters().len(), 1);

    controller.remove_all_watchers(&running.rig.kind);
    assert!(
        !controller.redrive(&dead_letters[1]),
        "there is no handler to call"
    );
    assert!(controller.dead_letters().is_empty());
    running.stop().await.expect("it stops");
}

/// An error that has another one as its source.
#[derive(Debug, thiserror::Error)]
#[error("cannot publish")]
struct Publish(#[source] kube::Error);

/// D40. Rows: BO-51
#[tokio::test(start_paused = true)]
async fn the_retry_delay_of_an_api_server_is_not_undercut() {
    let busy = |seconds: u32| {
        let mut status = kube::core::Status::failure("busy", "TooManyRequests").with_code(429);
        status.details = Some(kube::core::response::StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: seconds,
        });
        kube::Error::Api(Box::new(status))
    };
    let failure = move |number: u32| match number {
        0 => Failure::from(busy(30)),
        1 => Failure::from(Publish(busy(40))),
        // At most 5 minutes.
        2 => Failure::from(busy(86_400)),
        // Not longer than the policy.
        3 => Failure::from(busy(1)),
        // The delay of the handler has precedence.
        _ => Failure::from(busy(30)).retry_after(secs(7)),
    };
    let log = Log::default();
    let hook = log.clone();
    let policy = |_: &ErrorReport<'_>| Some(Duration::from_secs(2));
    let rig = Rig::new(
        InformerController::builder()
            .retry_policy(policy)
            .on_error(move |report| hook.say(report.retry_in.unwrap_or_default().as_secs())),
    );
    rig.reconcile(move |request: Request<ConfigMap>| {
        let failed = failure(request.attempt());
        async { Err::<Outcome, _>(failed) }
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(30 + 40 + 300 + 2 + 1).await;
    assert_eq!(log.take().await, "30, 40, 300, 2, 7");
    running.stop().await.expect("it stops");
}
