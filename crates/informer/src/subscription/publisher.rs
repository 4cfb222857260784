//! Delivers events to all subscriptions of a running informer.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tracing::Instrument as _;

use super::{EventEnvelope, resync_handle::RequestedKeys};
use crate::{HistoryWentBack, ObjectKey, history::HistorySignal};

/// The sending end of one subscription.
pub(crate) struct Subscriber<K> {
    events: mpsc::Sender<EventEnvelope<K>>,
    requested_keys: Arc<RequestedKeys>,
    history: HistorySignal,
    /// Whether the subscription was dropped.
    closed: bool,
}

/// The subscribers of a running informer. Dropping it ends the subscriptions.
pub(crate) struct Publisher<K> {
    subscribers: Vec<Subscriber<K>>,
    /// Notified when a subscription requests a resync.
    requested: Arc<Notify>,
}

// === impl Subscriber ===

impl<K> Subscriber<K> {
    pub(super) fn new(
        events: mpsc::Sender<EventEnvelope<K>>,
        requested_keys: Arc<RequestedKeys>,
        history: HistorySignal,
    ) -> Self {
        Self {
            events,
            requested_keys,
            history,
            closed: false,
        }
    }

    /// Waits for capacity, and delivers `envelope`. Does nothing if the subscription was dropped.
    async fn deliver(&mut self, envelope: EventEnvelope<K>) {
        if !self.closed {
            self.closed = self.events.send(envelope).await.is_err();
        }
    }

    /// Tells the subscription that the history of the server went back.
    pub(crate) fn history_went_back(&self, why: &HistoryWentBack) {
        self.history.set(why);
    }

    /// How many events to deliver at once: at most half of the buffer, so that the subscriber can
    /// take one half while the other is filled.
    pub(crate) fn batch_size(&self) -> usize {
        /// Enough that the fixed cost of a batch does not matter.
        const MAX_BATCH: usize = 64;
        (self.events.max_capacity() / 2).clamp(1, MAX_BATCH)
    }

    /// Waits for capacity for a [batch](Self::batch_size), and delivers the events, each in its
    /// span. Does nothing if the subscription was dropped.
    pub(crate) async fn deliver_batch(&mut self, batch: &mut Vec<EventEnvelope<K>>) {
        let batch = batch.drain(..);
        if self.closed {
            return;
        }
        match self.events.reserve_many(batch.len()).await {
            Ok(permits) => permits.zip(batch).for_each(|(permit, envelope)| {
                let span = envelope.span.clone();
                span.in_scope(|| permit.send(envelope));
            }),
            Err(_) => self.closed = true,
        }
    }
}

// === impl Publisher ===

impl<K> Publisher<K> {
    pub(crate) fn new(requested: Arc<Notify>) -> Self {
        Self {
            subscribers: Vec::new(),
            requested,
        }
    }

    /// Adds `subscriber`, which receives all events from now on.
    pub(crate) fn admit(&mut self, subscriber: Subscriber<K>) {
        if !subscriber.requested_keys.is_empty() {
            // It requested resyncs before it was added, and that notification was consumed.
            self.requested.notify_one();
        }
        self.subscribers.push(subscriber);
    }

    /// Tells each subscription that the history of the server went back.
    pub(crate) fn history_went_back(&self, why: &HistoryWentBack) {
        for subscriber in &self.subscribers {
            subscriber.history_went_back(why);
        }
    }

    /// Waits for capacity in each subscription, one after the other, and delivers `envelope`.
    pub(crate) async fn publish(&mut self, envelope: EventEnvelope<K>) {
        // The last subscriber gets the event itself, so that nothing is cloned for a single
        // subscriber.
        if let Some((last, others)) = self.subscribers.split_last_mut() {
            for subscriber in others {
                subscriber.deliver(envelope.clone()).await;
            }
            last.deliver(envelope).await;
        }
        self.subscribers.retain(|subscriber| !subscriber.closed);
    }

    /// Waits until a subscription may have requested a resync.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time.
    pub(crate) async fn requested(&self) {
        self.requested.notified().await;
    }

    /// Delivers one requested object to each subscriber that has requests. `current` returns its
    /// envelope. Further requests wait for the next call.
    pub(crate) async fn deliver_requested(
        &mut self,
        current: impl Fn(&ObjectKey) -> Option<EventEnvelope<K>>,
    ) {
        let mut more = false;
        for subscriber in &mut self.subscribers {
            let mut keys = std::iter::from_fn(|| subscriber.requested_keys.pop());
            if let Some(envelope) = keys.find_map(|key| current(&key)) {
                let span = envelope.span.clone();
                subscriber.deliver(envelope).instrument(span).await;
            }
            more |= !subscriber.requested_keys.is_empty();
        }
        self.subscribers.retain(|subscriber| !subscriber.closed);
        if more {
            self.requested.notify_one();
        }
    }
}
