//! The tasks of a running controller.

use std::{
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, select_all};
use kube::Resource;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use windlass_informer::{Informer, log};

use crate::reflector::{Store, store::Ready};

/// The state of a run, which its tasks change and the stream reads.
#[derive(Default)]
pub(super) struct RunState {
    /// Cancelled when no call begins any more.
    pub(super) stop: CancellationToken,
    /// Whether the store of the controlled kind is complete, so that calls begin.
    pub(super) is_ready: AtomicBool,
    /// Whether the store of the user was dropped before it was ready.
    pub(super) is_writer_dropped: AtomicBool,
    /// The message of a stream of the user that has panicked: the run ends.
    pub(super) panicked: Mutex<Option<String>>,
    /// Whether the calls are aborted.
    pub(super) is_forced: AtomicBool,
}

/// How long to wait for an informer that is not polled yet.
const SYNC_CHECK: Duration = Duration::from_secs(1);

/// Starts a graceful shutdown when the first of `shutdowns` resolves.
pub(super) async fn shut_down(shutdowns: Vec<BoxFuture<'static, ()>>, state: Arc<RunState>) {
    if !shutdowns.is_empty() {
        select_all(shutdowns).await;
        state.stop.cancel();
    }
}

/// Starts a graceful shutdown on the first signal, and aborts the calls on the second one.
pub(super) async fn follow_signals(state: Arc<RunState>) {
    let mut signals = Signals::new();
    signals.next().await;
    log::info!("graceful shutdown requested, press Ctrl+C again to abort running calls");
    state.stop.cancel();
    signals.next().await;
    log::info!("forced shutdown requested");
    state.is_forced.store(true, Ordering::Release);
}

/// Lets calls begin when `informer` has synced.
pub(super) async fn wait_for_sync<K>(informer: Informer<K>, ready: Ready, state: Arc<RunState>)
where
    K: Resource + Clone + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    // An error says that the informer has stopped or is not polled yet; the run ends this task.
    while informer.synced().await.is_err() {
        tokio::time::sleep(SYNC_CHECK).await;
    }
    ready.set();
    state.is_ready.store(true, Ordering::Release);
}

/// Lets calls begin when the store of the user is ready.
pub(super) async fn wait_for_store<K>(store: Store<K>, state: Arc<RunState>)
where
    K: Resource + Clone + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    if store.wait_until_ready().await.is_ok() {
        state.is_ready.store(true, Ordering::Release);
    } else {
        state.is_writer_dropped.store(true, Ordering::Release);
        state.stop.cancel();
    }
}

/// Ctrl+C, and on Unix SIGTERM.
struct Signals {
    #[cfg(unix)]
    terminate: Option<tokio::signal::unix::Signal>,
    #[cfg(unix)]
    interrupt: Option<tokio::signal::unix::Signal>,
}

// === impl Signals ===

impl Signals {
    /// Listens from now on, so that no signal between two calls of [`next`](Self::next) is missed.
    #[cfg(unix)]
    fn new() -> Self {
        use tokio::signal::unix::{Signal, SignalKind, signal};

        let listen = |kind: SignalKind| -> Option<Signal> {
            let listening = signal(kind);
            if let Err(error) = &listening {
                log::error!(%error, "cannot listen for a signal, it does not stop the controller");
            }
            listening.ok()
        };
        Self {
            terminate: listen(SignalKind::terminate()),
            interrupt: listen(SignalKind::interrupt()),
        }
    }

    #[cfg(not(unix))]
    fn new() -> Self {
        Self {}
    }

    /// Waits for the next signal.
    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            () = received(&mut self.terminate) => {}
            () = received(&mut self.interrupt) => {}
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}

/// Waits for a signal.
#[cfg(unix)]
async fn received(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}
