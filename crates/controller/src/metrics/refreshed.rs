//! A collector whose values are computed when it is collected.

use prometheus::{
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// A collector that calls a function before each collection.
pub(crate) struct Refreshed<F> {
    pub(crate) collector: Box<dyn Collector>,
    pub(crate) refresh: F,
}

// === impl Refreshed ===

impl<F: Fn() + Send + Sync> Collector for Refreshed<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.collector.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        (self.refresh)();
        self.collector.collect()
    }
}
