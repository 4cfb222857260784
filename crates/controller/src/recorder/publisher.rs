//! `EventPublisher`: the task that sends the Events of a recorder.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{
    api::events::v1::Event, apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp,
};
use kube::Client;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;
use windlass_informer::{
    ErrorChain,
    api_request::{self, RequestError, ResponseLimits},
    log,
};

use super::{
    QueuedEvent, cut,
    series::{Publication, SeriesKey, SeriesTable},
};
use crate::finalizer::kube_error;

/// Sends the events of an [`EventRecorder`](crate::EventRecorder).
#[must_use = "events are not sent unless it runs"]
pub struct EventPublisher {
    client: Client,
    /// The name of the controller.
    controller: String,
    /// The name of this process, for example of its Pod.
    instance: String,
    queue: mpsc::Receiver<QueuedEvent>,
    dropped: Arc<AtomicU64>,
    series: SeriesTable,
}

/// The time for which waiting events are sent after the stop.
const FLUSH: Duration = Duration::from_secs(1);

/// The longest note, in bytes. The API server refuses a longer one.
const MAX_NOTE: usize = 1024;

/// The longest reason and action, in characters.
const MAX_WORD: usize = 128;

const LIMITS: ResponseLimits = ResponseLimits {
    time: Duration::from_secs(10),
    bytes: 1024 * 1024,
};

// === impl EventPublisher ===

impl EventPublisher {
    pub(super) fn new(
        client: Client,
        controller: String,
        instance: String,
        queue: mpsc::Receiver<QueuedEvent>,
        dropped: Arc<AtomicU64>,
    ) -> Self {
        Self {
            client,
            controller,
            instance,
            queue,
            dropped,
            series: SeriesTable::new(),
        }
    }

    /// The same publisher, which sends through `client`.
    pub(crate) fn through(self, client: Client) -> Self {
        Self { client, ..self }
    }

    /// Sends events until `stop` is cancelled or all recorders are dropped, and then those that wait,
    /// for at most one second.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut end = None;
        loop {
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                next = self.queue.recv() => next,
            };
            let Some(event) = next else {
                break;
            };
            let mut publishing = pin!(self.publish_queued(event));
            let is_stopped = tokio::select! {
                biased;
                () = stop.cancelled() => true,
                () = &mut publishing => false,
            };
            if is_stopped {
                let until = Instant::now() + FLUSH;
                // Not dropped: the API server could process it after a later count.
                if timeout_at(until, publishing).await.is_err() {
                    return;
                }
                end = Some(until);
                break;
            }
        }
        self.queue.close();
        let end = end.unwrap_or_else(|| Instant::now() + FLUSH);
        _ = timeout_at(end, self.flush()).await;
    }

    /// Sends all waiting events, and the counts that were not sent.
    async fn flush(&mut self) {
        while let Some(event) = self.queue.recv().await {
            self.publish_queued(event).await;
        }
        for publication in self.series.unsent() {
            self.publish(publication).await;
        }
    }

    async fn publish_queued(&mut self, queued: QueuedEvent) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            log::warn!(
                component = "EventRecorder",
                dropped,
                "too many Events wait, dropping some"
            );
        }
        let key = SeriesKey::new(queued.regarding, &queued.event, MAX_WORD);
        let note = cut(&queued.event.note, MAX_NOTE).to_owned();
        let publication = self.series.add(key, note, queued.time, Instant::now());
        if let Some(publication) = publication {
            self.publish(publication).await;
        }
    }

    /// Creates the Event, or updates its count.
    async fn publish(&mut self, publication: Publication) {
        match self.try_publish(&publication).await {
            Ok(()) => self.series.sent(&publication),
            Err(error) => log::warn!(
                component = "EventRecorder",
                reason = publication.key.reason,
                error = %ErrorChain::new(&kube_error(error)),
                "could not publish an Event"
            ),
        }
    }

    /// Sends the number of all events of the series, those of earlier processes included. Repeating it
    /// after an unknown result counts no event twice.
    async fn try_publish(&mut self, publication: &Publication) -> Result<(), RequestError> {
        let mut publication = publication.clone();
        let key = &publication.key;
        // Events about objects without a namespace are in this one.
        let namespace = key.regarding.namespace.as_deref().unwrap_or("default");
        let events = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let name = self.name(key);
        let path = format!("{events}/{name}");
        if publication.earlier.is_none() {
            let body = self.body(&publication, namespace, &name);
            let earlier = match self.create(&events, &body).await {
                Ok(()) => {
                    self.series.began_at(&publication, 0);
                    return Ok(());
                }
                Err(RequestError::Status(status)) if status.code == 409 => {
                    self.earlier_count(&path, publication.first).await?
                }
                Err(error) => return Err(error),
            };
            self.series.began_at(&publication, earlier);
            publication.earlier = Some(earlier);
        }
        let body = json!({ "series": series(publication.total(), publication.last) });
        let request = http::Request::patch(&path);
        let sent = self.send(request, "application/merge-patch+json", &body);
        match sent.await {
            // The API server has dropped it: Events live for one hour by default.
            Err(RequestError::Status(status)) if status.code == 404 => {
                let body = self.body(&publication, namespace, &name);
                self.create(&events, &body).await
            }
            sent => sent.map(drop),
        }
    }

    async fn create(&self, events: &str, body: &Value) -> Result<(), RequestError> {
        let request = http::Request::post(events);
        self.send(request, "application/json", body).await.map(drop)
    }

    fn body(&self, publication: &Publication, namespace: &str, name: &str) -> Value {
        let key = &publication.key;
        let mut body = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": { "namespace": namespace, "name": name },
            "type": key.type_, "reason": key.reason, "action": key.action,
            "note": publication.note,
            "regarding": key.regarding,
            "reportingController": self.controller,
            "reportingInstance": cut(&self.instance, MAX_WORD),
            "eventTime": MicroTime(publication.first),
        });
        if let Some(related) = &key.related {
            body["related"] = serde_json::to_value(related).unwrap_or_default();
        }
        if publication.total() > 1 {
            body["series"] = series(publication.total(), publication.last);
        }
        body
    }

    /// The name of the Event of a series: the same in each process.
    fn name(&self, key: &SeriesKey) -> String {
        let parts = json!([
            key.regarding,
            key.related,
            key.type_,
            key.reason,
            key.action,
            self.controller,
        ]);
        let digest = Sha256::digest(parts.to_string());
        let bytes = digest.first_chunk().copied().unwrap_or_default();
        let digest = format!("{:016x}", u64::from_be_bytes(bytes));
        let object = key.regarding.name.as_deref().unwrap_or("object");
        format!("{}.{digest}", cut(object, 200).to_lowercase())
    }

    /// The count that an existing Event has from earlier processes: zero if this process has created
    /// it, at `first`, and the response was lost.
    async fn earlier_count(&self, path: &str, first: Timestamp) -> Result<u64, RequestError> {
        let body = self.send(http::Request::get(path), "application/json", &Value::Null);
        let event: Event = api_request::decode(&body.await?).unwrap_or_default();
        let is_ours = event
            .event_time
            .is_some_and(|time| time.0.as_microsecond() == first.as_microsecond());
        let counted = event.series.map_or(1, |series| series.count);
        Ok(if is_ours {
            0
        } else {
            u64::try_from(counted).unwrap_or(1)
        })
    }

    async fn send(
        &self,
        request: http::request::Builder,
        content_type: &str,
        body: &Value,
    ) -> Result<bytes::Bytes, RequestError> {
        let body = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let request = request
            .header(http::header::CONTENT_TYPE, content_type)
            .body(body);
        let request = request.map_err(kube::Error::HttpError);
        let request = request.map_err(RequestError::Connection)?;
        api_request::send(&self.client, request, LIMITS).await
    }
}

impl std::fmt::Debug for EventPublisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventPublisher")
            .field("controller", &self.controller)
            .finish_non_exhaustive()
    }
}

fn series(count: u64, last: Timestamp) -> Value {
    // The API server refuses a count below 2, and the field has 32 bits.
    let count = i32::try_from(count).unwrap_or(i32::MAX).max(2);
    json!({ "count": count, "lastObservedTime": MicroTime(last) })
}
