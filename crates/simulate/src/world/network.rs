//! The connections of the replicas with the server: crashes, partitions, gaps and lags.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{State, World};
use crate::Fault;

/// The largest latency of a request, a response or an event, in milliseconds. Messages that are
/// sent at the same time arrive in an order that depends on the seed.
const LATENCY: u64 = 5;

/// The identity of a process: its replica, and the number of starts of this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub(crate) replica: usize,
    pub(crate) incarnation: u32,
}

/// The connection state of one replica of the operator.
pub(super) struct Replica {
    pub(super) incarnation: u32,
    /// Cancelled when the process crashes.
    pub(super) crash: CancellationToken,
    /// Cancelled when the process has to shut down.
    pub(super) stop: CancellationToken,
    /// Cancelled when the watches of the process are cut.
    pub(super) cut: CancellationToken,
    pub(super) no_watches_until: Option<Instant>,
    pub(super) partitioned_until: Option<Instant>,
    pub(super) lag: Option<Lag>,
}

/// The revision and the end of a lag: until then, reads return the state of the revision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lag {
    pub(super) revision: u64,
    pub(super) until: Instant,
}

impl World {
    /// A random latency of a message.
    pub(crate) fn latency(&self) -> Duration {
        Duration::from_millis(self.random(1..=LATENCY))
    }

    /// Starts a process of `replica`. Returns the token of its crash and the token of its shutdown.
    pub(crate) fn start(&self, replica: usize) -> (Origin, CancellationToken, CancellationToken) {
        let mut state = self.state.lock();
        let own = &mut state.replicas[replica];
        *own = Replica {
            incarnation: own.incarnation + 1,
            lag: own.lag,
            partitioned_until: own.partitioned_until,
            ..Replica::new()
        };
        let origin = Origin {
            replica,
            incarnation: own.incarnation,
        };
        let ends = (own.crash.clone(), own.stop.clone());
        drop(state);
        self.log(Some(origin), "process started");
        (origin, ends.0, ends.1)
    }

    /// Crashes a process: none of its later requests reaches the server.
    pub(crate) fn crash(&self, origin: Origin) {
        let state = self.state.lock();
        let own = &state.replicas[origin.replica];
        if own.incarnation == origin.incarnation {
            own.crash.cancel();
            own.cut.cancel();
        }
    }

    /// Returns immediately while the process runs, and never returns after it has crashed.
    pub(crate) async fn halt_if_crashed(&self, origin: Origin) {
        let is_alive = {
            let state = self.state.lock();
            let own = &state.replicas[origin.replica];
            own.incarnation == origin.incarnation && !own.crash.is_cancelled()
        };
        if !is_alive {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the process is not partitioned from the server any more. Returns whether it was
    /// partitioned.
    pub(crate) async fn wait_for_partition_end(&self, origin: Origin) -> bool {
        let partitioned = self
            .wait(|state| state.replicas[origin.replica].partitioned_until)
            .await;
        if partitioned {
            self.mark_effective(Fault::Partition);
        }
        partitioned
    }

    /// Whether the process cannot open watches now.
    pub(crate) fn refuses_watches(&self, origin: Origin) -> bool {
        let refuses = {
            let state = self.state.lock();
            let until = state.replicas[origin.replica].no_watches_until;
            until.is_some_and(|until| Instant::now() < until) && !state.faults_ended
        };
        if refuses {
            self.mark_effective(Fault::Gap);
        }
        refuses
    }

    /// Waits until the server does not lag behind `revision` any more for this process.
    pub(crate) async fn wait_for_revision(&self, origin: Origin, revision: u64) {
        let waited = self.wait(|state| {
            let lag = state.replicas[origin.replica].lag?;
            (revision > lag.revision).then_some(lag.until)
        });
        if waited.await {
            self.mark_effective(Fault::Stale);
        }
    }

    /// The revision that the process reads while the server lags. `None` if the server does not lag.
    pub(crate) fn lag(&self, origin: Origin) -> Option<u64> {
        let state = self.state.lock();
        let lag = state.replicas[origin.replica].lag?;
        (Instant::now() < lag.until && !state.faults_ended).then_some(lag.revision)
    }

    /// Waits until `until` returns no time or a time in the past, or until all faults end. Returns
    /// whether it had to wait.
    async fn wait(&self, until: impl Fn(&State) -> Option<Instant>) -> bool {
        let mut waited = false;
        loop {
            let changed = self.changed.notified();
            let due = {
                let state = self.state.lock();
                until(&state).filter(|_| !state.faults_ended)
            };
            let Some(due) = due.filter(|due| Instant::now() < *due) else {
                return waited;
            };
            waited = true;
            tokio::select! {
                biased;
                () = sleep_until(due) => {}
                () = changed => {}
            }
        }
    }

    /// The token that ends the watches of a process.
    pub(crate) fn cut_token(&self, origin: Origin) -> CancellationToken {
        self.state.lock().replicas[origin.replica].cut.clone()
    }
}

// === impl Replica ===

impl Replica {
    pub(super) fn new() -> Self {
        Self {
            incarnation: 0,
            crash: CancellationToken::new(),
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
            no_watches_until: None,
            partitioned_until: None,
            lag: None,
        }
    }
}
