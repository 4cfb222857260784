//! Metrics of controllers. All names are in this file.
//!
//! A metric with the same meaning as one of grafana-app-sdk, controller-runtime or client-go has
//! its name, so that existing dashboards work. No label has the name, namespace or uid of an object
//! or the text of an error, except those of [`ObjectMetrics`], which a user adds.

use std::{collections::HashMap, time::Duration};

use prometheus::{
    CounterVec, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, core::Collector,
};

mod kind;
mod objects;
mod refreshed;

pub use self::objects::ObjectMetrics;
pub(crate) use self::{kind::KindMetrics, refreshed::Refreshed};
use crate::Action;

/// The collectors of one controller.
#[derive(Clone)]
pub(crate) struct Metrics {
    event: EventMetrics,
    results: ReconcileMetrics,
    queue: WorkqueueMetrics,
}

/// Metrics of events and handlers: grafana-app-sdk's names, and ours.
#[derive(Clone)]
struct EventMetrics {
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
    mapped: IntCounterVec,
    steps: HistogramVec,
    stale: IntCounter,
    pending: IntGauge,
}

/// Metrics of calls: controller-runtime's names.
#[derive(Clone)]
struct ReconcileMetrics {
    total: IntCounterVec,
    errors: IntCounterVec,
    time: HistogramVec,
    panics: IntCounterVec,
    active_workers: IntGauge,
    max_workers: IntGauge,
}

/// Metrics of the queue: client-go's names.
#[derive(Clone)]
struct WorkqueueMetrics {
    depth: IntGauge,
    adds: IntCounter,
    wait: Histogram,
    work: Histogram,
    retries: IntCounter,
    unfinished: Gauge,
    longest: Gauge,
}

/// Metrics of single objects.
#[derive(Clone)]
struct ObjectCollectors {
    calls: IntCounterVec,
    seconds: CounterVec,
}

/// The values of the label `result`, as in controller-runtime, and `conflict`.
const RESULTS: [&str; 4] = ["success", "requeue_after", "error", "conflict"];

/// The buckets of the histograms: from a tenth of a millisecond, the overhead of the engine, to
/// half a minute, a slow call.
const SECONDS: [f64; 14] = [
    0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0,
];

// === impl Metrics ===

impl Metrics {
    /// Creates the collectors of the controller called `name`. `namespace` precedes each name that
    /// is not controller-runtime's or client-go's.
    pub(crate) fn new(namespace: &str, name: &str) -> prometheus::Result<Self> {
        let labels = constant_labels(name);
        let opts = |metric: &str, help: &str| Opts::new(metric, help).const_labels(labels.clone());
        Ok(Self {
            event: EventMetrics::new(|name, help| opts(name, help).namespace(namespace))?,
            results: ReconcileMetrics::new(opts)?,
            queue: WorkqueueMetrics::new(|metric, help| {
                opts(metric, help).const_label("name", name)
            })?,
        })
    }

    /// Removes the series of `kind`, which was removed.
    pub(crate) fn remove(&self, kind: &str) {
        let Self { event, results, .. } = self;
        for action in Action::ALL {
            let labels = [action.as_str(), kind];
            // A series that was never created cannot be removed, which is no error here.
            _ = event.events.remove_label_values(&labels);
            _ = event.reconcile_duration.remove_label_values(&labels);
            _ = event.reconciler_duration.remove_label_values(&labels);
            _ = event.watcher_duration.remove_label_values(&labels);
            _ = event.ongoing_processes.remove_label_values(&labels);
            _ = event.ongoing_events.remove_label_values(&labels);
            _ = event.reconciler_errors.remove_label_values(&labels);
            _ = event.watcher_errors.remove_label_values(&labels);
        }
        for result in RESULTS {
            _ = results.total.remove_label_values(&[kind, result]);
        }
        _ = event.latency.remove_label_values(&[kind]);
        _ = event.exhausted.remove_label_values(&[kind]);
        _ = event.mapped.remove_label_values(&[kind]);
        _ = results.errors.remove_label_values(&[kind]);
        _ = results.time.remove_label_values(&[kind]);
        _ = results.panics.remove_label_values(&[kind]);
    }

    /// Counts a call whose stores did not show own writes in time.
    pub(crate) fn stale(&self) {
        self.event.stale.inc();
    }

    /// The histogram of the step called `name`.
    pub(crate) fn step(&self, name: &str) -> Histogram {
        self.event.steps.with_label_values(&[name])
    }

    /// Sets the number of workers.
    pub(crate) fn workers(&self, workers: usize) {
        self.results.max_workers.set(whole(workers));
    }

    /// Sets the length of the queue, which is read when the metrics are gathered.
    pub(crate) fn queue(&self, depth: usize, pending: usize) {
        self.queue.depth.set(whole(depth));
        self.event.pending.set(whole(pending));
    }

    /// Sets the times of the calls in progress, which are read when the metrics are gathered.
    pub(crate) fn running(&self, elapsed: &[Duration]) {
        let sum: f64 = elapsed.iter().map(Duration::as_secs_f64).sum();
        self.queue.unfinished.set(sum);
        let longest = elapsed.iter().max().copied().unwrap_or_default();
        self.queue.longest.set(longest.as_secs_f64());
    }

    /// The collectors.
    pub(crate) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        let Self {
            event,
            results,
            queue,
        } = self.clone();
        vec![
            Box::new(event.events),
            Box::new(event.reconcile_duration),
            Box::new(event.reconciler_duration),
            Box::new(event.watcher_duration),
            Box::new(event.ongoing_processes),
            Box::new(event.ongoing_events),
            Box::new(event.reconciler_errors),
            Box::new(event.watcher_errors),
            Box::new(event.latency),
            Box::new(event.exhausted),
            Box::new(event.mapped),
            Box::new(event.steps),
            Box::new(event.stale),
            Box::new(event.pending),
            Box::new(results.total),
            Box::new(results.errors),
            Box::new(results.time),
            Box::new(results.panics),
            Box::new(results.active_workers),
            Box::new(results.max_workers),
            Box::new(queue.depth),
            Box::new(queue.adds),
            Box::new(queue.wait),
            Box::new(queue.work),
            Box::new(queue.retries),
            Box::new(queue.unfinished),
            Box::new(queue.longest),
        ]
    }
}

// === impl EventMetrics ===

impl EventMetrics {
    fn new(opts: impl Fn(&str, &str) -> Opts) -> prometheus::Result<Self> {
        let event = ["event_type", "kind"];
        let counter = |name, help| IntCounterVec::new(opts(name, help), &event);
        let by_kind = |name, help| IntCounterVec::new(opts(name, help), &["kind"]);
        let gauge = |name, help| IntGaugeVec::new(opts(name, help), &event);
        let histogram = |name, help| HistogramVec::new(seconds(opts(name, help)), &event);
        Ok(Self {
            events: counter("informer_events_total", "Events from informers.")?,
            reconcile_duration: histogram(
                "informer_reconcile_duration_seconds",
                "Time of the calls of all watchers and reconcilers for one event, or of one retry.",
            )?,
            reconciler_duration: histogram(
                "reconciler_process_duration_seconds",
                "Time of one call of one reconciler, first calls and retries.",
            )?,
            watcher_duration: histogram(
                "watcher_process_duration_seconds",
                "Time of one call of one watcher, first calls and retries.",
            )?,
            ongoing_processes: gauge(
                "ongoing_reconcile_processes",
                "Calls of watchers and reconcilers in progress.",
            )?,
            ongoing_events: gauge(
                "ongoing_reconcile_events",
                "Events and retries in progress.",
            )?,
            reconciler_errors: counter(
                "reconciler_errors_total",
                "Calls of reconcilers that failed.",
            )?,
            watcher_errors: counter("watcher_errors_total", "Calls of watchers that failed.")?,
            latency: HistogramVec::new(
                seconds(opts(
                    "event_handler_latency_seconds",
                    "Time from an event's arrival to the call of its first handler.",
                )),
                &["kind"],
            )?,
            exhausted: by_kind(
                "retries_exhausted_total",
                "Calls whose retries were exhausted.",
            )?,
            mapped: by_kind(
                "mapped_objects_total",
                "Objects that mappers returned and that exist.",
            )?,
            steps: HistogramVec::new(
                seconds(opts(
                    "reconcile_step_duration_seconds",
                    "Time of a named step of a call.",
                )),
                &["step"],
            )?,
            stale: IntCounter::with_opts(opts(
                "stale_reconciles_total",
                "Calls that began although the stores did not show the writes of an earlier call.",
            ))?,
            pending: IntGauge::with_opts(opts(
                "pending_retries",
                "Pending calls: retries and requeues that are not due yet.",
            ))?,
        })
    }
}

// === impl ReconcileMetrics ===

impl ReconcileMetrics {
    fn new(opts: impl Fn(&str, &str) -> Opts) -> prometheus::Result<Self> {
        let counter = |name, help, labels: &[&str]| IntCounterVec::new(opts(name, help), labels);
        Ok(Self {
            total: counter(
                "controller_runtime_reconcile_total",
                "Calls of reconcilers, by result.",
                &["kind", "result"],
            )?,
            errors: counter(
                "controller_runtime_reconcile_errors_total",
                "Calls of reconcilers that failed.",
                &["kind"],
            )?,
            time: HistogramVec::new(
                seconds(opts(
                    "controller_runtime_reconcile_time_seconds",
                    "Time of one call of one reconciler.",
                )),
                &["kind"],
            )?,
            panics: counter(
                "controller_runtime_reconcile_panics_total",
                "Calls of watchers, reconcilers and mappers that panicked.",
                &["kind"],
            )?,
            active_workers: IntGauge::with_opts(opts(
                "controller_runtime_active_workers",
                "Workers that process an object.",
            ))?,
            max_workers: IntGauge::with_opts(opts(
                "controller_runtime_max_concurrent_reconciles",
                "Maximum number of objects that are processed concurrently.",
            ))?,
        })
    }
}

// === impl WorkqueueMetrics ===

impl WorkqueueMetrics {
    fn new(opts: impl Fn(&str, &str) -> Opts) -> prometheus::Result<Self> {
        Ok(Self {
            depth: IntGauge::with_opts(opts("workqueue_depth", "Objects that wait for a worker."))?,
            adds: IntCounter::with_opts(opts("workqueue_adds_total", "Events that were queued."))?,
            wait: Histogram::with_opts(seconds(opts(
                "workqueue_queue_duration_seconds",
                "Time from when an event or retry was ready until a worker took it.",
            )))?,
            work: Histogram::with_opts(seconds(opts(
                "workqueue_work_duration_seconds",
                "Time of a worker for one event or retry.",
            )))?,
            retries: IntCounter::with_opts(opts(
                "workqueue_retries_total",
                "Retries and requeues.",
            ))?,
            unfinished: Gauge::with_opts(opts(
                "workqueue_unfinished_work_seconds",
                "Time of all calls in progress, together.",
            ))?,
            longest: Gauge::with_opts(opts(
                "workqueue_longest_running_processor_seconds",
                "Time of the longest call in progress.",
            ))?,
        })
    }
}

// === impl ObjectCollectors ===

impl ObjectCollectors {
    fn new(controller: &str) -> prometheus::Result<Self> {
        let labels = constant_labels(controller);
        let opts = |metric: &str, help: &str| Opts::new(metric, help).const_labels(labels.clone());
        Ok(Self {
            calls: IntCounterVec::new(
                opts("object_calls_total", "Calls for one object, by result."),
                &["kind", "namespace", "name", "result"],
            )?,
            seconds: CounterVec::new(
                opts(
                    "object_call_seconds_total",
                    "Time of all calls for one object, together.",
                ),
                &["kind", "namespace", "name"],
            )?,
        })
    }
}

/// The labels of all metrics of the controller called `name`, so that several controllers can use
/// one registry.
pub(crate) fn constant_labels(name: &str) -> HashMap<String, String> {
    HashMap::from([("controller".to_owned(), name.to_owned())])
}

fn seconds(opts: Opts) -> HistogramOpts {
    HistogramOpts::from(opts).buckets(SECONDS.to_vec())
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
