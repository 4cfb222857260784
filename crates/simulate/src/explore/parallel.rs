//! Runs plans on all processors, and shows how far that is.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use crate::{Plan, run::Run};

/// How often progress is shown where there is a terminal.
const OFTEN: Duration = Duration::from_millis(500);

/// How often it is shown in a log.
const SELDOM: Duration = Duration::from_secs(30);

/// How often it is looked whether all runs have ended.
const LOOK: Duration = Duration::from_millis(20);

/// Tries all plans; returns the first in their order that is broken, and its run.
pub(super) fn first<'p>(
    name: &str,
    plans: &'p [Plan],
    broken: impl Fn(&Plan) -> Option<Run> + Sync,
) -> Option<(&'p Plan, Run)> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let found: Mutex<Option<(usize, Run)>> = Mutex::new(None);
    let running: Mutex<Vec<usize>> = Mutex::default();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(plan) = plans.get(index) else { return };
            if found
                .lock()
                .as_ref()
                .is_some_and(|(first, _)| *first < index)
            {
                return;
            }
            running.lock().push(index);
            let outcome = broken(plan);
            running.lock().retain(|it| *it != index);
            done.fetch_add(1, Ordering::Relaxed);
            if let Some(run) = outcome {
                let mut found = found.lock();
                if found.as_ref().is_none_or(|(first, _)| index < *first) {
                    *found = Some((index, run));
                }
            }
        }
    };
    let show = || {
        let running: Vec<_> = running
            .lock()
            .iter()
            .map(|it| plans[*it].to_string())
            .collect();
        let done = done.load(Ordering::Relaxed);
        format!(
            "{name}: {done} of {} runs; now {}",
            plans.len(),
            running.join(" | ")
        )
    };
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let terminal = stderr().is_terminal();
        let tick = if terminal { OFTEN } else { SELDOM };
        let mut waited = Duration::ZERO;
        while workers.iter().any(|it| !it.is_finished()) {
            thread::park_timeout(LOOK);
            waited += LOOK;
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
    let (index, run) = found.into_inner()?;
    Some((&plans[index], run))
}
