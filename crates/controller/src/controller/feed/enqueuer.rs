//! Queues a batch of events: merges them, offers them to the engine, and calls the mappers.

use std::sync::{Arc, atomic::Ordering};

use parking_lot::Mutex;
use windlass_informer::{Event, EventEnvelope, GuardedSpan, InformerId, ObjectKey, Stored, log};

use super::InformerFeed;
use crate::{
    Action, ErasedObject, Reasons,
    controller::{
        mapping,
        permit::EventBudget,
        queued::QueuedEvent,
        shared::{FeedEntry, Shared},
    },
    event::AnyEvent,
    merge::{InformerEvent, Merge},
    metrics::KindMetrics,
    route::{KindId, Mappers},
    schedule::{LaneKey, Moment, Offer, Priority},
    trace::{self, TraceParent},
};

/// Queues a batch of events.
pub(super) struct Enqueuer<'a, K: Stored> {
    pub(super) feed: &'a InformerFeed<K>,
    pub(super) into: &'a Shared,
    pub(super) kind: KindId,
    pub(super) metrics: &'a KindMetrics,
    pub(super) merge: &'a Mutex<Merge>,
    pub(super) mappers: Mappers,
    /// Whether the events go to the mappers only, because the kind has no handlers.
    pub(super) unhandled: bool,
    pub(super) received: Moment,
    /// Whether few events precede these ones in the queue, so that their objects stay decoded until
    /// they are dispatched.
    pub(super) dispatched_soon: bool,
}

/// An event of the informer.
pub(super) struct Received {
    envelope: EventEnvelope<dyn ErasedObject>,
    /// Whether it can show a write of a level-triggered controller to its own object.
    may_be_own_write: bool,
}

/// An event for the mappers.
struct ToMap {
    event: AnyEvent,
    from_list: bool,
    priority: Priority,
    span: GuardedSpan,
    /// Whether the object does not stay decoded until the dispatch.
    waits_long: bool,
}

/// An event with its lane and its span.
pub(super) struct Enqueued {
    key: LaneKey,
    offer: Offer<QueuedEvent>,
    span: GuardedSpan,
}

// === impl Enqueuer ===

impl<K: Stored> Enqueuer<'_, K> {
    /// Prepares the events of `envelopes` for [`enqueue`](Self::enqueue). Without a lock, because the
    /// filter of the primary kind can be code of the user.
    pub(super) fn receive(
        &self,
        envelopes: &mut Vec<EventEnvelope<K>>,
        received: &mut Vec<Received>,
    ) {
        let envelopes = envelopes.drain(..).map(EventEnvelope::into_erased_pinned);
        received.extend(envelopes.map(|envelope| Received {
            may_be_own_write: self.into.may_be_own_write(self.kind, &envelope.event),
            envelope,
        }));
    }

    /// Queues the events of `received`.
    pub(super) fn enqueue(
        &self,
        received: &mut Vec<Received>,
        enqueued: &mut Vec<Enqueued>,
        budget: &EventBudget,
    ) {
        let Self { feed, into, .. } = self;
        let has_mappers = !self.mappers.is_empty();
        let mut to_map = Vec::new();
        let mut synced = feed.synced.load(Ordering::Relaxed);
        {
            // Locked until the events are queued, so that they are queued in the order of the
            // merge.
            let mut merge = self.merge.lock();
            let mut put = |it: Enqueued, may_be_own_write: bool| {
                let queued = &it.offer.event;
                let is_own =
                    may_be_own_write && into.is_own_write(feed.informer.resource(), queued);
                let waits_long =
                    is_own || self.unhandled || !self.dispatched_soon || queued.permit.is_none();
                if has_mappers && !queued.requested_by_mapper {
                    to_map.push(ToMap {
                        event: queued.event.clone(),
                        from_list: queued.from_list,
                        priority: it.offer.priority,
                        span: it.span.clone(),
                        waits_long,
                    });
                } else if waits_long {
                    queued.event.release_decoded();
                }
                if !is_own {
                    enqueued.push(it);
                }
            };
            for Received {
                mut envelope,
                may_be_own_write,
            } in received.drain(..)
            {
                synced |= matches!(envelope.event, Event::Synced);
                let action = Action::of(&envelope.event);
                if merge.is_idle() || self.merge(&mut merge, &mut envelope) {
                    let prepared = self.prepare(envelope, action, synced, budget);
                    if let Some(prepared) = prepared {
                        put(prepared, may_be_own_write);
                    }
                } else {
                    envelope.event.release_decoded();
                    if let Some(key) = &envelope.key
                        && (envelope.requested || action == Some(Action::Deleted))
                    {
                        // Another informer has the object.
                        feed.requested_resyncs.take(key);
                    }
                }
                for released in merge.take_released() {
                    let prepared = self.prepare_released(released, budget);
                    if let Some(prepared) = prepared {
                        put(prepared, false);
                    }
                }
            }
            self.offer(enqueued);
            for informer in merge.take_lagging() {
                self.relist(informer);
            }
        }
        *feed.progress.lock() = self.received;
        // After its objects are queued. Then the handlers may start.
        if synced && !feed.synced.swap(true, Ordering::AcqRel) {
            into.synced.notify_one();
        }
        self.map(to_map);
    }

    /// Calls the mappers.
    fn map(&self, events: Vec<ToMap>) {
        for it in events {
            let map = || {
                mapping::map(
                    self.into,
                    &self.mappers,
                    self.kind,
                    (&it.event, it.from_list),
                    self.feed.informer.resource(),
                    it.priority,
                );
            };
            it.span.in_scope(map);
            if it.waits_long {
                it.event.release_decoded();
            }
        }
    }

    /// Prepares an event for the queue. `None` if it has no object. `action` is that of the
    /// informer's event, before the merge.
    fn prepare(
        &self,
        envelope: EventEnvelope<dyn ErasedObject>,
        action: Option<Action>,
        synced: bool,
        budget: &EventBudget,
    ) -> Option<Enqueued> {
        let feed = self.feed;
        let EventEnvelope {
            key,
            event,
            span,
            requested,
            from_list,
            ..
        } = envelope;
        // Without a key there is no object.
        let key = key?;
        let priority = match action? {
            Action::Resynced if requested => {
                feed.requested_resyncs.take(&key).unwrap_or(Priority::Live)
            }
            Action::Resynced => Priority::Resync,
            Action::Created if !synced => Priority::FirstList,
            Action::Deleted => {
                feed.requested_resyncs.take(&key);
                Priority::Live
            }
            _ => Priority::Live,
        };
        // The merge makes another event of a resync after an informer was removed.
        let is_mapped = requested && matches!(event, Event::Resynced(_));
        let reasons = match priority {
            _ if is_mapped => Reasons::RELATED,
            Priority::FirstList => Reasons::FIRST_LIST,
            Priority::Resync => Reasons::INTERVAL,
            _ => Reasons::CHANGED,
        };
        let event = QueuedEvent {
            permit: budget.take(),
            origin: TraceParent::of(&span),
            requested_by_mapper: is_mapped,
            from_list,
            // The merge can make an `Added` of another event, of an object that a handler knows. A
            // level-triggered handler can be woken for an object before its event.
            may_be_known: from_list
                || action != Some(Action::Created)
                || self.into.settings.level_triggered,
            ..QueuedEvent::new(event, reasons, self.received)
        };
        Some(self.enqueued(key, priority, event, span))
    }

    /// Prepares an event of an object that was withheld: it comes from the store, like an event
    /// from a list.
    fn prepare_released(&self, event: AnyEvent, budget: &EventBudget) -> Option<Enqueued> {
        let key = event.object()?.key();
        let event = QueuedEvent {
            permit: budget.take(),
            from_list: true,
            ..QueuedEvent::new(event, Reasons::CHANGED, self.received)
        };
        Some(self.enqueued(key, Priority::Live, event, GuardedSpan::none()))
    }

    fn enqueued(
        &self,
        object: ObjectKey,
        priority: Priority,
        event: QueuedEvent,
        span: GuardedSpan,
    ) -> Enqueued {
        let kind = self.kind;
        Enqueued {
            key: LaneKey { kind, object },
            offer: Offer::new(priority, event),
            span,
        }
    }

    /// Merges the event with those of the other informers. Returns whether to dispatch it.
    fn merge(&self, merge: &mut Merge, envelope: &mut EventEnvelope<dyn ErasedObject>) -> bool {
        let lookup = |informer: InformerId, key: &ObjectKey, uid: &str| {
            let object = |entry: &FeedEntry| entry.feed.find(key, uid);
            self.into.with_feed(informer, object).flatten()
        };
        let informer = self.feed.informer.id();
        if matches!(envelope.event, Event::Synced) {
            let version = self.feed.informer.list_version();
            let up_to = version.and_then(|version| version.parse().ok());
            merge.synced(informer, up_to, &lookup);
            return false;
        }
        let event = InformerEvent {
            informer,
            event: envelope.event.clone(),
            live: !envelope.from_list,
        };
        let Some(merged) = merge.apply(event, &lookup) else {
            return false;
        };
        let shown = std::mem::replace(&mut envelope.event, merged);
        let objects = shown.object().zip(envelope.event.object());
        if !objects.is_some_and(|(shown, merged)| Arc::ptr_eq(shown, merged)) {
            shown.release_decoded();
        }
        true
    }

    /// Requests a relist of an informer that has not passed a dropped tombstone.
    fn relist(&self, informer: InformerId) {
        self.into.with_feed(informer, |entry| {
            log::warn!(
                component = "InformerController",
                kind = &*self.metrics.kind,
                "an informer lags behind the others of its kind, relisting"
            );
            entry.feed.relist();
        });
    }

    /// Queues the events in the engine, under one lock.
    fn offer(&self, enqueued: &mut Vec<Enqueued>) {
        if self.unhandled {
            let mut by_action = [0; Action::ALL.len()];
            for action in enqueued
                .drain(..)
                .filter_map(|it| Action::of(&it.offer.event.event))
            {
                by_action[action as usize] += 1;
            }
            return self.metrics.received(&by_action, 0);
        }
        let coalescing = self.into.settings.coalescing;
        let (mut by_action, mut spans) = ([0; Action::ALL.len()], Vec::new());
        let mut at = 0;
        let offers = enqueued.drain(..).map(|Enqueued { key, offer, span }| {
            if let Some(action) = Action::of(&offer.event.event) {
                by_action[action as usize] += 1;
            }
            if !span.is_none() {
                spans.push((at, span));
            }
            at += 1;
            (key, offer)
        });
        let coalesced =
            (self.into.engine).offer(offers, |older, newer| coalescing.coalesce(older, newer));
        for (_, span) in spans.iter().filter(|(at, _)| coalesced.contains(at)) {
            trace::coalesced(span);
        }
        self.metrics.received(&by_action, coalesced.len());
    }
}
