//! What is counted about controllers. All names stand in this file.
//!
//! Where the meaning is the same, a metric has the name that dashboards know: that of
//! grafana-app-sdk, controller-runtime or client-go. No object's name, namespace or uid and
//! no text of an error is a label.

use std::{fmt, time::Duration};

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    core::Collector,
};

use crate::{Action, HandlerError, Outcome, route::Role};

mod labelled;

pub(crate) use self::labelled::Labelled;

/// All collectors of one controller.
#[derive(Clone)]
pub(crate) struct Metrics {
    events: IntCounterVec,
    reconcile_duration: HistogramVec,
    reconciler_duration: HistogramVec,
    watcher_duration: HistogramVec,
    ongoing_processes: IntGaugeVec,
    ongoing_events: IntGaugeVec,
    reconciler_errors: IntCounterVec,
    watcher_errors: IntCounterVec,
    latency: HistogramVec,
    exhausted: IntCounterVec,

    results: IntCounterVec,
    result_errors: IntCounterVec,
    result_time: HistogramVec,
    panics: IntCounterVec,
    active_workers: IntGauge,
    max_workers: IntGauge,

    depth: IntGauge,
    adds: IntCounter,
    queue_duration: Histogram,
    work_duration: Histogram,
    retries: IntCounter,
    pending: IntGauge,
}

/// What is counted about one kind, looked up once.
pub(crate) struct KindMetrics {
    all: Metrics,
    actions: [ActionMetrics; 4],
    latency: Histogram,
    exhausted: IntCounter,
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
pub(crate) struct Ongoing(IntGauge);

/// From a tenth of a millisecond, which is what the engine adds, to the half minute of a slow
/// call.
const SECONDS: [f64; 14] = [
    0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0,
];

// === impl Metrics ===

impl Metrics {
    /// Creates the collectors. `namespace` comes before each name that is not
    /// controller-runtime's or client-go's; `name` is the name of the queue.
    pub(crate) fn new(namespace: &str, name: &str) -> prometheus::Result<Self> {
        let opts = |name: &str, help: &str| Opts::new(name, help).namespace(namespace);
        let known = |name: &str, help: &str| Opts::new(name, help);
        let queue = |metric: &str, help: &str| Opts::new(metric, help).const_label("name", name);
        let counters = |opts, labels: &[&str]| IntCounterVec::new(opts, labels);
        let gauges = |opts, labels: &[&str]| IntGaugeVec::new(opts, labels);
        let timed = |opts: Opts| HistogramOpts::from(opts).buckets(SECONDS.to_vec());
        let times = |opts: Opts, labels: &[&str]| HistogramVec::new(timed(opts), labels);
        let event = ["event_type", "kind"];
        Ok(Self {
            events: counters(
                opts("informer_events_total", "Events that came from informers."),
                &event,
            )?,
            reconcile_duration: times(
                opts(
                    "informer_reconcile_duration_seconds",
                    "Time to tell one event to all watchers and reconcilers, or to make one retry.",
                ),
                &event,
            )?,
            reconciler_duration: times(
                opts(
                    "reconciler_process_duration_seconds",
                    "Time of one call of one reconciler, first calls and retries.",
                ),
                &event,
            )?,
            watcher_duration: times(
                opts(
                    "watcher_process_duration_seconds",
                    "Time of one call of one watcher, first calls and retries.",
                ),
                &event,
            )?,
            ongoing_processes: gauges(
                opts(
                    "ongoing_reconcile_processes",
                    "Calls of watchers and reconcilers in progress.",
                ),
                &event,
            )?,
            ongoing_events: gauges(
                opts(
                    "ongoing_reconcile_events",
                    "Events and retries in a worker's hands.",
                ),
                &event,
            )?,
            reconciler_errors: counters(
                opts(
                    "reconciler_errors_total",
                    "Calls of reconcilers that failed.",
                ),
                &event,
            )?,
            watcher_errors: counters(
                opts("watcher_errors_total", "Calls of watchers that failed."),
                &event,
            )?,
            latency: times(
                opts(
                    "event_handler_latency_seconds",
                    "Time from an event's arrival to the call of its first handler.",
                ),
                &["kind"],
            )?,
            exhausted: counters(
                opts("retries_exhausted_total", "Calls that were given up."),
                &["kind"],
            )?,
            pending: IntGauge::with_opts(opts(
                "pending_retries",
                "Calls that are to be made again at a later time.",
            ))?,

            results: counters(
                known(
                    "controller_runtime_reconcile_total",
                    "Calls of reconcilers, by result.",
                ),
                &["kind", "result"],
            )?,
            result_errors: counters(
                known(
                    "controller_runtime_reconcile_errors_total",
                    "Calls of reconcilers that failed.",
                ),
                &["kind"],
            )?,
            result_time: times(
                known(
                    "controller_runtime_reconcile_time_seconds",
                    "Time of one call of one reconciler.",
                ),
                &["kind"],
            )?,
            panics: counters(
                known(
                    "controller_runtime_reconcile_panics_total",
                    "Calls of watchers and reconcilers that panicked.",
                ),
                &["kind"],
            )?,
            active_workers: IntGauge::with_opts(known(
                "controller_runtime_active_workers",
                "Workers that have an object in hand.",
            ))?,
            max_workers: IntGauge::with_opts(known(
                "controller_runtime_max_concurrent_reconciles",
                "Objects that can be in hand at once.",
            ))?,

            depth: IntGauge::with_opts(queue(
                "workqueue_depth",
                "Objects that wait for a worker.",
            ))?,
            adds: IntCounter::with_opts(queue("workqueue_adds_total", "Events that were queued."))?,
            queue_duration: Histogram::with_opts(timed(queue(
                "workqueue_queue_duration_seconds",
                "Time from when something could be done until a worker took it.",
            )))?,
            work_duration: Histogram::with_opts(timed(queue(
                "workqueue_work_duration_seconds",
                "Time that a worker had an object in hand.",
            )))?,
            retries: IntCounter::with_opts(queue(
                "workqueue_retries_total",
                "Calls that were to be made again.",
            ))?,
        })
    }

    /// What is counted about `kind`.
    pub(crate) fn kind(&self, kind: &str) -> KindMetrics {
        let result = |result: &str| self.results.with_label_values(&[kind, result]);
        KindMetrics {
            actions: [
                Action::Created,
                Action::Updated,
                Action::Deleted,
                Action::Resynced,
            ]
            .map(|action| self.action(kind, action)),
            latency: self.latency.with_label_values(&[kind]),
            exhausted: self.exhausted.with_label_values(&[kind]),
            result_errors: self.result_errors.with_label_values(&[kind]),
            result_time: self.result_time.with_label_values(&[kind]),
            panics: self.panics.with_label_values(&[kind]),
            success: result("success"),
            requeue_after: result("requeue_after"),
            error: result("error"),
            all: self.clone(),
        }
    }

    fn action(&self, kind: &str, action: Action) -> ActionMetrics {
        let labels = [action.as_str(), kind];
        ActionMetrics {
            events: self.events.with_label_values(&labels),
            reconcile_duration: self.reconcile_duration.with_label_values(&labels),
            reconciler_duration: self.reconciler_duration.with_label_values(&labels),
            watcher_duration: self.watcher_duration.with_label_values(&labels),
            ongoing_processes: self.ongoing_processes.with_label_values(&labels),
            ongoing_events: self.ongoing_events.with_label_values(&labels),
            reconciler_errors: self.reconciler_errors.with_label_values(&labels),
            watcher_errors: self.watcher_errors.with_label_values(&labels),
        }
    }

    /// How many workers there are.
    pub(crate) fn workers(&self, workers: usize) {
        self.max_workers.set(whole(workers));
    }

    /// How long the queue is, which is looked up when somebody wants to know.
    pub(crate) fn queue(&self, depth: usize, pending: usize) {
        self.depth.set(whole(depth));
        self.pending.set(whole(pending));
    }

    /// The collectors.
    pub(crate) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        vec![
            Box::new(self.events.clone()),
            Box::new(self.reconcile_duration.clone()),
            Box::new(self.reconciler_duration.clone()),
            Box::new(self.watcher_duration.clone()),
            Box::new(self.ongoing_processes.clone()),
            Box::new(self.ongoing_events.clone()),
            Box::new(self.reconciler_errors.clone()),
            Box::new(self.watcher_errors.clone()),
            Box::new(self.latency.clone()),
            Box::new(self.exhausted.clone()),
            Box::new(self.results.clone()),
            Box::new(self.result_errors.clone()),
            Box::new(self.result_time.clone()),
            Box::new(self.panics.clone()),
            Box::new(self.active_workers.clone()),
            Box::new(self.max_workers.clone()),
            Box::new(self.depth.clone()),
            Box::new(self.adds.clone()),
            Box::new(self.queue_duration.clone()),
            Box::new(self.work_duration.clone()),
            Box::new(self.retries.clone()),
            Box::new(self.pending.clone()),
        ]
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

// === impl KindMetrics ===

impl KindMetrics {
    /// An event came.
    pub(crate) fn came(&self, action: Action) {
        self.action(action).events.inc();
    }

    /// An event was queued.
    pub(crate) fn queued(&self) {
        self.all.adds.inc();
    }

    /// A worker has an event in hand, which waited for so long.
    pub(crate) fn event(&self, action: Action, waited: Duration) -> [Ongoing; 2] {
        self.latency.observe(waited.as_secs_f64());
        self.turn(action, waited)
    }

    /// A worker has an event or a retry in hand.
    pub(crate) fn turn(&self, action: Action, waited: Duration) -> [Ongoing; 2] {
        self.all.queue_duration.observe(waited.as_secs_f64());
        [
            Ongoing::begin(&self.all.active_workers),
            Ongoing::begin(&self.action(action).ongoing_events),
        ]
    }

    /// A worker is done with it.
    pub(crate) fn done(&self, action: Action, took: Duration) {
        let took = took.as_secs_f64();
        self.all.work_duration.observe(took);
        self.action(action).reconcile_duration.observe(took);
    }

    /// A handler is called.
    pub(crate) fn call(&self, action: Action) -> Ongoing {
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
        self.all.retries.inc();
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

// === impl Ongoing ===

impl Ongoing {
    fn begin(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
