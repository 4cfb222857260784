//! SIGINT and SIGTERM, which stop the operator.

use std::{
    io, process,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use windlass_informer::log;

/// The time after a signal in which the same signal is ignored: `timeout` of coreutils sends its signal to
/// the process and to its group, and a shell can do the same. Shorter than the time in which a user
/// decides to press Ctrl-C again.
const REPEATED: Duration = Duration::from_secs(1);

/// Signals that are listened to since the program began, until an operator takes them.
static EARLY: Mutex<Option<Signals>> = Mutex::new(None);

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

    /// Keeps the signals that arrive before an operator runs, for [`take`](Self::take), in the first
    /// process of a container: the kernel drops a signal that such a process does not listen to. The
    /// default action of the signals ends any other process.
    pub(crate) fn listen_early() -> io::Result<()> {
        if process::id() == 1 {
            let signals = Self::listen()?;
            *EARLY.lock().unwrap_or_else(PoisonError::into_inner) = Some(signals);
        }
        Ok(())
    }

    /// The signals since [`listen_early`](Self::listen_early), or from now on.
    pub(crate) fn take() -> io::Result<Self> {
        let early = EARLY.lock().unwrap_or_else(PoisonError::into_inner).take();
        early.map_or_else(Self::listen, Ok)
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
