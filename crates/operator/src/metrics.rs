//! Metrics of operators. All names are in this file.
//!
//! Metrics that exist in client-go have the same names.

use http::Method;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, core::Collector};

/// The metrics of one election.
#[derive(Clone)]
pub(crate) struct ElectionMetrics {
    leads: IntGauge,
    slow_path: IntCounter,
    failures: IntCounterVec,
    transitions: IntGauge,
}

// === impl ElectionMetrics ===

impl ElectionMetrics {
    /// Creates the collectors; `name` is the name of the lease.
    pub(crate) fn new(name: &str) -> Self {
        let opts = |metric: &str, help: &str| Opts::new(metric, help).const_label("name", name);
        Self {
            leads: valid(IntGauge::with_opts(opts(
                "leader_election_master_status",
                "Whether this replica leads: 1 or 0.",
            ))),
            slow_path: valid(IntCounter::with_opts(opts(
                "leader_election_slowpath_total",
                "Number of renewals before which the leader had to read the lease.",
            ))),
            failures: valid(IntCounterVec::new(
                opts(
                    "leader_election_failures_total",
                    "Requests for the lease that failed, by reason.",
                ),
                &["reason"],
            )),
            transitions: valid(IntGauge::with_opts(opts(
                "leader_election_lease_transitions",
                "Number of times that the lease changed its holder, as last read.",
            ))),
        }
    }

    pub(crate) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        vec![
            Box::new(self.leads.clone()),
            Box::new(self.slow_path.clone()),
            Box::new(self.failures.clone()),
            Box::new(self.transitions.clone()),
        ]
    }

    pub(crate) fn leads(&self, leads: bool) {
        self.leads.set(leads.into());
    }

    pub(crate) fn slow_path(&self) {
        self.slow_path.inc();
    }

    pub(crate) fn failed(&self, reason: &str) {
        self.failures.with_label_values(&[reason]).inc();
    }

    pub(crate) fn transitions(&self, transitions: i32) {
        self.transitions.set(transitions.into());
    }
}

/// The metrics of the requests to the API server.
#[derive(Clone)]
pub(crate) struct RequestMetrics {
    requests: IntCounterVec,
}

// === impl RequestMetrics ===

impl RequestMetrics {
    pub(crate) fn new() -> Self {
        let opts = Opts::new(
            "rest_client_requests_total",
            "Number of requests to the API server, by status code, method and host.",
        );
        Self {
            requests: valid(IntCounterVec::new(opts, &["code", "method", "host"])),
        }
    }

    pub(crate) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        vec![Box::new(self.requests.clone())]
    }

    pub(crate) fn sent(&self, code: &str, method: &Method, host: &str) {
        let labels = [code, method.as_str(), host];
        self.requests.with_label_values(&labels).inc();
    }
}

/// Unwraps a collector whose name is a constant of this file.
fn valid<C>(made: prometheus::Result<C>) -> C {
    made.expect("the names in this file are valid")
}
