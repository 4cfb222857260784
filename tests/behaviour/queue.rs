//! The queue of a controller, by its metric.

use std::time::Duration;

use prometheus::core::Collector;

/// Waits until this number of objects wait for a worker.
pub(crate) async fn until_waiting(
    collectors: impl Fn() -> Vec<Box<dyn Collector>>,
    objects: usize,
) {
    // Ends: the events arrive, or the time of the test is over.
    loop {
        let families: Vec<_> = collectors().iter().flat_map(|it| it.collect()).collect();
        let depth = families.iter().find(|it| it.name() == "workqueue_depth");
        let depth = depth.and_then(|it| it.get_metric().first());
        let depth = depth.map(|it| it.get_gauge().get_value().to_string());
        if depth == Some(objects.to_string()) {
            return;
        }
        // No event tells that the queue has changed.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
