//! Metrics of one kind, with the series of its labels.
//!
//! The counts of each turn are collected here under one lock, and added to the collectors when they
//! are gathered. A histogram of the collectors needs four atomic changes, and a turn has six of
//! them.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus::{
    IntCounter, IntGauge,
    local::{LocalHistogram, LocalIntCounter, LocalMetric},
};

use super::Metrics;
use crate::{Action, HandlerError, Outcome, Role, running::RunningCalls};

/// The counters of one kind.
pub(crate) struct KindMetrics {
    /// The name of the kind.
    pub(crate) kind: Arc<str>,
    pub(crate) running: RunningCalls,
    counts: Mutex<Counts>,
    exhausted: IntCounter,
    mapped: IntCounter,
    panics: IntCounter,
}

/// The counts since the last gathering.
struct Counts {
    actions: [ActionCounts; Action::ALL.len()],
    adds: LocalIntCounter,
    wait: LocalHistogram,
    work: LocalHistogram,
    retries: LocalIntCounter,
    latency: LocalHistogram,
    result_time: LocalHistogram,
    result_errors: LocalIntCounter,
    success: LocalIntCounter,
    requeue_after: LocalIntCounter,
    error: LocalIntCounter,
    conflict: LocalIntCounter,
    active_workers: GaugeDelta,
}

/// The counters of one action of one kind.
struct ActionCounts {
    events: LocalIntCounter,
    reconcile_duration: LocalHistogram,
    reconciler_duration: LocalHistogram,
    watcher_duration: LocalHistogram,
    ongoing_processes: GaugeDelta,
    ongoing_events: GaugeDelta,
    reconciler_errors: LocalIntCounter,
    watcher_errors: LocalIntCounter,
}

/// A change of a gauge that was not added to it yet.
struct GaugeDelta {
    gauge: IntGauge,
    by: i64,
}

/// The type of an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActivityType {
    /// A worker processes an event or retry.
    Turn,
    /// A handler is called.
    Call,
}

/// Counts an activity from its start until it is dropped.
#[must_use = "dropping this ends it"]
pub(crate) struct OngoingActivity<'m> {
    /// `None` after it has ended.
    of: Option<&'m KindMetrics>,
    what: ActivityType,
    action: Action,
}

// === impl KindMetrics ===

impl KindMetrics {
    /// Creates the counters of `kind`.
    pub(crate) fn new(metrics: &Metrics, kind: &Arc<str>) -> Self {
        let name = Arc::clone(kind);
        Self {
            kind: name,
            running: RunningCalls::default(),
            counts: Mutex::new(Counts::new(metrics, kind)),
            exhausted: metrics.event.exhausted.with_label_values(&[kind]),
            mapped: metrics.event.mapped.with_label_values(&[kind]),
            panics: metrics.results.panics.with_label_values(&[kind]),
        }
    }

    /// Adds the counts to the collectors, which are being gathered.
    pub(crate) fn flush(&self) {
        self.counts.lock().flush();
    }

    /// Counts received events by action. `coalesced` of them were not queued separately.
    pub(crate) fn received(&self, actions: &[u64; Action::ALL.len()], coalesced: usize) {
        let counts = self.counts.lock();
        for (action, events) in counts.actions.iter().zip(actions) {
            action.events.inc_by(*events);
        }
        let events: u64 = actions.iter().sum();
        counts.adds.inc_by(events.saturating_sub(coalesced as u64));
    }

    /// Counts existing objects that a mapper returned.
    pub(crate) fn mapped(&self, objects: usize) {
        self.mapped.inc_by(objects as u64);
    }

    /// Counts a panic of a mapper.
    pub(crate) fn mapper_panicked(&self) {
        self.panics.inc();
    }

    /// Counts an event that a worker took after `waited`.
    pub(crate) fn event(&self, action: Action, waited: Duration) -> OngoingActivity<'_> {
        self.begin(ActivityType::Turn, action, |counts| {
            let waited = waited.as_secs_f64();
            counts.latency.observe(waited);
            counts.wait.observe(waited);
        })
    }

    /// Counts a retry that a worker took after `waited`.
    pub(crate) fn retry(&self, action: Action, waited: Duration) -> OngoingActivity<'_> {
        self.begin(ActivityType::Turn, action, |counts| {
            counts.wait.observe(waited.as_secs_f64());
        })
    }

    /// A handler is called.
    pub(crate) fn call(&self, action: Action) -> OngoingActivity<'_> {
        self.begin(ActivityType::Call, action, |_| {})
    }

    /// Counts a retry.
    pub(crate) fn retried(&self) {
        self.counts.lock().retries.inc();
    }

    /// Counts a call whose retries are exhausted.
    pub(crate) fn retries_exhausted(&self) {
        self.exhausted.inc();
    }

    fn begin(
        &self,
        what: ActivityType,
        action: Action,
        note: impl FnOnce(&Counts),
    ) -> OngoingActivity<'_> {
        let mut counts = self.counts.lock();
        counts.ongoing(what, action, 1);
        note(&counts);
        OngoingActivity {
            of: Some(self),
            what,
            action,
        }
    }
}

// === impl OngoingActivity ===

impl OngoingActivity<'_> {
    /// Ends an event or retry.
    pub(crate) fn done(self, took: Duration) {
        let took = took.as_secs_f64();
        self.end(|counts, action| {
            counts.work.observe(took);
            counts.actions[action as usize]
                .reconcile_duration
                .observe(took);
        });
    }

    /// Ends a call.
    pub(crate) fn called(
        self,
        role: Role,
        took: Duration,
        ended: Result<&Outcome, &HandlerError>,
        is_conflict: bool,
    ) {
        if let (Err(HandlerError::Panicked { .. }), Some(of)) = (ended, self.of) {
            of.panics.inc();
        }
        let took = took.as_secs_f64();
        self.end(|counts, action| {
            let by_action = &counts.actions[action as usize];
            if role == Role::Watcher {
                by_action.watcher_duration.observe(took);
                if ended.is_err() {
                    by_action.watcher_errors.inc();
                }
                return;
            }
            by_action.reconciler_duration.observe(took);
            counts.result_time.observe(took);
            match ended {
                Ok(outcome) if outcome.delay().is_some() => {
                    counts.requeue_after.inc();
                    counts.retries.inc();
                }
                Ok(_) => counts.success.inc(),
                Err(_) if is_conflict => counts.conflict.inc(),
                Err(_) => {
                    by_action.reconciler_errors.inc();
                    counts.result_errors.inc();
                    counts.error.inc();
                }
            }
        });
    }

    fn end(mut self, note: impl FnOnce(&Counts, Action)) {
        if let Some(of) = self.of.take() {
            let mut counts = of.counts.lock();
            counts.ongoing(self.what, self.action, -1);
            note(&counts, self.action);
        }
    }
}

impl Drop for OngoingActivity<'_> {
    fn drop(&mut self) {
        if let Some(of) = self.of.take() {
            of.counts.lock().ongoing(self.what, self.action, -1);
        }
    }
}

// === impl Counts ===

impl Counts {
    fn new(metrics: &Metrics, kind: &str) -> Self {
        let Metrics {
            event,
            results,
            queue,
        } = metrics;
        let result = |result| results.total.with_label_values(&[kind, result]).local();
        Self {
            actions: Action::ALL.map(|action| ActionCounts::new(metrics, kind, action)),
            adds: queue.adds.local(),
            wait: queue.wait.local(),
            work: queue.work.local(),
            retries: queue.retries.local(),
            latency: event.latency.with_label_values(&[kind]).local(),
            result_time: results.time.with_label_values(&[kind]).local(),
            result_errors: results.errors.with_label_values(&[kind]).local(),
            success: result("success"),
            requeue_after: result("requeue_after"),
            error: result("error"),
            conflict: result("conflict"),
            active_workers: GaugeDelta::of(results.active_workers.clone()),
        }
    }

    fn ongoing(&mut self, what: ActivityType, action: Action, by: i64) {
        let by_action = &mut self.actions[action as usize];
        match what {
            ActivityType::Turn => {
                by_action.ongoing_events.by += by;
                self.active_workers.by += by;
            }
            ActivityType::Call => by_action.ongoing_processes.by += by,
        }
    }

    fn flush(&mut self) {
        self.actions.iter_mut().for_each(ActionCounts::flush);
        let locals: [&dyn LocalMetric; 11] = [
            &self.adds,
            &self.wait,
            &self.work,
            &self.retries,
            &self.latency,
            &self.result_time,
            &self.result_errors,
            &self.success,
            &self.requeue_after,
            &self.error,
            &self.conflict,
        ];
        for local in locals {
            local.flush();
        }
        self.active_workers.flush();
    }
}

impl Drop for Counts {
    /// Collectors may be gathered after the controller was dropped.
    fn drop(&mut self) {
        self.flush();
    }
}

// === impl ActionCounts ===

impl ActionCounts {
    fn new(metrics: &Metrics, kind: &str, action: Action) -> Self {
        let labels = [action.as_str(), kind];
        let event = &metrics.event;
        Self {
            events: event.events.with_label_values(&labels).local(),
            reconcile_duration: event.reconcile_duration.with_label_values(&labels).local(),
            reconciler_duration: event.reconciler_duration.with_label_values(&labels).local(),
            watcher_duration: event.watcher_duration.with_label_values(&labels).local(),
            ongoing_processes: GaugeDelta::of(event.ongoing_processes.with_label_values(&labels)),
            ongoing_events: GaugeDelta::of(event.ongoing_events.with_label_values(&labels)),
            reconciler_errors: event.reconciler_errors.with_label_values(&labels).local(),
            watcher_errors: event.watcher_errors.with_label_values(&labels).local(),
        }
    }

    fn flush(&mut self) {
        let locals: [&dyn LocalMetric; 6] = [
            &self.events,
            &self.reconcile_duration,
            &self.reconciler_duration,
            &self.watcher_duration,
            &self.reconciler_errors,
            &self.watcher_errors,
        ];
        for local in locals {
            local.flush();
        }
        self.ongoing_processes.flush();
        self.ongoing_events.flush();
    }
}

// === impl GaugeDelta ===

impl GaugeDelta {
    const fn of(gauge: IntGauge) -> Self {
        Self { gauge, by: 0 }
    }

    fn flush(&mut self) {
        self.gauge.add(std::mem::take(&mut self.by));
    }
}
