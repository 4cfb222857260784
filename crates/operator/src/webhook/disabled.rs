//! Not available without the feature `webhook`.

use prometheus::core::Collector;

use crate::{AdminError, admin::Serving};

#[derive(Debug)]
pub(crate) enum WebhookServer {}

pub(crate) enum WebhookMetrics {}

// === impl WebhookServer ===

impl WebhookServer {
    pub(crate) fn serve(self) -> Result<Serving, AdminError> {
        match self {}
    }

    pub(crate) fn metrics(&self) -> WebhookMetrics {
        match *self {}
    }
}

// === impl WebhookMetrics ===

impl WebhookMetrics {
    pub(crate) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        match *self {}
    }
}
