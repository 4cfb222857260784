//! Publishes the events of a running informer: changes, replays and resyncs.

use std::pin::pin;

use tokio::time::Instant;

use super::Run;
use crate::{
    Event, ObjectKey, Store, Stored, informer::Shared, metrics::ChangeType, store::Deltas,
    subscription::EventEnvelope, trace,
};

// === impl Run ===

impl<K: Stored> Run<'_, K> {
    /// Publishes [`Event::Synced`].
    pub(super) async fn publish_synced(&mut self) {
        let synced = EventEnvelope::synced();
        self.publisher.publish(synced).await;
    }

    /// Replays the store to new subscribers, and adds them to the publisher.
    pub(super) async fn replay_to_new(&mut self) {
        let Shared {
            store,
            status,
            resource,
            new_subscribers,
            ..
        } = self.shared;
        for mut subscriber in new_subscribers.take_all() {
            if let Some(went_back) = &self.went_back {
                // It receives objects of both histories.
                subscriber.history_went_back(went_back);
            }
            let synced = status.borrow().synced;
            // Clones of the store's keys, which share their memory.
            let stored = store.entries().into_iter();
            let added = stored.filter_map(|(key, lazy)| {
                let (object, lazy) = lazy.into_decoded()?;
                let event = Event::Added(object);
                let span = trace::event(resource, &event);
                Some(EventEnvelope {
                    from_list: true,
                    ..EventEnvelope::about(key, event, lazy, span)
                })
            });
            let mut all = added.chain(synced.then(EventEnvelope::synced));
            let mut batch = Vec::new();
            loop {
                batch.extend(all.by_ref().take(subscriber.batch_size()));
                if batch.is_empty() {
                    break;
                }
                subscriber.deliver_batch(&mut batch, new_subscribers).await;
            }
            self.publisher.admit(subscriber);
        }
    }

    pub(super) async fn publish_all(&mut self, changed: Deltas<K>, from_list: bool) {
        let shared = self.shared;
        for delta in changed {
            shared.instruments.changed(delta.change.counted_as());
            // A later subscriber gets a replay of the store instead.
            if self.is_stale || !shared.new_subscribers.count().any() {
                continue;
            }
            if let Some((key, event, lazy)) = delta.into_event() {
                let span = trace::event(&shared.resource, &event);
                let envelope = EventEnvelope {
                    from_list,
                    ..EventEnvelope::about(key, event, lazy, span)
                };
                self.publish(envelope).await;
            }
        }
    }

    pub(super) async fn publish(&mut self, envelope: EventEnvelope<K>) {
        let span = envelope.span.clone();
        span.within(pin!(self.publisher.publish(envelope))).await;
    }

    /// Delivers one requested object to each subscriber with requests. Between two changes, all
    /// events of the stored states have been delivered.
    pub(super) async fn deliver_requested(&mut self) {
        let Shared {
            store, resource, ..
        } = self.shared;
        let current = |key: &ObjectKey| {
            let envelope = resync_envelope(resource, store, key)?;
            Some(EventEnvelope {
                requested: true,
                ..envelope
            })
        };
        self.publisher.deliver_requested(current).await;
    }

    /// When the next resync or slice is due.
    pub(super) fn resync_due(&self) -> Option<Instant> {
        let (began, schedule) = self.resync.as_ref()?;
        began.checked_add(schedule.due()?)
    }

    /// Resyncs one object, or begins the next slice.
    pub(super) async fn resync(&mut self) {
        let shared = self.shared;
        let Some((began, schedule)) = &mut self.resync else {
            return;
        };
        let Some(key) = schedule.take() else {
            schedule.begin(began.elapsed(), |wanted| shared.store.keys_where(wanted));
            return;
        };
        if let Some(envelope) = resync_envelope(&shared.resource, &shared.store, &key) {
            shared.instruments.changed(ChangeType::Resynced);
            self.publish(envelope).await;
        }
    }
}

/// The envelope that resyncs the stored object with `key`.
fn resync_envelope<K: Stored>(
    resource: &str,
    store: &Store<K>,
    key: &ObjectKey,
) -> Option<EventEnvelope<K>> {
    let (object, lazy) = store.get_lazy(key)?.into_decoded()?;
    let event = Event::Resynced(object);
    let span = trace::event(resource, &event);
    Some(EventEnvelope::about(key.clone(), event, lazy, span))
}
