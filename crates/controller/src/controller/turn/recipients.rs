//! The handlers that are called for an event.

use std::{cmp::Ordering, sync::Arc};

use windlass_informer::{Event, LazyObject};

use super::Turn;
use crate::{
    ErasedObject, HandlerId, controller::queued::QueuedEvent, event::AnyEvent, handler::Handler,
    route::Chain, work,
};

/// The handlers that are called for an event, and the event for each.
pub(in crate::controller) enum Recipients<'a> {
    /// The whole chain, with the same event: the usual case, in which nothing is copied.
    All(&'a Chain),
    Some(Vec<(&'a Handler, AnyEvent)>),
}

/// The update with `old` as its old state, which is the last state that the handler received.
pub(in crate::controller) fn updated_from(
    old: Arc<dyn ErasedObject>,
    event: &AnyEvent,
) -> Option<AnyEvent> {
    let Event::Updated { new, .. } = event else {
        return None;
    };
    Some(Event::Updated {
        old: LazyObject::from_erased(old),
        new: Arc::clone(new),
    })
}

// === impl Recipients ===

impl Recipients<'_> {
    /// The handlers in order, with the event for each.
    pub(super) fn iter<'a>(
        &'a self,
        event: &'a AnyEvent,
    ) -> impl Iterator<Item = (&'a Handler, &'a AnyEvent)> {
        let (all, some): (&[Arc<Handler>], &[_]) = match self {
            Self::All(chain) => (chain, &[]),
            Self::Some(recipients) => (&[], recipients),
        };
        let all = all.iter().map(move |it| (&**it, event));
        all.chain(some.iter().map(|(it, event)| (*it, event)))
    }

    /// The event for which this handler is called, if it is called.
    pub(in crate::controller) fn event_of<'a>(
        &'a self,
        handler: HandlerId,
        event: &'a AnyEvent,
    ) -> Option<&'a AnyEvent> {
        let recipient = self.iter(event).find(|(it, _)| it.id == handler);
        recipient.map(|(_, event)| event)
    }
}

// === impl Turn ===

impl Turn<'_> {
    /// The handlers whose predicates accept the event.
    pub(super) fn recipients(&self, queued: &QueuedEvent) -> Recipients<'_> {
        let QueuedEvent {
            event, resynced, ..
        } = queued;
        // Each predicate is called once.
        let filtered = (self.chain.iter()).position(|it| !work::wants(it, event));
        let Some(filtered) = filtered else {
            return Recipients::All(self.chain);
        };
        let some = self.chain.iter().enumerate().filter_map(|(at, handler)| {
            let event = match at.cmp(&filtered) {
                Ordering::Less => Some(event.clone()),
                Ordering::Equal => work::resync_instead(handler, event, *resynced),
                Ordering::Greater => work::event_for(handler, event, *resynced),
            };
            Some((&**handler, event?))
        });
        Recipients::Some(some.collect())
    }
}
