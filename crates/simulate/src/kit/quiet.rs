//! Waits until the operators of a test are quiet.

use std::{future::Future, panic::Location, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::Kit;

/// The time without a call and a write after which an operator is quiet.
const QUIET: Duration = Duration::from_secs(30);

/// The same, where time is real.
const REAL_QUIET: Duration = Duration::from_secs(2);

/// How often an operator is seen idle in a row where time is real, so that a pause of the whole process
/// does not count as quiet.
const REAL_LOOKS: u32 = 20;

/// The longest wait for an operator to become quiet.
const QUIET_LIMIT: Duration = Duration::from_secs(3600);

/// The same, where time is real.
const REAL_QUIET_LIMIT: Duration = Duration::from_secs(120);

/// The number of writes after which an operator that is not quiet has failed.
const MOST_WRITES: u64 = 10_000;

// === impl Kit ===

impl Kit {
    /// Waits until there is no call and no write for 30 s of virtual time, or for two seconds of real
    /// time. A handler that polls, with requeues that are shorter than that, is quiet after ten times as
    /// long, if its calls succeed and there is no write and no event. While requests are
    /// [held](Self::hold), calls in progress are ignored. A retry that is due later is not waited for.
    ///
    /// # Panics
    ///
    /// After 10,000 writes, or after one hour of virtual time or two minutes of real time. The message
    /// names what is written and called most: this is a hot loop.
    #[track_caller]
    pub fn quiet(&self) -> impl Future<Output = ()> + use<> {
        let (place, core) = (Location::caller(), Arc::clone(&self.core));
        async move {
            let (window, limit, least_looks, longest) = match core.random {
                Some(_) => (QUIET, QUIET_LIMIT, 1, QUIET),
                None => (REAL_QUIET, REAL_QUIET_LIMIT, REAL_LOOKS, REAL_QUIET / 30),
            };
            let (mut looks, mut last_idle) = (0, Duration::ZERO);
            let (began, mark) = (Instant::now(), core.journal.mark());
            let first = core.journal.count_writes();
            core.journal.touch();
            loop {
                let is_busy = core.journal.has_open_calls() && !core.gates.has_holds();
                let idle = core.journal.idle();
                looks = if is_busy || idle < last_idle {
                    0
                } else {
                    looks + 1
                };
                last_idle = idle;
                if idle >= window && looks >= least_looks {
                    return;
                }
                let writes = core.journal.count_writes() - first;
                if writes >= MOST_WRITES || began.elapsed() >= limit {
                    let most = core.journal.most_written(mark);
                    let open = core.journal.open_calls();
                    panic!(
                        "{place}: the operators are not quiet after {:?} and {writes} writes; calls in \
                         progress: {open}; most often:{most}{}",
                        began.elapsed(),
                        core.describe(),
                    );
                }
                sleep(window.saturating_sub(idle).clamp(window / 30, longest)).await;
            }
        }
    }
}
