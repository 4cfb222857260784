//! The engine controller of the current run, which is replaced by each run.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use prometheus::{core::Collector, core::Desc, proto::MetricFamily};

use crate::{Fence, InformerController, RunError};

/// The state that all runs share.
#[derive(Default)]
pub(super) struct Runs {
    pub(super) fence: OnceLock<Fence>,
    pub(super) is_running: AtomicBool,
    /// The controller of the current or last run; before the first run, that of the first one.
    pub(super) current: Mutex<Current>,
}

#[derive(Default)]
pub(super) struct Current {
    pub(super) controller: Option<InformerController>,
    /// The version that its informer has reached.
    pub(super) last_version: Option<Box<LastVersion>>,
    /// Whether it was run: a controller runs once.
    pub(super) has_run: bool,
}

type LastVersion = dyn Fn() -> Option<String> + Send + Sync;

/// Ends the state of running.
pub(super) struct RunGuard<'a>(&'a Runs);

/// A collector of the current run. A later run has other collectors with the same descriptions.
pub(super) struct CurrentCollector {
    pub(super) runs: Arc<Runs>,
    /// Its position in the collectors of a controller.
    pub(super) at: usize,
    pub(super) first: Box<dyn Collector>,
}

// === impl Runs ===

impl Runs {
    pub(super) fn begin(&self) -> Result<RunGuard<'_>, RunError> {
        if self.is_running.swap(true, Ordering::AcqRel) {
            return Err(RunError::AlreadyRuns);
        }
        Ok(RunGuard(self))
    }
}

// === impl RunGuard ===

impl Drop for RunGuard<'_> {
    fn drop(&mut self) {
        self.0.is_running.store(false, Ordering::Release);
    }
}

// === impl CurrentCollector ===

impl Collector for CurrentCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.first.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let controller = self.runs.current.lock().controller.clone();
        let all = controller.map(|it| it.prometheus_collectors());
        let collector = all.and_then(|all| all.into_iter().nth(self.at));
        collector.map_or_else(Vec::new, |it| it.collect())
    }
}
