//! The merged state of one object that informers of a kind show. *(pure)*

use std::sync::Arc;

use windlass_informer::{Event, InformerId, LazyObject};

use super::{Object, member::MemberInformer, version::Version};
use crate::event::AnyEvent;

/// The merged state of one uid.
pub(super) struct TrackedObject {
    /// The informers that have it.
    pub(super) holders: Vec<InformerId>,

    /// The last emitted state. `None` if a preceding informer has the object and has not sent an
    /// event of it since.
    pub(super) emitted: Option<Object>,

    /// The newest state that another informer has shown since.
    pub(super) held_back: Option<Object>,

    /// The epoch of both.
    pub(super) epoch: u32,

    /// Whether the informer that showed it may not have detected that the history went back, or
    /// listed later.
    pub(super) doubtful: bool,

    /// The newest version at which an informer showed that it was deleted, or left its selector.
    pub(super) left: Version,
}

// === impl TrackedObject ===

impl TrackedObject {
    /// Handles a state that one more informer shows. `preceding`: whether the events of that
    /// informer passed before there was another one. Returns the event for the handlers, if there
    /// is one.
    pub(super) fn show(
        &mut self,
        event: AnyEvent,
        object: Object,
        version: Version,
        preceding: bool,
        members: &[MemberInformer],
    ) -> Option<AnyEvent> {
        let Some(emitted) = &mut self.emitted else {
            if preceding {
                let is_newer =
                    |known: &mut Object| version.is_before(Version::of(known, self.epoch));
                self.held_back = self.held_back.take_if(is_newer);
                self.epoch = version.epoch;
                self.emitted = Some(object);
                return Some(event);
            }
            let newest = match self.held_back.take() {
                Some(known) if version.is_before(Version::of(&known, self.epoch)) => known,
                _ => {
                    self.epoch = version.epoch;
                    object
                }
            };
            if self.is_preceded(members) {
                self.held_back = Some(newest);
                return None;
            }
            // The first informer that had it was removed.
            self.emitted = Some(Arc::clone(&newest));
            return Some(Event::Added(newest));
        };
        let known = Version::of(emitted, self.epoch);
        let is_same = emitted.resource_version() == object.resource_version();
        if (is_same && known.epoch == version.epoch) || version.is_before(known) {
            let again = matches!(event, Event::Resynced(_));
            return again.then(|| Event::Resynced(Arc::clone(emitted)));
        }
        self.epoch = version.epoch;
        let old = std::mem::replace(emitted, Arc::clone(&object));
        Some(Event::Updated {
            old: LazyObject::from_erased(old),
            new: object,
        })
    }

    /// Emits the state that was held back, if it is newer than the emitted one.
    pub(super) fn catch_up(&mut self) -> Option<AnyEvent> {
        let emitted = self.emitted.as_mut()?;
        let new = self.held_back.take()?;
        let version = |object| Version::of(object, self.epoch);
        if !version(emitted).is_before(version(&new)) {
            return None;
        }
        let old = LazyObject::from_erased(std::mem::replace(emitted, Arc::clone(&new)));
        Some(Event::Updated { old, new })
    }

    /// Whether a preceding informer has the object.
    pub(super) fn is_preceded(&self, members: &[MemberInformer]) -> bool {
        let mut members = members.iter();
        members.any(|it| it.preceding && self.holders.contains(&it.informer))
    }
}
