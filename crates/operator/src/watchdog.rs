//! Notices that the runtime of an operator is blocked: no task of it runs.
//!
//! A task of the runtime resets a count each second, and a separate thread increments it. The thread
//! counts its own seconds, so that a process that was frozen is not blocked when it continues.

use std::{
    process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use windlass_controller::{ErasedRunnable, RunningCall, is_time_simulated};
use windlass_informer::log;

use crate::{LeaderElection, blocking_call::BlockingCall, isolated::Isolated, signal::Signals};

/// When a blocked runtime has which consequences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockedTimeouts {
    /// The time without progress after which the log and the health pages show it.
    pub(crate) report: Duration,
    /// The time without progress after which the lease is not renewed any more.
    pub(crate) resign: Duration,
}

/// Whether the runtime is blocked, as the watchdog has found.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The seconds since the runtime last ran a task.
    missed: AtomicU64,
    /// What the log says of a runtime that is blocked.
    blocked: Mutex<Option<String>>,
}

/// The subject of a watchdog.
pub(crate) struct Watched {
    pub(crate) controllers: Vec<Arc<dyn ErasedRunnable>>,
    pub(crate) election: Option<LeaderElection>,
    pub(crate) timeouts: BlockedTimeouts,
    /// The time after SIGTERM after which the process exits if the runtime is blocked. `None` if
    /// signals are not handled.
    pub(crate) exit_after: Option<Duration>,
}

/// A running watchdog. Dropping it ends the watch.
pub(crate) struct Watchdog {
    #[expect(dead_code, reason = "held for its drop")]
    beat: AbortOnDropHandle<()>,
    #[expect(dead_code, reason = "held for its drop")]
    thread: Isolated<()>,
}

/// The period of the count. Short against all timeouts, and cheap.
const TICK: Duration = Duration::from_secs(1);

/// The number of calls that a report names. The others are counted.
const NAMED: usize = 5;

// === impl BlockedTimeouts ===

impl BlockedTimeouts {
    /// No handler should block a thread for even a second, and a slow machine does not stop all threads
    /// for this long.
    const DEFAULT_REPORT: Duration = Duration::from_secs(30);

    /// Some probes of the kubelet have failed by then.
    const DEFAULT_RESIGN: Duration = Duration::from_secs(60);

    /// A machine with a load can delay the thread or the task that counts by a second or two.
    const LEAST: Duration = Duration::from_secs(3);
}

impl Default for BlockedTimeouts {
    fn default() -> Self {
        Self {
            report: Self::DEFAULT_REPORT,
            resign: Self::DEFAULT_RESIGN,
        }
    }
}

// === impl Watchdog ===

impl Watchdog {
    /// Watches the current runtime. `None` under simulated time, where another thread would be
    /// outside of the simulation, and if no thread can be started.
    pub(crate) fn start(watched: Watched, progress: &Progress) -> Option<Self> {
        if is_time_simulated() {
            return None;
        }
        let shared = Arc::clone(&progress.0);
        let beat = async move {
            loop {
                shared.missed.store(0, Ordering::Relaxed);
                sleep(TICK).await;
            }
        };
        let shared = Arc::clone(&progress.0);
        let watch = async move {
            let watched = Arc::new(watched);
            let exit = exit_if_blocked(&watched, &shared);
            tokio::join!(watch(&watched, &shared), exit);
        };
        match Isolated::thread("windlass-watchdog", watch) {
            Ok(thread) => Some(Self {
                beat: AbortOnDropHandle::new(tokio::spawn(beat)),
                thread,
            }),
            Err(error) => {
                log::warn!(%error, "cannot start the watchdog of the runtime");
                None
            }
        }
    }
}

/// Counts the seconds without progress, and reports them. The count is up to a second late.
async fn watch(watched: &Watched, shared: &Shared) {
    let report = watched.timeouts.report.max(BlockedTimeouts::LEAST);
    let resign = watched.timeouts.resign.max(BlockedTimeouts::LEAST);
    let calls = BlockingCall::new(Duration::ZERO);
    let mut was_reported = false;
    let mut has_resigned = false;
    loop {
        sleep(TICK).await;
        // Without the second that has begun before the last task ran: its count is 1 in a runtime that
        // runs its tasks.
        let missed = shared.missed.fetch_add(1, Ordering::Relaxed);
        let blocked = TICK * u32::try_from(missed).unwrap_or(u32::MAX);
        if blocked < report.min(resign) {
            if std::mem::take(&mut was_reported) {
                log::info!("the runtime runs tasks again");
                *shared.lock() = None;
            }
            if std::mem::take(&mut has_resigned) {
                watched.set_blocked(None);
            }
            continue;
        }
        if blocked >= report {
            let running = running(&calls, watched).await;
            *shared.lock() = Some(format!(
                "runs no task since {blocked:?}, its threads are blocked; {running}"
            ));
            if !std::mem::replace(&mut was_reported, true) {
                log::error!(
                    ?blocked,
                    running,
                    "the runtime runs no task: its threads are blocked; run blocking code of \
                     handlers with tokio::task::spawn_blocking"
                );
            }
        }
        if blocked >= resign && !std::mem::replace(&mut has_resigned, true) {
            watched.set_blocked(Some(resign));
        }
    }
}

/// Ends the process if the runtime is blocked at the end of a stop, which it then cannot perform.
async fn exit_if_blocked(watched: &Watched, shared: &Shared) {
    /// A second signal ends a runtime that is not blocked within this time.
    const FORCED: Duration = Duration::from_secs(1);
    /// A runtime that has missed this many seconds is blocked.
    const BLOCKED: u64 = 2;
    const PAUSE: Duration = Duration::from_millis(100);

    let Some(exit_after) = watched.exit_after else {
        return;
    };
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            log::warn!(%error, "a blocked runtime will not end at a signal");
            return;
        }
    };
    signals.next().await;
    tokio::select! {
        () = sleep(exit_after) => {}
        _ = signals.next() => sleep(FORCED).await,
    }
    // Ends with the watchdog, when the operator has stopped.
    while shared.missed.load(Ordering::Relaxed) < BLOCKED {
        sleep(PAUSE).await;
    }
    let running = running(&BlockingCall::new(Duration::ZERO), watched).await;
    log::error!(
        running,
        "the runtime is blocked and cannot stop the controllers, exiting"
    );
    process::exit(1);
}

/// The calls in progress, as one line.
async fn running(calls: &BlockingCall<Vec<RunningCall>>, watched: &Watched) -> String {
    let controllers = watched.controllers.clone();
    let read = move || {
        controllers
            .iter()
            .flat_map(|it| it.running_calls())
            .collect()
    };
    match calls.get(TICK, read).await {
        Some(Ok(calls)) => describe(&calls),
        Some(Err(panic)) => format!("the calls in progress are not known: {panic}"),
        None => "the calls in progress are not known: the controllers do not respond".to_owned(),
    }
}

fn describe(calls: &[RunningCall]) -> String {
    if calls.is_empty() {
        return "no handler is called".to_owned();
    }
    let named: Vec<_> = calls.iter().take(NAMED).map(ToString::to_string).collect();
    let mut text = format!("in progress: {}", named.join(", "));
    if calls.len() > NAMED {
        text = format!("{text}, and {} others", calls.len() - NAMED);
    }
    text
}

// === impl Watched ===

impl Watched {
    fn set_blocked(&self, blocked: Option<Duration>) {
        if let Some(election) = &self.election {
            election.set_blocked(blocked);
        }
    }
}

// === impl Progress ===

impl Progress {
    /// What the health pages say of a runtime that is blocked.
    pub(crate) fn blocked(&self) -> Option<String> {
        self.0.lock().clone()
    }
}

// === impl Shared ===

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::timeout;
    use windlass_apiserver::ApiServer;

    use super::*;

    /// Whether a runtime that runs no task is reported, and has lost its lease, after this time.
    async fn after(timeouts: BlockedTimeouts, time: Duration) -> (bool, bool) {
        let client = ApiServer::new().client();
        let election = LeaderElection::new(client, "default", "web").expect("names");
        let watched = Watched {
            controllers: Vec::new(),
            election: Some(election.clone()),
            timeouts,
            exit_after: None,
        };
        let shared = Shared::default();
        let watch = pin!(watch(&watched, &shared));
        timeout(time, watch).await.expect_err("it is endless");
        let is_reported = shared.lock().is_some();
        (is_reported, election.blocked().is_some())
    }

    /// The count of a runtime that runs its tasks is at most 2 after each second.
    #[tokio::test(start_paused = true)]
    async fn a_timeout_of_less_than_3_s_does_not_report_a_runtime_that_runs_its_tasks() {
        for timeout in [Duration::ZERO, TICK, 2 * TICK, 3 * TICK] {
            let timeouts = BlockedTimeouts {
                report: timeout,
                resign: timeout,
            };
            let half = TICK / 2;
            assert_eq!(after(timeouts, 3 * TICK + half).await, (false, false));
            assert_eq!(after(timeouts, 4 * TICK + half).await, (true, true));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn by_default_a_blocked_runtime_is_reported_after_30_s_and_its_lease_kept_for_60_s() {
        let at = |seconds, millis| Duration::from_secs(seconds) + Duration::from_millis(millis);
        let default = BlockedTimeouts::default();
        assert_eq!(after(default, at(30, 999)).await, (false, false));
        assert!(after(default, at(31, 1)).await.0);
        // A report takes time, because it reads the calls in progress.
        let unreported = BlockedTimeouts {
            report: Duration::MAX,
            ..default
        };
        assert_eq!(after(unreported, at(60, 999)).await, (false, false));
        assert_eq!(after(unreported, at(61, 1)).await, (false, true));
    }
}
