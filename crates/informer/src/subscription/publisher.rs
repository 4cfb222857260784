//! Delivers events to all subscriptions of a running informer.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::timeout,
};

use super::{EventEnvelope, NewSubscribers, reader::Reader};
use crate::{HistoryWentBack, ObjectKey};

/// The sending end of one subscription.
pub(crate) struct Subscriber<K> {
    events: mpsc::Sender<EventEnvelope<K>>,
    reader: Arc<Reader>,
    /// Whether the subscription was dropped, or lags.
    closed: bool,
}

/// The subscribers of a running informer. Dropping it ends the subscriptions.
pub(crate) struct Publisher<K> {
    subscribers: Vec<Subscriber<K>>,
    /// Where new subscriptions come from, and what is known of all.
    new: Arc<NewSubscribers<K>>,
}

/// How long an unread subscription may delay the watch before it is reported: much longer than a
/// reader needs for one event, and short enough to be noticed.
const UNREAD_AFTER: Duration = Duration::from_secs(30);

/// How long a subscription that may lag delays the watch while it starts anew.
const LAGS_AFTER: Duration = Duration::from_secs(1);

// === impl Subscriber ===

impl<K> Subscriber<K> {
    pub(super) fn new(events: mpsc::Sender<EventEnvelope<K>>, reader: Arc<Reader>) -> Self {
        Self {
            events,
            reader,
            closed: false,
        }
    }

    /// Whether the subscription was dropped, or lags.
    pub(super) fn is_closed(&self) -> bool {
        self.closed || self.events.is_closed()
    }

    /// Waits for capacity, and delivers `envelope`. Does nothing if the subscription was dropped, and
    /// drops the event if it may lag and is full.
    async fn deliver(&mut self, envelope: EventEnvelope<K>, informer: &NewSubscribers<K>) {
        if self.closed {
            return;
        }
        match self.events.try_send(envelope) {
            Ok(()) => {}
            Err(TrySendError::Closed(_)) => self.closed = true,
            Err(TrySendError::Full(_)) if self.reader.may_lag() => self.lag(),
            Err(TrySendError::Full(envelope)) => {
                let sent = wait(&self.reader, informer, self.events.send(envelope)).await;
                self.closed = sent.is_err();
            }
        }
    }

    /// Ends this channel, so that the subscription starts anew when it has taken its events.
    fn lag(&mut self) {
        self.reader.lag();
        self.closed = true;
    }

    /// Tells the subscription that the history of the server went back.
    pub(crate) fn history_went_back(&self, why: &HistoryWentBack) {
        // The first time is enough: what the subscriber remembers is obsolete.
        _ = self.reader.went_back.set(why.clone());
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
    pub(crate) async fn deliver_batch(
        &mut self,
        batch: &mut Vec<EventEnvelope<K>>,
        informer: &NewSubscribers<K>,
    ) {
        let batch = batch.drain(..);
        if self.closed {
            return;
        }
        let reserve = self.events.reserve_many(batch.len());
        let reserved = if self.reader.may_lag() {
            timeout(LAGS_AFTER, reserve).await.ok()
        } else {
            Some(wait(&self.reader, informer, reserve).await)
        };
        self.closed = match reserved {
            Some(Ok(permits)) => {
                permits.zip(batch).for_each(|(permit, envelope)| {
                    let span = envelope.span.clone();
                    span.in_scope(|| permit.send(envelope));
                });
                false
            }
            Some(Err(_)) => true,
            None => {
                self.reader.lag();
                true
            }
        };
    }
}

// === impl Publisher ===

impl<K> Publisher<K> {
    pub(crate) const fn new(new: Arc<NewSubscribers<K>>) -> Self {
        Self {
            subscribers: Vec::new(),
            new,
        }
    }

    /// Adds `subscriber`, which receives all events from now on. Drops those that have closed since the
    /// last event.
    pub(crate) fn admit(&mut self, subscriber: Subscriber<K>) {
        self.subscribers
            .retain(|subscriber| !subscriber.is_closed());
        if !subscriber.reader.requested_keys.is_empty() {
            // It requested resyncs before it was added, and that notification was consumed.
            self.new.requested().notify_one();
        }
        if !subscriber.closed {
            self.subscribers.push(subscriber);
        }
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
                subscriber.deliver(envelope.clone(), &self.new).await;
            }
            last.deliver(envelope, &self.new).await;
        }
        self.subscribers.retain(|subscriber| !subscriber.closed);
    }

    /// Waits until a subscription may have requested a resync.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time.
    pub(crate) async fn requested(&self) {
        self.new.requested().notified().await;
    }

    /// Delivers one requested object to each subscriber that has requests. `current` returns its
    /// envelope. Further requests wait for the next call.
    pub(crate) async fn deliver_requested(
        &mut self,
        current: impl Fn(&ObjectKey) -> Option<EventEnvelope<K>>,
    ) {
        let mut more = false;
        for subscriber in &mut self.subscribers {
            let mut keys = std::iter::from_fn(|| subscriber.reader.requested_keys.pop());
            if let Some(envelope) = keys.find_map(|key| current(&key)) {
                let span = envelope.span.clone();
                let delivered = pin!(subscriber.deliver(envelope, &self.new));
                span.within(delivered).await;
            }
            more |= !subscriber.reader.requested_keys.is_empty();
        }
        self.subscribers.retain(|subscriber| !subscriber.closed);
        if more {
            self.new.requested().notify_one();
        }
    }
}

/// Waits until `reader` has taken events, and reports it if that takes long.
async fn wait<K, T>(
    reader: &Reader,
    informer: &NewSubscribers<K>,
    taken: impl Future<Output = T>,
) -> T {
    let mut taken = pin!(taken);
    if let Ok(taken) = timeout(UNREAD_AFTER, &mut taken).await {
        return taken;
    }
    informer.note_unread(&reader.name, UNREAD_AFTER);
    let taken = taken.await;
    informer.note_read();
    taken
}
