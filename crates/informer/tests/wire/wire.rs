//! An informer with a scripted server.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_informer::{Event, Informer, InformerError, ListWatch, Subscription};

use crate::server::{Answer, Server};

/// A list and watch of the server's config maps, with a seed.
pub(crate) fn source(server: &Server) -> ListWatch<ConfigMap> {
    let api = Api::default_namespaced(Client::new(server.clone(), "default"));
    ListWatch::new(api).seed(7)
}

/// An informer that runs against a scripted server.
pub(crate) struct Wire {
    pub(crate) server: Server,
    pub(crate) informer: Informer<ConfigMap>,
    events: Subscription<ConfigMap>,
    _running: AbortOnDropHandle<Result<(), InformerError>>,
}

// === impl Wire ===

impl Wire {
    pub(crate) fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let server = Server::new(answers);
        Self::of(Client::new(server.clone(), "default"), server)
    }

    /// As `start`, without streamed lists.
    pub(crate) fn pages(answers: impl IntoIterator<Item = Answer>) -> Self {
        let server = Server::new(answers);
        let api = Api::default_namespaced(Client::new(server.clone(), "default"));
        Self::run(ListWatch::new(api).seed(7).streamed_lists(false), server)
    }

    pub(crate) fn of(client: Client, server: Server) -> Self {
        Self::run(
            ListWatch::new(Api::default_namespaced(client)).seed(7),
            server,
        )
    }

    pub(crate) fn run(source: ListWatch<ConfigMap>, server: Server) -> Self {
        Self::follow(Informer::new(source), server)
    }

    pub(crate) fn follow(informer: Informer<ConfigMap>, server: Server) -> Self {
        let events = informer.subscribe();
        let running = tokio::spawn({
            let informer = informer.clone();
            async move { informer.run(CancellationToken::new()).await }
        });
        Self {
            server,
            informer,
            events,
            _running: AbortOnDropHandle::new(running),
        }
    }

    pub(crate) async fn next(&mut self) -> Event<ConfigMap> {
        let event = within_a_day(self.events.next()).await;
        event.expect("the informer runs")
    }

    /// The next events, in words.
    pub(crate) async fn receive(&mut self, count: usize) -> Vec<String> {
        let mut received = Vec::new();
        while received.len() < count {
            received.push(match self.next().await {
                Event::Added(object) => format!("added {}", object.name_any()),
                Event::Updated { new, .. } => format!("updated {}", new.name_any()),
                Event::Deleted {
                    last,
                    missed: false,
                } => format!("deleted {}", last.name_any()),
                Event::Deleted { last, .. } => format!("missed {}", last.name_any()),
                Event::Resynced(object) => format!("resynced {}", object.name_any()),
                _ => "synced".to_owned(),
            });
        }
        received
    }

    /// Waits for the event that is `last` in words.
    pub(crate) async fn until(&mut self, last: &str) {
        // A source that repeats its events would continue forever.
        const LIMIT: usize = 10_000;
        for _ in 0..LIMIT {
            if self.receive(1).await == [last] {
                return;
            }
        }
        panic!("{LIMIT} events without {last:?}");
    }

    /// Waits until `seconds` after the first request, and returns how many requests were sent by then.
    pub(crate) async fn requests_within(&self, seconds: u64) -> usize {
        let began = self
            .server
            .requests()
            .first()
            .map_or_else(Instant::now, |first| first.0);
        let end = began + Duration::from_secs(seconds);
        tokio::time::sleep_until(end).await;
        let requests = self.server.requests();
        requests.iter().filter(|(at, _)| *at < end).count()
    }

    /// Waits until this number of requests was sent.
    pub(crate) async fn requests(&self, count: usize) {
        within_a_day(self.server.received(count)).await;
    }

    /// The path and query of a request.
    pub(crate) fn asked(&self, index: usize) -> String {
        self.server.requests()[index].1.clone()
    }

    /// The times between the requests.
    pub(crate) fn waits(&self) -> Vec<Duration> {
        let requests = self.server.requests();
        requests.windows(2).map(|two| two[1].0 - two[0].0).collect()
    }
}

/// Time is paused, and so a day is nothing; but a test that waits for what never comes must
/// end.
pub(crate) async fn within_a_day<T>(waiting: impl Future<Output = T>) -> T {
    let day = Duration::from_secs(24 * 3600);
    let waited = tokio::time::timeout(day, waiting).await;
    waited.expect("what the test waits for does not come")
}
