//! `EventRecorder`: publishes Kubernetes Events without delaying or failing the caller.
//!
//! A pure table (`series`) aggregates repeats of one event and limits how many are sent for each
//! object. One task sends them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp,
};
use kube::Client;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;
use windlass_informer::{
    ErrorChain,
    api_request::{self, RequestError, ResponseLimits},
    log, wall_clock,
};

use self::series::{Publication, SeriesKey, SeriesTable};
use crate::finalizer::kube_error;

mod series;

/// A Kubernetes Event about an object, for people: `kubectl describe` shows it.
///
/// # Example
///
/// ```
/// use windlass_controller::ObjectEvent;
///
/// let event = ObjectEvent::warning("SecretMissing", "the Secret password does not exist")
///     .action("ReadPassword");
/// # drop(event);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an event is not published before it is recorded"]
pub struct ObjectEvent {
    type_: &'static str,
    reason: String,
    action: String,
    note: String,
    related: Option<ObjectReference>,
}

/// Publishes Kubernetes Events. Clones share one queue.
///
/// # Contract
///
/// *Guaranteed.* [`record`](Self::record) returns at once and never fails. Repeats of an event (same
/// object, type, reason, action and related object) become one Event with a count. For each object
/// 25 Events and then one in 5 minutes are sent. A note is cut to 1,024 bytes.
///
/// *Not guaranteed.* That an event is published: if more than 1,024 wait, or the API server refuses
/// them, events are dropped, which is logged. The count of an Event lags while the object is over
/// its limit.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<QueuedEvent>,
    dropped: Arc<AtomicU64>,
}

/// Sends the events of an [`EventRecorder`].
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

#[derive(Debug)]
struct QueuedEvent {
    regarding: ObjectReference,
    event: ObjectEvent,
    time: Timestamp,
}

/// The most events that wait.
const QUEUE: usize = 1024;

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

// === impl ObjectEvent ===

impl ObjectEvent {
    /// Something happened as expected. `reason` is a word in upper camel case, for machines; `note`
    /// is a sentence.
    pub fn normal(reason: impl Into<String>, note: impl Into<String>) -> Self {
        Self::new("Normal", reason, note)
    }

    /// Something failed or needs attention.
    pub fn warning(reason: impl Into<String>, note: impl Into<String>) -> Self {
        Self::new("Warning", reason, note)
    }

    fn new(type_: &'static str, reason: impl Into<String>, note: impl Into<String>) -> Self {
        Self {
            type_,
            reason: reason.into(),
            action: "Reconcile".to_owned(),
            note: note.into(),
            related: None,
        }
    }

    /// Sets what the controller did: a word in upper camel case. By default `Reconcile`.
    pub fn action(self, action: impl Into<String>) -> Self {
        Self {
            action: action.into(),
            ..self
        }
    }

    /// Sets another object that is part of what happened.
    pub fn related(self, related: ObjectReference) -> Self {
        Self {
            related: Some(related),
            ..self
        }
    }
}

// === impl EventRecorder ===

impl EventRecorder {
    /// Creates a recorder, and the publisher that sends its events through `client` when it runs.
    /// With a fenced client, no event is sent after the lease has ended. `controller` is the name of
    /// the controller, and `instance` that of this process.
    pub fn new(
        client: Client,
        controller: impl Into<String>,
        instance: impl Into<String>,
    ) -> (Self, EventPublisher) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let publisher = EventPublisher {
            client,
            controller: controller.into(),
            instance: instance.into(),
            queue,
            dropped: Arc::clone(&dropped),
            series: SeriesTable::new(),
        };
        let recorder = Self {
            queue: sender,
            dropped,
        };
        (recorder, publisher)
    }

    /// Queues an event about the object `regarding`. If the queue is full, the event is dropped.
    pub fn record(&self, regarding: ObjectReference, event: ObjectEvent) {
        let queued = QueuedEvent {
            regarding,
            event,
            time: Timestamp::try_from(wall_clock()).unwrap_or_default(),
        };
        if self.queue.try_send(queued).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// === impl EventPublisher ===

impl EventPublisher {
    /// Sends events until `stop` is cancelled or all recorders are dropped, and then those that wait,
    /// for at most one second.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                next = self.queue.recv() => next,
            };
            let Some(event) = next else {
                break;
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => {
                    // It may have been sent.
                    break;
                }
                () = self.publish_queued(event) => {}
            }
        }
        self.queue.close();
        _ = tokio::time::timeout(FLUSH, self.flush()).await;
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
        let published = self.try_publish(&publication).await;
        match published {
            Ok(count) => self.series.sent(&publication, count),
            Err(error) => log::warn!(
                component = "EventRecorder",
                reason = publication.key.reason,
                error = %ErrorChain::new(&kube_error(error)),
                "could not publish an Event"
            ),
        }
    }

    /// Returns the count of the Event, which includes those of earlier processes.
    async fn try_publish(&self, publication: &Publication) -> Result<u64, RequestError> {
        let key = &publication.key;
        // Events about objects without a namespace are in this one.
        let namespace = key.regarding.namespace.as_deref().unwrap_or("default");
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let name = self.name(key);
        let mut count = publication.count;
        if count == 1 || !publication.is_created {
            let body = self.body(publication, namespace, &name);
            match self
                .send(http::Request::post(&path), "application/json", &body)
                .await
            {
                Err(RequestError::Status(status)) if status.code == 409 => {
                    // An earlier process has created it.
                    let known = self.read_count(&format!("{path}/{name}")).await?;
                    count = count.saturating_add(known);
                }
                sent => return sent.map(|_| count),
            }
        }
        let body = json!({ "series": series(count, publication.last) });
        let request = http::Request::patch(format!("{path}/{name}"));
        match self
            .send(request, "application/merge-patch+json", &body)
            .await
        {
            // The API server has dropped it: Events live for one hour by default.
            Err(RequestError::Status(status)) if status.code == 404 => {
                let body = self.body(publication, namespace, &name);
                let request = http::Request::post(&path);
                self.send(request, "application/json", &body)
                    .await
                    .map(|_| count)
            }
            sent => sent.map(|_| count),
        }
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
        if publication.count > 1 {
            body["series"] = series(publication.count, publication.last);
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

    /// The count of an Event that exists.
    async fn read_count(&self, path: &str) -> Result<u64, RequestError> {
        let body = self.send(http::Request::get(path), "application/json", &Value::Null);
        let event: Value = api_request::decode(&body.await?).unwrap_or_default();
        Ok(event["series"]["count"].as_u64().unwrap_or(1))
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

/// The longest part of `text` with at most `bytes` bytes, cut at a character.
fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_cut_at_a_character() {
        assert_eq!(cut("abc", 7), "abc");
        assert_eq!(cut("abc", 2), "ab");
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("éé", 3), "é");
        assert_eq!(cut("é", 0), "");
    }
}
