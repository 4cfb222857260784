//! What is counted about operators. All names stand in this file.
//!
//! Those that client-go has too have its names.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, core::Collector};

/// What is counted about one election.
#[derive(Clone)]
pub(crate) struct ElectionMetrics {
    leads: IntGauge,
    looked_again: IntCounter,
    failures: IntCounterVec,
    transitions: IntGauge,
}

// === impl ElectionMetrics ===

impl ElectionMetrics {
    /// Creates the collectors; `name` is the name of the lease.
    pub(crate) fn new(name: &str) -> Self {
        let opts = |metric: &str, help: &str| Opts::new(metric, help).const_label("name", name);
        Self {
            leads: good(IntGauge::with_opts(opts(
                "leader_election_master_status",
                "Whether this replica leads: 1 or 0.",
            ))),
            looked_again: good(IntCounter::with_opts(opts(
                "leader_election_slowpath_total",
                "Times that a leader had to read the lease before it could renew it.",
            ))),
            failures: good(IntCounterVec::new(
                opts(
                    "leader_election_failures_total",
                    "Requests for the lease that failed, by reason.",
                ),
                &["reason"],
            )),
            transitions: good(IntGauge::with_opts(opts(
                "leader_election_lease_transitions",
                "How often the lease has changed hands, when it was last seen.",
            ))),
        }
    }

    pub(crate) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        vec![
            Box::new(self.leads.clone()),
            Box::new(self.looked_again.clone()),
            Box::new(self.failures.clone()),
            Box::new(self.transitions.clone()),
        ]
    }

    pub(crate) fn leads(&self, leads: bool) {
        self.leads.set(leads.into());
    }

    pub(crate) fn looked_again(&self) {
        self.looked_again.inc();
    }

    pub(crate) fn failed(&self, reason: &str) {
        self.failures.with_label_values(&[reason]).inc();
    }

    pub(crate) fn transitions(&self, transitions: i32) {
        self.transitions.set(transitions.into());
    }
}

/// A collector whose name is one of this file.
fn good<C>(made: prometheus::Result<C>) -> C {
    made.expect("our own metrics have good names")
}
