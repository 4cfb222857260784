//! Bounded, ordered event subscriptions; a late subscriber receives a replay of the store.

// What a subscription delivers.
mod envelope;

// How a new subscription reaches the informer, and how events reach the subscription.
mod count;
mod new_subscribers;
mod publisher;
mod reader;

// How a subscriber requests a resync.
mod resync_handle;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Weak, atomic::Ordering},
    task::{Context, Poll, ready},
};

use futures::{Stream, future};
use tokio::sync::mpsc;

pub(crate) use self::{
    count::SubscriberCount,
    new_subscribers::NewSubscribers,
    publisher::{Publisher, Subscriber},
};
use self::{count::SubscriberToken, reader::Reader};
pub use self::{envelope::EventEnvelope, resync_handle::ResyncHandle};
use crate::{Event, HistoryWentBack};

/// A bounded stream of the events of one informer.
///
/// # Contract
///
/// *Guaranteed.* What [`Event`] guarantees. A late subscriber receives an [`Added`](Event::Added)
/// for each object of the store, then [`Synced`](Event::Synced), then new events.
///
/// A subscription belongs to one run of the informer: the current one, or else the next. It ends
/// when the last caller of [`Informer::run`](crate::Informer::run) has left or the informer has
/// failed. So call `run` first and [`subscribe`](crate::Informer::subscribe) then: a call of `run`
/// keeps the informer running from the moment of the call, and no other caller can end the
/// subscription by leaving.
///
/// *Required.* Take the events or drop the subscription: while a subscription is full, the watch
/// waits, and with it all other subscriptions. After 30 s the log and the
/// [health](crate::Health::unread) of the informer name the line of the program that subscribed. A
/// subscription that [may lag](Self::may_lag) never delays a change.
pub struct Subscription<K> {
    _counted: SubscriberToken,
    events: mpsc::Receiver<EventEnvelope<K>>,
    has_synced: bool,
    reader: Arc<Reader>,
    /// Not counted, because it holds the sender of a subscription that the informer has not taken.
    informer: Weak<NewSubscribers<K>>,
}

// === impl Subscription ===

impl<K> Subscription<K> {
    /// Returns the next event, or `None` after the last event of a stopped informer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready takes nothing.
    pub async fn next(&mut self) -> Option<Event<K>> {
        self.next_envelope().await.map(|envelope| envelope.event)
    }

    /// Returns the next event with its key and its span, or `None` after the last event of a stopped
    /// informer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready takes nothing.
    pub async fn next_envelope(&mut self) -> Option<EventEnvelope<K>> {
        future::poll_fn(|context| self.poll_envelope(context)).await
    }

    /// Waits for an event, and then appends all waiting events to `into`, at most `most`. Returns
    /// their number: 0 if `most` is 0, or after the last event of a stopped informer.
    ///
    /// A batch costs little more than one event.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready takes nothing.
    #[doc(hidden)]
    pub async fn next_envelopes(&mut self, into: &mut Vec<EventEnvelope<K>>, most: usize) -> usize {
        let mut taken = self.events.recv_many(into, most).await;
        while taken == 0 && most > 0 && self.start_anew() {
            taken = self.events.recv_many(into, most).await;
        }
        let batch = &into[into.len() - taken..];
        if batch
            .iter()
            .any(|envelope| matches!(envelope.event, Event::Synced))
        {
            self.has_synced = true;
        }
        taken
    }

    /// Whether [`Synced`](Event::Synced) has been taken from this subscription.
    #[must_use]
    pub const fn has_synced(&self) -> bool {
        self.has_synced
    }

    /// Lets this subscription lag instead of delaying the watch. When it is full, further events are
    /// dropped; when the events that it holds have been taken, it starts anew, as a new subscription
    /// does: with an [`Added`](Event::Added) for each object of the store, and then
    /// [`Synced`](Event::Synced). What happened in between is not reported: neither updates nor
    /// deletes. [`lags`](Self::lags) says that it did. While it starts anew, the watch waits for it, at
    /// most a second for each batch of objects.
    ///
    /// Use it for readers that only show objects. A controller has no such setting: it would lose
    /// deletes.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass_informer::{Informer, Scripted};
    ///
    /// let (_script, source) = Scripted::<ConfigMap>::new();
    /// let dashboard = Informer::new(source).subscribe().may_lag();
    /// assert_eq!(dashboard.lags(), 0);
    /// ```
    #[must_use]
    pub fn may_lag(self) -> Self {
        self.reader.may_lag.store(true, Ordering::Release);
        self
    }

    /// How often this subscription has lagged and started anew. It changes before the first `Added` of
    /// the new start can be taken.
    #[must_use]
    pub fn lags(&self) -> u64 {
        self.reader.lags()
    }

    /// Waits until the history of the API server has gone back since the first event of this
    /// subscription. It resolves before the first event of the new history can be taken.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time.
    pub fn history_went_back(
        &self,
    ) -> impl Future<Output = HistoryWentBack> + Send + 'static + use<K> {
        let went_back = Arc::clone(&self.reader.went_back);
        async move { went_back.wait().await.clone() }
    }

    /// Returns a handle that requests resyncs of single objects for this subscription.
    #[doc(hidden)]
    #[must_use]
    pub fn resync_handle(&self) -> ResyncHandle {
        ResyncHandle::new(Arc::clone(&self.reader.requested_keys))
    }

    /// Subscribes again, if the last event was taken after an event was dropped. Returns false if the
    /// informer has stopped.
    fn start_anew(&mut self) -> bool {
        if !self.reader.take_lag() {
            return false;
        }
        let informer = self.informer.upgrade();
        let again = informer.and_then(|it| it.add_again(&self.reader, self.events.max_capacity()));
        let is_again = again.is_some();
        self.events = again.unwrap_or_else(|| mpsc::channel(1).1);
        is_again
    }

    fn poll_envelope(&mut self, context: &mut Context<'_>) -> Poll<Option<EventEnvelope<K>>> {
        let envelope = loop {
            let envelope = ready!(self.events.poll_recv(context));
            if envelope.is_some() || !self.start_anew() {
                break envelope;
            }
        };
        if matches!(&envelope, Some(envelope) if matches!(envelope.event, Event::Synced)) {
            self.has_synced = true;
        }
        Poll::Ready(envelope)
    }
}

impl<K> Stream for Subscription<K> {
    type Item = Event<K>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let envelope = ready!(self.get_mut().poll_envelope(context));
        Poll::Ready(envelope.map(|envelope| envelope.event))
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("has_synced", &self.has_synced())
            .finish_non_exhaustive()
    }
}
