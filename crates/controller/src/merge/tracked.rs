//! The merged state of one object that informers of a kind show. *(pure)*

use std::sync::Arc;

use windlass_informer::{Event, InformerId, LazyObject};

use super::{Object, member::MemberInformer, version::Version};
use crate::event::AnyEvent;

/// The merged state of one uid.
pub(super) struct TrackedObject {
    /// The informers that have it.
    pub(super) informers: Vec<InformerId>,

    /// The last dispatched state. `None` if a preceding informer has the object and has not sent an
    /// event of it since.
    pub(super) dispatched: Option<Object>,

    /// The newest state that another informer has shown since.
    pub(super) undispatched: Option<Object>,

    /// The newest version at which an informer showed that it was deleted, or left its selector.
    pub(super) deleted_at: Version,
}

// === impl TrackedObject ===

impl TrackedObject {
    /// Handles a state that one more informer shows. `preceding`: whether the events of that
    /// informer passed before there was another one. Returns the event for the handlers, if there
    /// is one.
    pub(super) fn upsert(
        &mut self,
        event: AnyEvent,
        object: Object,
        version: Version,
        preceding: bool,
        members: &[MemberInformer],
    ) -> Option<AnyEvent> {
        let Some(dispatched) = &mut self.dispatched else {
            if preceding {
                let is_newer = |known: &mut Object| version.is_before(Version::of(known));
                self.undispatched = self.undispatched.take_if(is_newer);
                self.dispatched = Some(object);
                return Some(event);
            }
            let newest = match self.undispatched.take() {
                Some(known) if version.is_before(Version::of(&known)) => known,
                _ => object,
            };
            if self.is_preceded(members) {
                self.undispatched = Some(newest);
                return None;
            }
            // The first informer that had it was removed.
            self.dispatched = Some(Arc::clone(&newest));
            return Some(Event::Added(newest));
        };
        let is_same = dispatched.resource_version() == object.resource_version();
        if is_same || version.is_before(Version::of(dispatched)) {
            let again = matches!(event, Event::Resynced(_));
            return again.then(|| Event::Resynced(Arc::clone(dispatched)));
        }
        let old = std::mem::replace(dispatched, Arc::clone(&object));
        Some(Event::Updated {
            old: LazyObject::from_erased(old),
            new: object,
        })
    }

    /// Dispatches the undispatched state, if it is newer than the dispatched one.
    pub(super) fn dispatch_newer(&mut self) -> Option<AnyEvent> {
        let dispatched = self.dispatched.as_mut()?;
        let new = self.undispatched.take()?;
        if !Version::of(dispatched).is_before(Version::of(&new)) {
            return None;
        }
        let old = LazyObject::from_erased(std::mem::replace(dispatched, Arc::clone(&new)));
        Some(Event::Updated { old, new })
    }

    /// Whether a preceding informer has the object.
    pub(super) fn is_preceded(&self, members: &[MemberInformer]) -> bool {
        let mut members = members.iter();
        members.any(|it| it.preceding && self.informers.contains(&it.informer))
    }
}
