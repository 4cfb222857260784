//! Signals: each test is a process of its own, because a signal reaches all controllers of a process.

#![cfg(unix)]

use std::{
    process::{Command, Stdio, id},
    sync::Arc,
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::timeout,
};
use windlass_apiserver::ApiServer;
use windlass_runtime::{
    controller::{Action, Controller},
    watcher,
};

/// The name of the test that the process runs alone.
const ALONE: &str = "WINDLASS_RUNTIME_TEST";

/// The longest wait for a condition.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the test called `name` in a process of its own. Returns true in that process.
fn is_alone(name: &str) -> bool {
    if std::env::var(ALONE).is_ok_and(|it| it == name) {
        return true;
    }
    let program = std::env::current_exe().expect("a program");
    let output = Command::new(program)
        .args([name, "--exact", "--nocapture"])
        .env(ALONE, name)
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}\n{errors}");
    false
}

/// Sends a signal to this process.
fn send(signal: &str) {
    let pid = id().to_string();
    let status = Command::new("kill").args([signal, &pid]).status();
    assert!(status.expect("kill runs").success());
}

/// A controller of one object whose call lasts until it is released, or aborted.
struct Held {
    stream: futures::stream::BoxStream<'static, String>,
    begun: tokio::sync::mpsc::Receiver<()>,
    release: Arc<tokio::sync::Notify>,
    aborted: Arc<tokio::sync::Notify>,
}

struct OnDrop(Arc<tokio::sync::Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

async fn held() -> Held {
    let server = ApiServer::new();
    let configs = Api::<ConfigMap>::default_namespaced(server.client());
    let mut config = ConfigMap::default();
    config.metadata.name = Some("a".into());
    let created = configs.create(&PostParams::default(), &config).await;
    created.expect("a new object");
    let (begins, begun) = tokio::sync::mpsc::channel(16);
    let (release, aborted) = (Arc::<tokio::sync::Notify>::default(), Arc::default());
    let (released, dropped) = (Arc::clone(&release), Arc::clone(&aborted));
    let stream = Controller::new(configs, watcher::Config::default())
        .shutdown_on_signal()
        .run(
            move |_: Arc<ConfigMap>, _| {
                _ = begins.try_send(());
                let (released, guard) = (Arc::clone(&released), OnDrop(Arc::clone(&dropped)));
                async move {
                    let _guard = guard;
                    released.notified().await;
                    Ok::<_, std::convert::Infallible>(Action::await_change())
                }
            },
            |_, _, _| Action::await_change(),
            Arc::new(()),
        )
        .map(move |item| {
            // The server lives as long as the stream.
            _ = &server;
            item.map_or_else(|error| error.to_string(), |(target, _)| target.name)
        })
        .boxed();
    Held {
        stream,
        begun,
        release,
        aborted,
    }
}

/// Sends `first`, which starts a graceful shutdown: the running call ends normally.
async fn ends_gracefully_on(first: &str) {
    let mut held = held().await;
    let begun = async { held.begun.recv().await };
    tokio::select! {
        _ = begun => {}
        _ = held.stream.next() => panic!("the call is held"),
    }
    send(first);
    let waits = timeout(Duration::from_millis(500), held.stream.next()).await;
    assert!(waits.is_err(), "the stream waits for the call");
    held.release.notify_one();
    let next = timeout(LIMIT, held.stream.next()).await;
    assert_eq!(next.expect("in time").as_deref(), Some("a"));
    let end = timeout(LIMIT, held.stream.next()).await;
    assert_eq!(end.expect("in time"), None);
}

/// Rows: KR-28
#[tokio::test]
async fn sigterm_starts_a_graceful_shutdown() {
    if is_alone("sigterm_starts_a_graceful_shutdown") {
        ends_gracefully_on("-TERM").await;
    }
}

/// The process is not ended by the signals after the controller either.
///
/// Rows: KR-28, KR-31
#[tokio::test]
async fn sigint_starts_a_graceful_shutdown_and_its_default_stays_disabled() {
    if is_alone("sigint_starts_a_graceful_shutdown_and_its_default_stays_disabled") {
        ends_gracefully_on("-INT").await;
        for (name, kind) in [
            ("-INT", SignalKind::interrupt()),
            ("-TERM", SignalKind::terminate()),
        ] {
            let mut signals = signal(kind).expect("a signal");
            send(name);
            timeout(LIMIT, signals.recv()).await.expect("in time");
        }
    }
}

/// Rows: KR-29, KR-30
#[tokio::test]
async fn a_second_signal_ends_the_stream_at_once_and_aborts_the_call() {
    if !is_alone("a_second_signal_ends_the_stream_at_once_and_aborts_the_call") {
        return;
    }
    let mut held = held().await;
    tokio::select! {
        _ = held.begun.recv() => {}
        _ = held.stream.next() => panic!("the call is held"),
    }
    send("-TERM");
    let waits = timeout(Duration::from_millis(500), held.stream.next()).await;
    assert!(waits.is_err(), "the stream waits for the call");
    send("-INT");
    let end = timeout(LIMIT, held.stream.next()).await;
    assert_eq!(end.expect("in time"), None);
    timeout(LIMIT, held.aborted.notified())
        .await
        .expect("in time");
}
