//! Metrics of webhooks. All names are in this file.
//!
//! A metric with the same meaning as one of controller-runtime has its name. The label `webhook` is the
//! path of a webhook of the program, never one that a client asked for.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, core::Collector};

/// The metrics of a webhook server.
#[derive(Clone)]
pub(crate) struct WebhookMetrics {
    requests: IntCounterVec,
    refused: IntCounterVec,
    latency: HistogramVec,
    certificate_errors: IntCounter,
}

/// The buckets of the histogram: from a conversion of one object to the longest timeout of the API
/// server.
const SECONDS: [f64; 12] = [
    0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0,
];

// === impl WebhookMetrics ===

impl WebhookMetrics {
    pub(super) fn new() -> Self {
        let requests = IntCounterVec::new(
            Opts::new(
                "controller_runtime_webhook_requests_total",
                "Requests to webhooks, by HTTP status.",
            ),
            &["webhook", "code"],
        );
        let refused = IntCounterVec::new(
            Opts::new(
                "webhook_refused_total",
                "Requests to webhooks that were denied, and conversions that failed.",
            ),
            &["webhook"],
        );
        let latency = HistogramVec::new(
            HistogramOpts::new(
                "controller_runtime_webhook_latency_seconds",
                "Time from the head of a request to its response.",
            )
            .buckets(SECONDS.to_vec()),
            &["webhook"],
        );
        let certificate_errors = IntCounter::new(
            "certwatcher_read_certificate_errors_total",
            "Reads of the certificate of the webhooks, or of its key, that failed.",
        );
        let valid = "the names in this file are valid";
        Self {
            requests: requests.expect(valid),
            refused: refused.expect(valid),
            latency: latency.expect(valid),
            certificate_errors: certificate_errors.expect(valid),
        }
    }

    pub(crate) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        vec![
            Box::new(self.requests.clone()),
            Box::new(self.refused.clone()),
            Box::new(self.latency.clone()),
            Box::new(self.certificate_errors.clone()),
        ]
    }

    pub(super) fn certificate_errors(&self) -> IntCounter {
        self.certificate_errors.clone()
    }

    pub(super) fn answered(&self, webhook: &str, code: u16, is_refused: bool, time: Duration) {
        (self.requests)
            .with_label_values(&[webhook, &code.to_string()])
            .inc();
        if is_refused {
            self.refused.with_label_values(&[webhook]).inc();
        }
        (self.latency)
            .with_label_values(&[webhook])
            .observe(time.as_secs_f64());
    }
}
