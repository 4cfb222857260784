//! `EventRecorder`: publishes Kubernetes Events without delaying or failing the caller.
//!
//! A pure table (`series`) aggregates repeats of one event and limits how many are sent for each
//! object. One task sends them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use k8s_openapi::{api::core::v1::ObjectReference, jiff::Timestamp};
use kube::Client;
use tokio::sync::mpsc;
use windlass_informer::wall_clock;

pub use self::publisher::EventPublisher;

mod publisher;
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

#[derive(Debug)]
struct QueuedEvent {
    regarding: ObjectReference,
    event: ObjectEvent,
    time: Timestamp,
}

/// The most events that wait.
const QUEUE: usize = 1024;

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
        let publisher = EventPublisher::new(
            client,
            controller.into(),
            instance.into(),
            queue,
            Arc::clone(&dropped),
        );
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
