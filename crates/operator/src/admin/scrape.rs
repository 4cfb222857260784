//! The page of metrics, rendered at most once a second for all clients.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use prometheus::{Encoder as _, Registry, TextEncoder};
use tokio::time::Instant;

use super::{
    authorize::Authorizer,
    page::{self, Answer},
};

/// The highest age of a rendered page. Prometheus scrapes less often, every 15 s or more; a client
/// that sends requests without a pause causes one rendering per second.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The metrics of a registry as text.
pub(super) struct MetricsPage {
    registry: Registry,
    authorizer: Option<Authorizer>,
    /// The last page, and the time at which it was rendered.
    last: Mutex<Option<(Instant, Bytes)>>,
}

// === impl MetricsPage ===

impl MetricsPage {
    pub(super) fn new(registry: Registry, authorizer: Option<Authorizer>) -> Self {
        Self {
            registry,
            authorizer,
            last: Mutex::default(),
        }
    }

    /// The response to a request with these headers.
    pub(super) async fn answer(&self, headers: &HeaderMap) -> Answer {
        if let Some(authorizer) = &self.authorizer
            && let Err((status, text)) = authorizer.check(headers, "/metrics").await
        {
            return page::text(status, text.to_owned());
        }
        page::metrics(self.get())
    }

    /// The page, at most a second old.
    fn get(&self) -> prometheus::Result<Bytes> {
        // A collector may panic while the lock is held. Then the last page is still valid.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((rendered, page)) = &*last
            && rendered.elapsed() < MAX_AGE
        {
            return Ok(page.clone());
        }
        let mut page = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut page)?;
        let page = Bytes::from(page);
        *last = Some((Instant::now(), page.clone()));
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use prometheus::IntCounter;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_page_is_rendered_once_a_second() {
        let registry = Registry::new();
        let counter = IntCounter::new("visits_total", "Visits.").expect("a name");
        registry.register(Box::new(counter.clone())).expect("new");
        let page = MetricsPage::new(registry, None);
        let shows = |count: &str| page.get().expect("text").ends_with(count.as_bytes());
        assert!(shows("visits_total 0\n"));
        counter.inc();
        tokio::time::sleep(MAX_AGE.mul_f64(0.9)).await;
        assert!(shows("visits_total 0\n"));
        tokio::time::sleep(MAX_AGE.mul_f64(0.1)).await;
        assert!(shows("visits_total 1\n"));
    }
}
