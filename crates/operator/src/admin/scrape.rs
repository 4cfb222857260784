//! The page of metrics, rendered at most once a second for all clients.
//!
//! Collectors are user code and may block. They run on a thread of their own, so that a collector
//! that blocks delays no probe.

use std::{
    future,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use http::HeaderMap;
use prometheus::{Encoder as _, Registry, TextEncoder};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout},
};
use windlass_controller::is_time_simulated;
use windlass_informer::panic_message;

use super::{
    authorize::Authorizer,
    page::{self, Answer},
};

/// The highest age of a rendered page. Prometheus scrapes less often, every 15 s or more; a client
/// that sends requests without a pause causes one rendering per second.
const MAX_AGE: Duration = Duration::from_secs(1);

/// How long a response waits for the collectors. The scrape timeout of Prometheus is 10 s by default.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The metrics of a registry as text.
pub(super) struct MetricsPage {
    registry: Registry,
    authorizer: Option<Authorizer>,
    /// The last rendering, which may still run, and the time at which it began.
    last: Mutex<Option<(Instant, Rendering)>>,
}

/// A page, or the reason why there is none.
type Rendered = Result<Bytes, String>;

type Rendering = Shared<BoxFuture<'static, Rendered>>;

// === impl MetricsPage ===

impl MetricsPage {
    pub(super) fn new(registry: Registry, authorizer: Option<Authorizer>) -> Self {
        Self {
            registry,
            authorizer,
            last: Mutex::default(),
        }
    }

    /// The response to a request of `client` with these headers.
    pub(super) async fn answer(&self, headers: &HeaderMap, client: IpAddr) -> Answer {
        if let Some(authorizer) = &self.authorizer
            && let Err((status, text)) = authorizer.check(headers, client, "/metrics").await
        {
            return page::text(status, text.to_owned());
        }
        page::metrics(self.get().await)
    }

    /// The page, at most a second old.
    async fn get(&self) -> Rendered {
        let rendering = self.rendering();
        let late = || {
            let seconds = MAX_WAIT.as_secs();
            format!("the collectors did not return within {seconds} s")
        };
        (timeout(MAX_WAIT, rendering).await).unwrap_or_else(|_| Err(late()))
    }

    /// The last rendering if it still runs or is new enough, otherwise another one.
    fn rendering(&self) -> Rendering {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((began, rendering)) = &*last
            && (rendering.peek().is_none() || began.elapsed() < MAX_AGE)
        {
            return rendering.clone();
        }
        let registry = self.registry.clone();
        let rendering = if is_time_simulated() {
            // Another thread would be outside of the simulation.
            future::ready(render(&registry)).boxed()
        } else {
            let task = spawn_blocking(move || render(&registry));
            let ended = |ended: Result<Rendered, tokio::task::JoinError>| {
                ended.unwrap_or_else(|error| {
                    let panic = error.try_into_panic();
                    let panic = panic.map_or_else(|error| error.to_string(), panic_message);
                    Err(format!("a collector panicked: {panic}"))
                })
            };
            task.map(ended).boxed()
        };
        let rendering = rendering.shared();
        *last = Some((Instant::now(), rendering.clone()));
        rendering
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
