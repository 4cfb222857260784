//! Runs plans in parallel on all processors, and prints the progress.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Write as _, stderr},
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use super::Plans;
use crate::{Plan, run::Run};

/// The interval of progress lines on a terminal.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(500);

/// The interval of progress lines in a log.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// The interval of checks whether all runs have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Tries all plans. Returns the first plan in order for which `broken` returns a run, with that
/// run, and the number of plans that were tried.
pub(crate) fn first_broken(
    name: &str,
    plans: &Plans,
    broken: impl Fn(&Plan) -> Option<Run> + Sync,
) -> (Option<(Plan, Run)>, usize) {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let found: Mutex<Option<(usize, Plan, Run)>> = Mutex::new(None);
    let running: Mutex<BTreeMap<usize, String>> = Mutex::default();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let is_found = |(first, ..): &(usize, _, _)| *first < index;
            if found.lock().as_ref().is_some_and(is_found) {
                return;
            }
            let Some(plan) = plans.get(index) else { return };
            running.lock().insert(index, plan.to_string());
            let outcome = broken(&plan);
            running.lock().remove(&index);
            done.fetch_add(1, Ordering::Relaxed);
            if let Some(run) = outcome {
                let mut found = found.lock();
                if found.as_ref().is_none_or(|(first, ..)| index < *first) {
                    *found = Some((index, plan, run));
                }
            }
        }
    };
    let show = || {
        let running: Vec<_> = running.lock().values().cloned().collect();
        let done = done.load(Ordering::Relaxed);
        let of = plans
            .total()
            .map_or_else(String::new, |all| format!(" of {all}"));
        format!("{name}: {done}{of} runs; now {}", running.join(" | "))
    };
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let terminal = stderr().is_terminal();
        let tick = if terminal {
            TERMINAL_INTERVAL
        } else {
            LOG_INTERVAL
        };
        let mut waited = Duration::ZERO;
        while workers.iter().any(|it| !it.is_finished()) {
            thread::park_timeout(POLL_INTERVAL);
            waited += POLL_INTERVAL;
            if waited >= tick {
                waited = Duration::ZERO;
                if terminal {
                    eprint!("\r\x1b[K{}", show());
                    _ = stderr().flush();
                } else {
                    eprintln!("{}", show());
                }
            }
        }
        if terminal {
            eprint!("\r\x1b[K");
        }
    });
    let found = found.into_inner().map(|(_, plan, run)| (plan, run));
    (found, done.into_inner())
}
