//! The log lines of a test.

use std::{
    io,
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;
use tracing::{
    Dispatch,
    subscriber::{DefaultGuard, NoSubscriber, set_default},
};
use tracing_subscriber::fmt::MakeWriter;

/// The log lines of this thread while the guard exists.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub(crate) fn listen() -> (Self, DefaultGuard) {
        // With only one subscriber, `tracing` caches the interest of the thread that reaches a line
        // first. In another test, this thread can have no subscriber.
        static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&ANOTHER);
        let lines = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_writer(lines.clone())
            .finish();
        (lines, set_default(subscriber))
    }

    pub(crate) fn all(&self) -> Vec<String> {
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
