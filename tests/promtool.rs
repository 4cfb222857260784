//! Checks the metrics of an operator with Prometheus' `promtool`.
//!
//! `promtool` is part of Prometheus (Debian: the package `prometheus`). Without it, the test prints
//! that it is skipped, and passes; `cargo xtask test` prints it too.

use std::{
    io::{ErrorKind, Write as _},
    process::{Command, Output, Stdio},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use prometheus::{Registry, TextEncoder};
use tokio_util::sync::CancellationToken;
use windlass::{
    Informer, InformerController, Operator, Outcome, Request, SimpleWatcher,
    retry::NeverRetry,
    source::{Scripted, Verb, WatchError, WatchErrorCause},
};

#[derive(Debug, thiserror::Error)]
#[error("refused")]
struct Refused;

#[tokio::test(start_paused = true)]
async fn promtool_accepts_the_metrics_of_an_operator() {
    let text = metrics_of_an_operator().await;
    // promtool would also accept an empty text.
    for series in [
        "informer_events_total{",
        "informer_watch_restarts_total{",
        "reconciler_errors_total{",
        "retries_exhausted_total{",
        "pending_retries{",
        "event_handler_latency_seconds_bucket{",
        "controller_runtime_reconcile_total{",
        "workqueue_depth{",
    ] {
        assert!(text.contains(series), "no {series} in\n{text}");
    }
    let Some(output) = promtool(&text) else {
        println!("skipped: promtool is not on the PATH (Debian: apt-get install prometheus)");
        return;
    };
    let complaints = [output.stdout, output.stderr].concat();
    let complaints = String::from_utf8_lossy(&complaints);
    assert!(
        output.status.success() && complaints.is_empty(),
        "{complaints}\n{text}"
    );
}

/// The metrics of a working controller in the text format, with all kinds of series.
async fn metrics_of_an_operator() -> String {
    let (script, source) = Scripted::<ConfigMap>::new();
    let controller = InformerController::builder()
        .name("shop")
        .metrics_namespace("acme")
        .retry_policy(NeverRetry)
        .on_error(|_| {})
        .build()
        .expect("valid settings");
    let configs = controller.kind("configs").expect("a new kind");
    controller
        .add_informer(&configs, &Informer::new(source))
        .expect("added");
    controller
        .add_watcher(&configs, SimpleWatcher::<ConfigMap>::new())
        .expect("added");
    controller
        .add_reconciler(&configs, |request: Request<ConfigMap>| async move {
            match request.key().name() {
                "bad" => Err(Refused),
                _ => Ok(Outcome::requeue_after(Duration::from_secs(3600))),
            }
        })
        .expect("added");
    let operator = Operator::new();
    operator
        .add_controller(controller)
        .expect("the operator is not running");
    let registry = Registry::new();
    for collector in operator.prometheus_collectors() {
        registry.register(collector).expect("no name twice");
    }

    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    script
        .list(["web", "bad"].map(config))
        .await
        .expect("it runs");
    let silence = WatchError::new(
        "configmaps",
        Verb::Watch,
        WatchErrorCause::Silent {
            limit: Duration::from_secs(60),
        },
    );
    script
        .interrupt(silence, Duration::from_secs(1))
        .await
        .expect("it runs");
    // Paused time advances when all tasks are idle.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let text = TextEncoder::new().encode_to_string(&registry.gather());
    stop.cancel();
    run.await.expect("no panic").expect("no error");
    text.expect("text")
}

fn config(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object
}

/// The output of `promtool check metrics`. None without promtool.
fn promtool(text: &str) -> Option<Output> {
    let started = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = match started {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        started => started.expect("promtool starts"),
    };
    let mut input = promtool.stdin.take().expect("it is piped");
    input
        .write_all(text.as_bytes())
        .expect("promtool reads all of it");
    drop(input);
    Some(promtool.wait_with_output().expect("promtool ends"))
}
