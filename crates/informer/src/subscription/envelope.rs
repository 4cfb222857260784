//! `EventEnvelope`: an event with its key, its span, and where it comes from.

use std::fmt;

use crate::{ErasedObject, Event, GuardedSpan, LazyObject, ObjectKey, Stored};

/// An event with its key, its span, and where it comes from.
///
/// The span ends when the last clone of the envelope is dropped. It is [`GuardedSpan::none`] if no
/// `tracing` subscriber enables it. `K` may be unsized, as in [`Event`].
#[non_exhaustive]
pub struct EventEnvelope<K: ?Sized> {
    /// The key of the object. `None` for [`Synced`](Event::Synced).
    pub key: Option<ObjectKey>,
    /// The event.
    pub event: Event<K>,
    /// The span `informer-event-*`.
    pub span: GuardedSpan,
    /// Whether this subscription requested the event through its
    /// [`ResyncHandle`](crate::ResyncHandle).
    #[doc(hidden)]
    pub requested: bool,
    /// Whether the event comes from a list: the first list, a relist, or the replay for a new
    /// subscription. The object of an `Added` from a list may have existed before. Otherwise the
    /// object was created, or began to match the selector, just now. False for
    /// [`Resynced`](Event::Resynced) and [`Synced`](Event::Synced).
    pub from_list: bool,
    /// The stored form of the object, if that is not the decoded one.
    pub(crate) lazy: Option<LazyObject<K>>,
}

// === impl EventEnvelope ===

impl<K> EventEnvelope<K> {
    /// Creates the envelope of an event of the object with `key`, whose stored form is `lazy`.
    pub(crate) const fn about(
        key: ObjectKey,
        event: Event<K>,
        lazy: Option<LazyObject<K>>,
        span: GuardedSpan,
    ) -> Self {
        Self {
            key: Some(key),
            event,
            span,
            requested: false,
            from_list: false,
            lazy,
        }
    }

    /// Creates the envelope of [`Event::Synced`].
    pub(crate) const fn synced() -> Self {
        Self {
            key: None,
            event: Event::Synced,
            span: GuardedSpan::none(),
            requested: false,
            from_list: false,
            lazy: None,
        }
    }
}

impl<K: Stored> EventEnvelope<K> {
    /// Converts the object to its stored form, type-erased, for code that handles several kinds, and
    /// pins the decoded object in its entry of the store. A caller that does not pass the event
    /// on must call [`release_decoded`](ErasedObject) on its object.
    #[doc(hidden)]
    #[must_use]
    pub fn into_erased_pinned(self) -> EventEnvelope<dyn ErasedObject> {
        let lazy = self.lazy;
        let event = self.event.map(|object| match lazy {
            Some(lazy) => {
                lazy.pin(&object);
                lazy.into_erased()
            }
            None => object,
        });
        EventEnvelope {
            key: self.key,
            event,
            span: self.span,
            requested: self.requested,
            from_list: self.from_list,
            lazy: None,
        }
    }
}

impl<K: ?Sized> Clone for EventEnvelope<K> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            event: self.event.clone(),
            span: self.span.clone(),
            requested: self.requested,
            from_list: self.from_list,
            lazy: self.lazy.clone(),
        }
    }
}

/// Shows the event type and the key, and never the content, which may be secret.
impl<K: ?Sized> fmt::Debug for EventEnvelope<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("EventEnvelope");
        let action = self.event.action();
        match &self.key {
            Some(key) => shown.field("event", &format_args!("{action} {key}")),
            None => shown.field("event", &format_args!("{action}")),
        };
        shown
            .field("from_list", &self.from_list)
            .finish_non_exhaustive()
    }
}
