//! An event with its span and how it came.

use std::fmt;

use tracing::Span;

use crate::{ErasedObject, Event, LazyObject, ObjectKey, Stored};

/// An event, the span in which it was delivered, and how it came.
///
/// The span ends when the last copy of this envelope is dropped; it is [`Span::none`] where no
/// subscriber of `tracing` wants it.
#[non_exhaustive]
pub struct EventEnvelope<K> {
    /// The key of the object; none for [`Synced`](Event::Synced).
    pub key: Option<ObjectKey>,
    /// What happened.
    pub event: Event<K>,
    /// The span `informer-event-*`.
    pub span: Span,
    /// Whether this subscription asked for the event, through its
    /// [`ResyncHandle`](crate::ResyncHandle).
    pub requested: bool,
    /// Whether the event comes from a list: the first list, a relist, or the replay that a new
    /// subscription receives. The object of an `Added` from a list may have existed for a long
    /// time; one that is not from a list was seen live, when it was created or began to match
    /// the selector. False for [`Resynced`](Event::Resynced) and [`Synced`](Event::Synced).
    pub from_list: bool,
    /// The [epoch](crate::Store::epoch) of the store when the event happened: versions of objects
    /// compare within one epoch.
    pub epoch: u32,
    /// Whether the event shows the first state of the object since the history of the API server
    /// went back: what was remembered of the object's versions before is of no use any more.
    pub restored: bool,
    /// The object as the store keeps it, if that is another form.
    kept: Option<LazyObject<K>>,
}

/// An event about an object of any kind, for code that works on many kinds at once.
#[non_exhaustive]
pub struct ErasedEventEnvelope {
    /// The key of the object; none for [`Synced`](Event::Synced).
    pub key: Option<ObjectKey>,
    /// What happened, to an object in the form in which the store keeps it.
    pub event: Event<dyn ErasedObject>,
    /// The span `informer-event-*`.
    pub span: Span,
    /// Whether this subscription asked for the event: see [`EventEnvelope`].
    pub requested: bool,
    /// Whether the event comes from a list: see [`EventEnvelope::from_list`].
    pub from_list: bool,
    /// The epoch of the store when the event happened: see [`EventEnvelope::epoch`].
    pub epoch: u32,
    /// Whether it is the first state since the history went back.
    pub restored: bool,
}

// === impl EventEnvelope ===

impl<K> EventEnvelope<K> {
    /// Something happened to the object of `key`, which the store keeps as `kept`.
    pub(crate) const fn about(
        key: ObjectKey,
        event: Event<K>,
        kept: Option<LazyObject<K>>,
        span: Span,
    ) -> Self {
        Self {
            key: Some(key),
            event,
            span,
            requested: false,
            from_list: false,
            epoch: 0,
            restored: false,
            kept,
        }
    }

    /// A list has been delivered.
    pub(crate) const fn synced() -> Self {
        Self {
            key: None,
            event: Event::Synced,
            span: Span::none(),
            requested: false,
            from_list: false,
            epoch: 0,
            restored: false,
            kept: None,
        }
    }

    /// The same, asked for by the subscription.
    pub(crate) fn requested(self) -> Self {
        Self {
            requested: true,
            ..self
        }
    }

    /// The same, in this epoch of the store.
    pub(crate) fn in_epoch(self, epoch: u32) -> Self {
        Self { epoch, ..self }
    }

    /// The same, with whether it is the first state since the history of the server went back.
    pub(crate) fn restored(self, restored: bool) -> Self {
        Self { restored, ..self }
    }

    /// The same, with whether it comes from a list.
    pub(crate) fn listed(self, from_list: bool) -> Self {
        Self { from_list, ..self }
    }
}

impl<K: Stored> EventEnvelope<K> {
    /// The same event about an object of any kind, as the store keeps it. What is decoded
    /// already stays decoded until [`rest`](ErasedObject) is called on it.
    #[must_use]
    pub fn into_erased(self) -> ErasedEventEnvelope {
        let kept = self.kept;
        let event = self.event.map(|object| match kept {
            Some(kept) => {
                kept.pin(&object);
                kept.into_erased()
            }
            None => object,
        });
        ErasedEventEnvelope {
            key: self.key,
            event,
            span: self.span,
            requested: self.requested,
            from_list: self.from_list,
            epoch: self.epoch,
            restored: self.restored,
        }
    }
}

impl<K> Clone for EventEnvelope<K> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            event: self.event.clone(),
            span: self.span.clone(),
            requested: self.requested,
            from_list: self.from_list,
            epoch: self.epoch,
            restored: self.restored,
            kept: self.kept.clone(),
        }
    }
}

impl<K: Stored> fmt::Debug for EventEnvelope<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventEnvelope")
            .field("event", &self.event)
            .field("from_list", &self.from_list)
            .finish_non_exhaustive()
    }
}

// === impl ErasedEventEnvelope ===

impl fmt::Debug for ErasedEventEnvelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErasedEventEnvelope")
            .field("key", &self.key)
            .field("action", &self.event.action())
            .field("from_list", &self.from_list)
            .finish_non_exhaustive()
    }
}
