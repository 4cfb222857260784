//! Prints a table of the collected metrics.

use prometheus::proto::{Metric, MetricFamily, MetricType};

use crate::printer::Printer;

/// The metrics that are most useful for a short run. The registry has more.
const SHOWN: [&str; 8] = [
    "informer_store_objects",
    "informer_events_total",
    "controller_runtime_reconcile_total",
    "reconciler_errors_total",
    "watcher_errors_total",
    "workqueue_retries_total",
    "reconciler_process_duration_seconds",
    "informer_watch_restarts_total",
];

pub(crate) fn print(families: &[MetricFamily], printer: &Printer) {
    printer.heading(&format!("Metrics after {:.1} seconds", printer.seconds()));
    for name in SHOWN {
        for family in families.iter().filter(|family| family.name() == name) {
            let kind = family.get_field_type();
            for metric in family.get_metric() {
                if let Some(value) = value(kind, metric) {
                    println!("  {name:<38} {:<20} {value}", labels(metric));
                }
            }
        }
    }
    let series: usize = families
        .iter()
        .map(|family| family.get_metric().len())
        .sum();
    println!("  and others: {series} series in total");
}

fn labels(metric: &Metric) -> String {
    let pairs = metric.get_label().iter();
    let pairs: Vec<String> = pairs
        // The same on every line: there is one controller with one kind.
        .filter(|pair| !["controller", "kind", "name"].contains(&pair.name()))
        .map(|pair| format!("{}={}", pair.name(), pair.value()))
        .collect();
    pairs.join(" ")
}

/// The value of a series as text; none if it is zero.
fn value(kind: MetricType, metric: &Metric) -> Option<String> {
    let number = match kind {
        MetricType::COUNTER => metric.get_counter().get_value(),
        MetricType::GAUGE => metric.get_gauge().get_value(),
        _ => {
            let calls = metric.get_histogram();
            let count = u32::try_from(calls.get_sample_count()).unwrap_or(u32::MAX);
            let mean = calls.get_sample_sum() / f64::from(count.max(1));
            let text = format!("{count} calls, {:.1} ms on average", mean * 1000.0);
            return (count > 0).then_some(text);
        }
    };
    (number != 0.0).then(|| number.to_string())
}
