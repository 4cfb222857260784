//! The log messages of an operator.

use std::{
    io,
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::fmt::MakeWriter;
use windlass_apiserver::ApiServer;
use windlass_controller::Runnable;
use windlass_operator::{Operator, RequestBudget};

/// Captured log lines. All clones share them.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

/// A controller that fails immediately, with an error that has causes.
struct Failing;

#[derive(Debug, thiserror::Error)]
#[error("cannot open the store")]
struct Outer(#[source] Middle);

#[derive(Debug, thiserror::Error)]
#[error("cannot read the index")]
struct Middle(#[source] io::Error);

impl Runnable for Failing {
    type Error = Outer;

    fn name(&self) -> &'static str {
        "failing"
    }

    async fn run(&self, _: CancellationToken) -> Result<(), Outer> {
        Err(Outer(Middle(io::Error::other("the disk is full"))))
    }
}

#[tokio::test]
async fn a_failed_controller_is_logged_with_all_causes() {
    let log = Log::default();
    let _guard = log.capture();
    let operator = Operator::new();
    operator
        .add_controller(Failing)
        .expect("the operator is not running");
    let ended = operator.run_until(CancellationToken::new()).await;
    ended.expect_err("the controller failed");
    let line = log.line("controller failed");
    let causes = "cannot open the store: cannot read the index: the disk is full";
    assert!(line.contains(causes), "{line}");
    assert!(line.contains("ERROR") && line.contains("failing"), "{line}");
}

#[tokio::test]
async fn an_operator_without_controllers_logs_a_warning_with_advice() {
    let log = Log::default();
    let _guard = log.capture();
    let stop = CancellationToken::new();
    stop.cancel();
    Operator::new().run_until(stop).await.expect("no error");
    let line = log.line("no controllers");
    assert!(
        line.contains("WARN") && line.contains("add_controller"),
        "{line}"
    );
}

/// Operators watch for this line: the budget is too small, or a handler loops.
#[tokio::test(start_paused = true)]
async fn an_exhausted_request_budget_is_logged_once_per_minute() {
    let log = Log::default();
    let _guard = log.capture();
    let number = |number| NonZeroU32::new(number).expect("not zero");
    let budget = RequestBudget::new(number(1), number(1));
    let configs: Api<ConfigMap> = Api::default_namespaced(budget.client(ApiServer::new().client()));
    // Less than a second is not worth a line.
    let fast = RequestBudget::new(number(10), number(1));
    let maps: Api<ConfigMap> = Api::default_namespaced(fast.client(ApiServer::new().client()));
    for answer in join_all((0..4).map(|_| maps.get_opt("a"))).await {
        answer.expect("a response");
    }
    assert_eq!(log.count("request budget exhausted"), 0);
    // The last of four waits for three seconds.
    for (pause, lines) in [(0, 1), (30, 1), (60, 2)] {
        // In virtual time.
        tokio::time::sleep(Duration::from_secs(pause)).await;
        for answer in join_all((0..4).map(|_| configs.get_opt("a"))).await {
            answer.expect("a response");
        }
        assert_eq!(log.count("request budget exhausted"), lines, "{pause}");
    }
}

// === impl Log ===

impl Log {
    fn capture(&self) -> tracing::subscriber::DefaultGuard {
        let builder = tracing_subscriber::fmt().with_ansi(false);
        let subscriber = builder.with_writer(self.clone()).finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// The number of lines that contain `part`.
    fn count(&self, part: &str) -> usize {
        let text = self.0.lock().expect("no panic");
        String::from_utf8_lossy(&text).matches(part).count()
    }

    /// The line that contains `part`.
    fn line(&self, part: &str) -> String {
        let text = self.0.lock().expect("no panic");
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find(|line| line.contains(part));
        line.unwrap_or_else(|| panic!("no {part:?} in {text}"))
            .to_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
