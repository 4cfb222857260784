//! SIGINT and SIGTERM, which stop the operator.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::time::Instant;
use windlass_informer::log;

/// The time after a signal in which the same signal is ignored: `timeout` of coreutils sends its signal to
/// the process and to its group, and a shell can do the same. Shorter than the time in which a user
/// decides to press Ctrl-C again.
const REPEATED: Duration = Duration::from_secs(1);

/// Whether an operator runs or has run: then a signal is its own, or that of the program.
static HANDLED: AtomicBool = AtomicBool::new(false);

/// From now on [`Signals::before_operators`] ends without a signal.
pub(crate) fn leave_to_operator() {
    HANDLED.store(true, Ordering::SeqCst);
}

/// SIGINT and SIGTERM, in the order in which they arrive.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

// === impl Signals ===

impl Signals {
    /// Starts to listen. From now on these signals do not terminate the process.
    #[cfg_attr(
        not(unix),
        expect(clippy::unnecessary_wraps, reason = "the same signature as on Unix")
    )]
    pub(crate) fn listen() -> io::Result<Self> {
        #[cfg(unix)]
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for a signal, and returns the exit code of a process that it ends. None if an operator runs
    /// or has run by then.
    pub(crate) async fn before_operators(mut self) -> Option<i32> {
        let signal = self.next().await;
        if HANDLED.load(Ordering::SeqCst) {
            return None;
        }
        log::info!(signal, "stopping: no operator runs");
        Some(if signal == "SIGTERM" { 143 } else { 130 })
    }

    /// Waits for a signal after `first`, and returns its name. Ignores `first` within a second.
    pub(crate) async fn after(&mut self, first: &'static str) -> &'static str {
        let received = Instant::now();
        loop {
            let signal = self.next().await;
            if signal != first || received.elapsed() >= REPEATED {
                return signal;
            }
            log::info!(signal, "ignoring a repeated signal");
        }
    }

    /// Waits for the next signal and returns its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        #[cfg(unix)]
        {
            tokio::select! {
                Some(()) = self.interrupt.recv() => "SIGINT",
                Some(()) = self.terminate.recv() => "SIGTERM",
                else => std::future::pending().await,
            }
        }
        #[cfg(not(unix))]
        match tokio::signal::ctrl_c().await {
            Ok(()) => "Ctrl-C",
            Err(_) => std::future::pending().await,
        }
    }
}
