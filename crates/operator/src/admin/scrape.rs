//! The page of metrics, rendered at most once a second for all clients.
//!
//! Collectors are user code and may block. They run on a thread of their own, so that a collector
//! that blocks delays no probe.

use std::{net::IpAddr, time::Duration};

use bytes::Bytes;
use http::Request;
use prometheus::{Encoder as _, Registry, TextEncoder};

use super::{
    authorize::Authorizer,
    page::{self, Answer},
};
use crate::blocking_call::BlockingCall;

/// The highest age of a rendered page. Prometheus scrapes less often, every 15 s or more; a client
/// that sends requests without a pause causes one rendering per second.
const MAX_AGE: Duration = Duration::from_secs(1);

/// How long a response waits for the collectors. The scrape timeout of Prometheus is 10 s by default.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The metrics of a registry as text.
pub(super) struct MetricsPage {
    registry: Registry,
    authorizer: Option<Authorizer>,
    rendering: BlockingCall<Rendered>,
}

/// A page, or the reason why there is none.
type Rendered = Result<Bytes, String>;

// === impl MetricsPage ===

impl MetricsPage {
    pub(super) fn new(registry: Registry, authorizer: Option<Authorizer>) -> Self {
        Self {
            registry,
            authorizer,
            rendering: BlockingCall::new(MAX_AGE),
        }
    }

    pub(super) const fn is_authorized(&self) -> bool {
        self.authorizer.is_some()
    }

    /// The response to a request of `client`.
    pub(super) async fn answer<B>(&self, request: &Request<B>, client: IpAddr) -> Answer {
        match self.refusal(request, client).await {
            Some(refusal) => refusal,
            None => page::metrics(self.get().await),
        }
    }

    /// The response to a request that the API server does not allow.
    pub(super) async fn refusal<B>(&self, request: &Request<B>, client: IpAddr) -> Option<Answer> {
        let checked = self.authorizer.as_ref()?.check(request, client).await;
        let (status, text) = checked.err()?;
        Some(page::text(status, text.to_owned()))
    }

    /// The page, at most a second old.
    async fn get(&self) -> Rendered {
        let registry = self.registry.clone();
        let rendered = self
            .rendering
            .get(MAX_WAIT, move || render(&registry))
            .await;
        match rendered {
            Some(Ok(rendered)) => rendered,
            Some(Err(panic)) => Err(format!("a collector panicked: {panic}")),
            None => {
                let seconds = MAX_WAIT.as_secs();
                Err(format!("the collectors did not return within {seconds} s"))
            }
        }
    }
}

fn render(registry: &Registry) -> Rendered {
    let mut page = Vec::new();
    TextEncoder::new()
        .encode(&registry.gather(), &mut page)
        .map_err(|error| format!("cannot encode the metrics: {error}"))?;
    Ok(Bytes::from(page))
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
        let shows = async |count: &str| {
            let page = page.get().await.expect("text");
            page.ends_with(count.as_bytes())
        };
        assert!(shows("visits_total 0\n").await);
        counter.inc();
        tokio::time::sleep(MAX_AGE.mul_f64(0.9)).await;
        assert!(shows("visits_total 0\n").await);
        tokio::time::sleep(MAX_AGE.mul_f64(0.1)).await;
        assert!(shows("visits_total 1\n").await);
    }
}
