//! What is counted about one kind: the series of its labels, looked up once.

use std::{fmt, sync::Arc, time::Duration};

use prometheus::{Histogram, IntCounter, IntGauge};

use super::Metrics;
use crate::{Action, HandlerError, Outcome, route::Role};

/// What is counted about one kind, looked up once.
pub(crate) struct KindMetrics {
    /// The name of the kind.
    pub(crate) kind: Arc<str>,
    all: Metrics,
    actions: [ActionMetrics; 4],
    latency: Histogram,
    exhausted: IntCounter,
    mapped: IntCounter,
    result_errors: IntCounter,
    result_time: Histogram,
    panics: IntCounter,
    success: IntCounter,
    requeue_after: IntCounter,
    error: IntCounter,
}

/// What is counted about one action on one kind.
struct ActionMetrics {
    events: IntCounter,
    reconcile_duration: Histogram,
    reconciler_duration: Histogram,
    watcher_duration: Histogram,
    ongoing_processes: IntGauge,
    ongoing_events: IntGauge,
    reconciler_errors: IntCounter,
    watcher_errors: IntCounter,
}

/// Counts as one for as long as it lives, however that ends.
#[must_use = "dropping this ends it"]
pub(crate) struct Ongoing<'m>(&'m IntGauge);

// === impl KindMetrics ===

impl KindMetrics {
    /// The series of `kind`.
    pub(crate) fn new(metrics: &Metrics, kind: &Arc<str>) -> Self {
        let name = Arc::clone(kind);
        let kind = &**kind;
        let result = |result| metrics.results.total.with_label_values(&[kind, result]);
        Self {
            kind: name,
            actions: [
                Action::Created,
                Action::Updated,
                Action::Deleted,
                Action::Resynced,
            ]
            .map(|action| ActionMetrics::new(metrics, kind, action)),
            latency: metrics.told.latency.with_label_values(&[kind]),
            exhausted: metrics.told.exhausted.with_label_values(&[kind]),
            mapped: metrics.told.mapped.with_label_values(&[kind]),
            result_errors: metrics.results.errors.with_label_values(&[kind]),
            result_time: metrics.results.time.with_label_values(&[kind]),
            panics: metrics.results.panics.with_label_values(&[kind]),
            success: result("success"),
            requeue_after: result("requeue_after"),
            error: result("error"),
            all: metrics.clone(),
        }
    }

    /// An event came.
    pub(crate) fn came(&self, action: Action) {
        self.action(action).events.inc();
    }

    /// So many objects were named by a mapper, and are there.
    pub(crate) fn mapped(&self, objects: usize) {
        self.mapped.inc_by(objects as u64);
    }

    /// A mapper panicked.
    pub(crate) fn mapper_panicked(&self) {
        self.panics.inc();
    }

    /// An event was queued.
    pub(crate) fn queued(&self) {
        self.all.queue.adds.inc();
    }

    /// A worker has an event in hand, which waited for so long.
    pub(crate) fn event(&self, action: Action, waited: Duration) -> [Ongoing<'_>; 2] {
        self.latency.observe(waited.as_secs_f64());
        self.turn(action, waited)
    }

    /// A worker has an event or a retry in hand.
    pub(crate) fn turn(&self, action: Action, waited: Duration) -> [Ongoing<'_>; 2] {
        self.all.queue.wait.observe(waited.as_secs_f64());
        [
            Ongoing::begin(&self.all.results.active_workers),
            Ongoing::begin(&self.action(action).ongoing_events),
        ]
    }

    /// A worker is done with it.
    pub(crate) fn done(&self, action: Action, took: Duration) {
        let took = took.as_secs_f64();
        self.all.queue.work.observe(took);
        self.action(action).reconcile_duration.observe(took);
    }

    /// A handler is called.
    pub(crate) fn call(&self, action: Action) -> Ongoing<'_> {
        Ongoing::begin(&self.action(action).ongoing_processes)
    }

    /// A handler has returned.
    pub(crate) fn called(
        &self,
        role: Role,
        action: Action,
        took: Duration,
        ended: Result<&Outcome, &HandlerError>,
    ) {
        let took = took.as_secs_f64();
        let by_action = self.action(action);
        if let Err(HandlerError::Panicked { .. }) = ended {
            self.panics.inc();
        }
        if role == Role::Watcher {
            by_action.watcher_duration.observe(took);
            if ended.is_err() {
                by_action.watcher_errors.inc();
            }
            return;
        }
        by_action.reconciler_duration.observe(took);
        self.result_time.observe(took);
        match ended {
            Ok(outcome) if outcome.delay().is_some() => self.requeue_after.inc(),
            Ok(_) => self.success.inc(),
            Err(_) => {
                by_action.reconciler_errors.inc();
                self.result_errors.inc();
                self.error.inc();
            }
        }
    }

    /// A call is to be made again.
    pub(crate) fn retried(&self) {
        self.all.queue.retries.inc();
    }

    /// A call was given up.
    pub(crate) fn given_up(&self) {
        self.exhausted.inc();
    }

    fn action(&self, action: Action) -> &ActionMetrics {
        &self.actions[action as usize]
    }
}

impl fmt::Debug for KindMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindMetrics").finish_non_exhaustive()
    }
}

// === impl ActionMetrics ===

impl ActionMetrics {
    fn new(metrics: &Metrics, kind: &str, action: Action) -> Self {
        let labels = [action.as_str(), kind];
        let told = &metrics.told;
        Self {
            events: told.events.with_label_values(&labels),
            reconcile_duration: told.reconcile_duration.with_label_values(&labels),
            reconciler_duration: told.reconciler_duration.with_label_values(&labels),
            watcher_duration: told.watcher_duration.with_label_values(&labels),
            ongoing_processes: told.ongoing_processes.with_label_values(&labels),
            ongoing_events: told.ongoing_events.with_label_values(&labels),
            reconciler_errors: told.reconciler_errors.with_label_values(&labels),
            watcher_errors: told.watcher_errors.with_label_values(&labels),
        }
    }
}

// === impl Ongoing ===

impl<'m> Ongoing<'m> {
    fn begin(gauge: &'m IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Ongoing<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}
