//! Log lines and spans of a controller.

use std::{
    io,
    sync::{Arc, LazyLock},
    time::Duration,
};

use ::tracing::{
    Dispatch,
    subscriber::{DefaultGuard, NoSubscriber, set_default},
};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tracing_subscriber::fmt::{MakeWriter, format::FmtSpan};
use windlass_controller::{Coalescing, InformerController, NeverRetry, Outcome, Request};
use windlass_informer::{Informer, Scripted};

use crate::support::{Refused, Rig, config, generation, pass, secs, settle};

/// The log lines of this thread while the guard exists.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn listen(spans: FmtSpan) -> (Self, DefaultGuard) {
        // With only one subscriber, `tracing` caches the interest of the thread that reaches a span
        // first. In another test, this thread can have no subscriber.
        static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&ANOTHER);
        let lines = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_span_events(spans)
            .with_writer(lines.clone())
            .finish();
        (lines, set_default(subscriber))
    }

    fn all(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().clone()).expect("utf-8");
        text.lines().map(str::to_owned).collect()
    }
}

impl io::Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Rows: GA-02
#[tokio::test(start_paused = true)]
async fn by_default_errors_are_logged_with_their_component() {
    let (lines, _guard) = Lines::listen(FmtSpan::NONE);
    let rig = Rig::new(
        InformerController::builder()
            .retry_policy(windlass_controller::ExponentialBackoff::GRAFANA),
    );
    rig.watch(rig.log.failing("w", 1));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(60).await;
    running.stop().await.expect("it stops");

    let all = lines.all();
    let errors: Vec<_> = all.iter().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(errors.len(), 1, "{all:#?}");
    for part in [
        r#"component="InformerController""#,
        r#"kind="configs""#,
        "object=shop/web",
        r#"role="watcher""#,
        r#"handler_type=""#,
        r#"action="CREATE""#,
        "attempt=0",
        "call failed, retrying",
        "retry_in=5s",
        "error=the handler failed: not yet",
    ] {
        assert!(errors[0].contains(part), "no {part} in {}", errors[0]);
    }
}

/// The type of a handler can have hundreds of characters.
#[tokio::test(start_paused = true)]
async fn the_error_of_a_failed_call_is_logged_before_the_type_of_its_handler() {
    let (lines, _guard) = Lines::listen(FmtSpan::NONE);
    let rig = Rig::new(InformerController::builder());
    rig.watch(rig.log.failing("w", 1));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(60).await;
    running.stop().await.expect("it stops");
    let all = lines.all();
    let failed = all.iter().find(|line| line.contains("call failed"));
    let failed = failed.expect("a line");
    let (before, _) = failed.split_once("handler_type=").expect("a type");
    assert!(
        before.contains("error=the handler failed: not yet"),
        "{failed}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_runs_for_ten_minutes_is_logged_once_with_its_object() {
    let (lines, _guard) = Lines::listen(FmtSpan::NONE);
    let rig = Rig::new(InformerController::builder());
    rig.reconcile(|_: Request<ConfigMap>| async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Ok::<_, Refused>(Outcome::done())
    });
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    let long = |lines: &Lines| {
        let all = lines.all();
        let long = all
            .into_iter()
            .filter(|line| line.contains("a call runs for very long"));
        long.collect::<Vec<_>>()
    };
    pass(590).await;
    assert_eq!(long(&lines), [""; 0]);
    pass(80).await;
    let logged = long(&lines);
    assert_eq!(logged.len(), 1, "{logged:#?}");
    for part in [
        "WARN",
        r#"kind="configs""#,
        "object=shop/web",
        r#"role="reconciler""#,
        r#"action="CREATE""#,
        "InformerControllerBuilder::timeout",
    ] {
        assert!(logged[0].contains(part), "no {part} in {}", logged[0]);
    }
    pass(1200).await;
    assert_eq!(long(&lines).len(), 1);
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_writes_its_object_at_each_call_is_reported() {
    let (lines, _guard) = Lines::listen(FmtSpan::NONE);
    let rig = Rig::new(InformerController::builder());
    let (called, mut calls) = tokio::sync::mpsc::channel(1);
    rig.reconcile(move |_: Request<ConfigMap>| {
        let called = called.clone();
        async move {
            _ = called.send(()).await;
            Ok::<_, Refused>(Outcome::done())
        }
    });
    let running = rig.start_empty().await;
    for version in 1..1000 {
        running.apply(config("web", version)).await;
        calls.recv().await.expect("a call");
    }
    running.stop().await.expect("it stops");
    let all = lines.all();
    let often: Vec<_> = all
        .iter()
        .filter(|line| line.contains("changes very often"))
        .collect();
    assert_eq!(often.len(), 1, "{often:#?}");
    for part in [
        "WARN",
        "key=shop/web",
        "calls=300",
        "within=10s",
        "write only what differs",
    ] {
        assert!(often[0].contains(part), "no {part} in {}", often[0]);
    }
}

/// The last line about a call says that it was the last, and names no next time.
#[tokio::test(start_paused = true)]
async fn a_call_without_further_retries_is_logged_as_not_retried_or_exhausted() {
    for (attempts, logged) in [
        (0, "call failed, not retried"),
        (2, "call failed, retries exhausted"),
    ] {
        let (lines, _guard) = Lines::listen(FmtSpan::NONE);
        let policy = windlass_controller::ExponentialBackoff::new(
            std::time::Duration::from_secs(1),
            attempts,
        );
        let rig = Rig::new(InformerController::builder().retry_policy(policy));
        rig.watch(rig.log.failing("w", 9));
        let running = rig.start_empty().await;
        running.apply(config("web", 1)).await;
        pass(60).await;
        running.stop().await.expect("it stops");

        let all = lines.all();
        let errors: Vec<_> = all.iter().filter(|line| line.contains("ERROR")).collect();
        let last = errors.last().expect("the call failed");
        assert!(last.contains(logged), "{all:#?}");
        assert!(!last.contains("retry_in"), "{all:#?}");
        let calls = u32::try_from(errors.len()).expect("a few");
        assert_eq!(calls, attempts + 1, "{all:#?}");
        let others = &errors[..errors.len() - 1];
        assert!(
            others.iter().all(|line| line.contains("retry_in=")),
            "{all:#?}"
        );
    }
}

/// Spans contain the outcome of calls, and the events that were coalesced into others.
#[tokio::test(start_paused = true)]
async fn spans_have_the_outcomes() {
    let (lines, _guard) = Lines::listen(FmtSpan::CLOSE);
    let rig = Rig::new(
        InformerController::builder()
            .on_error(|_| {})
            .retry_policy(NeverRetry)
            .coalescing(Coalescing::Always)
            .timeout(secs(10)),
    );
    rig.reconcile(|request: Request<ConfigMap>| async move {
        match request.key().name() {
            "slow" => std::future::pending().await,
            "bad" => panic!("bad"),
            "refused" => Err(Refused("no")),
            "again" => Ok(Outcome::requeue_after(secs(3600))),
            _ => Ok(Outcome::done()),
        }
    });
    let refuses = |object: &ConfigMap| {
        assert_ne!(object.metadata.name.as_deref(), Some("bad"));
        None
    };
    (rig.controller.add_mapper(&rig.kind, &rig.kind, refuses)).expect("the kind is there");
    let running = rig.start_empty().await;
    for name in ["slow", "bad", "refused", "again", "web"] {
        running.apply(config(name, 1)).await;
    }
    pass(1).await;
    // While the first one is processed, the third event is coalesced into the second.
    running.apply(config("slow", 2)).await;
    running.apply(config("slow", 3)).await;
    pass(60).await;
    running.stop().await.expect("it stops");

    let all = lines.all();
    let logged = |span: &str, name: &str| {
        let lines = all.iter().filter(|line| line.ends_with(": close"));
        let span = format!(":{span}{{");
        let object = format!("object=shop/{name} ");
        let its = lines.filter(|line| line.contains(&span) && line.contains(&object));
        its.cloned().collect::<Vec<_>>()
    };
    for (name, outcome, mapped) in [
        ("slow", "timed_out", "done"),
        ("bad", "panicked", "panicked"),
        ("refused", "failed", "done"),
        ("again", "requeued", "done"),
        ("web", "done", "done"),
    ] {
        for (span, outcome) in [("reconciler", outcome), ("mapper", mapped)] {
            let logged = logged(span, name);
            assert!(!logged.is_empty(), "no {span} of {name} in {all:#?}");
            let failed = !["done", "requeued"].contains(&outcome);
            for line in logged {
                let shown = line.contains(&format!(r#"outcome="{outcome}""#));
                assert!(shown, "not {outcome}: {line}");
                assert_eq!(
                    line.contains(r#"otel.status_code="ERROR""#),
                    failed,
                    "{line}"
                );
            }
        }
    }
    let coalesced = all
        .iter()
        .filter(|line| line.contains(r#"outcome="coalesced""#));
    // The span of the event, and not that of the mapper in it.
    let ended = "}: windlass_informer::trace: close";
    let coalesced: Vec<_> = coalesced.filter(|line| line.ends_with(ended)).collect();
    assert_eq!(coalesced.len(), 1, "{all:#?}");
    assert!(coalesced[0].contains("shop/slow") && coalesced[0].contains(r#"resource_version="3""#));
}

#[tokio::test(start_paused = true)]
async fn each_event_each_retry_and_each_call_has_a_span() {
    let (lines, _guard) = Lines::listen(FmtSpan::NEW);
    let rig = Rig::new(InformerController::builder().on_error(|_| {}));
    rig.watch(rig.log.failing("w", 1))
        .reconcile(rig.log.reconciler("r"));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    pass(60).await;
    running.apply(config("web", 2)).await;
    running.delete(config("web", 3)).await;
    pass(1).await;
    running.stop().await.expect("it stops");

    let spans: Vec<_> = (lines.all().into_iter())
        .filter_map(|line| {
            // `INFO outer{..}:inner{..}: target: new`
            let (spans, _) = line.trim().strip_prefix("INFO ")?.rsplit_once("}: ")?;
            let names = spans.split("}:").map(|span| {
                let (name, _) = span.split_once('{').unwrap_or((span, ""));
                name.to_owned()
            });
            Some(names.collect::<Vec<_>>().join(" > "))
        })
        .filter(|path| !path.starts_with("informer"))
        .collect();
    assert_eq!(
        spans,
        [
            "controller-event-add",
            "controller-event-add > watcher",
            "controller-event-add > reconciler",
            "controller-retry",
            "controller-retry > watcher",
            "controller-event-update",
            "controller-event-update > watcher",
            "controller-event-update > reconciler",
            "controller-event-delete",
            "controller-event-delete > watcher",
            "controller-event-delete > reconciler",
        ]
    );
}

/// Versions that are not numbers cannot be compared, which is reported once.
#[tokio::test(start_paused = true)]
async fn overlapping_informers_without_comparable_versions_are_reported_once() {
    for (version, reports) in [("x", 1), ("7", 0)] {
        let (lines, _guard) = Lines::listen(FmtSpan::NONE);
        let rig = Rig::new(InformerController::builder());
        rig.watch(rig.log.watcher("w"));
        let (script, source) = Scripted::<ConfigMap>::new();
        let second = Informer::new(source);
        rig.controller
            .add_informer(&rig.kind, &second)
            .expect("added");
        let objects = || {
            ["web", "api"].map(|name| {
                let mut object = config(name, 1);
                object.metadata.resource_version = Some(version.to_owned());
                object
            })
        };
        let running = rig.start();
        running.rig.script.list(objects()).await.expect("it runs");
        script.list(objects()).await.expect("it runs");
        pass(1).await;
        running.stop().await.expect("it stops");
        let all = lines.all();
        let is_report = |line: &&String| line.contains("two informers of one kind show the same");
        assert_eq!(all.iter().filter(is_report).count(), reports, "{all:#?}");
    }
}

/// A handler that writes its own object and then fails has no backoff (D19), which is logged once.
#[tokio::test(start_paused = true)]
async fn a_handler_whose_object_changes_after_each_failure_is_logged() {
    let (lines, _guard) = Lines::listen(FmtSpan::NONE);
    let rig = Rig::new(InformerController::builder().on_error(|_| {}));
    rig.reconcile(|_: Request<ConfigMap>| async { Err::<Outcome, _>(Refused("no")) });
    let running = rig.start_empty().await;
    let warned = || {
        let all = lines.all();
        let warned = all.iter().filter(|line| line.contains("without backoff"));
        warned.cloned().collect::<Vec<_>>()
    };
    let write = async |round: u32| {
        let object = generation(config("web", round), round.into());
        running.apply(object).await;
        settle().await;
    };
    for round in 1..=10 {
        write(round).await;
    }
    assert_eq!(
        warned(),
        Vec::<String>::new(),
        "the object has changed nine times"
    );
    for round in 11..=30 {
        write(round).await;
    }
    let warned = warned();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("key=shop/web"), "{warned:?}");
    running.stop().await.expect("it stops");
}
