//! The log messages of an operator.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tokio_util::sync::CancellationToken;
use tracing_subscriber::fmt::MakeWriter;
use windlass_controller::Controller;
use windlass_operator::Operator;

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

impl Controller for Failing {
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

// === impl Log ===

impl Log {
    fn capture(&self) -> tracing::subscriber::DefaultGuard {
        let builder = tracing_subscriber::fmt().with_ansi(false);
        let subscriber = builder.with_writer(self.clone()).finish();
        tracing::subscriber::set_default(subscriber)
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
