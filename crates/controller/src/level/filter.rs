//! The filter of the primary kind: the changes that reconcile an object.

use kube::api::ObjectMeta;
use windlass_informer::{ErasedObject, Event};

use super::{Mode, Watchable};
use crate::{
    Finalizers, Predicate, content, event::AnyEvent, finalizer::FinalizerPresence, work::typed,
};

/// The filter of the primary kind.
///
/// A deletion mark, a deletion, a pause and its end, changed finalizers of other writers, and the removal of our own
/// finalizer from an object that needs it always pass. The addition of our own finalizer, and its
/// removal from an object that does not need it, are no reason for a call.
pub(super) struct Filter<K> {
    pub(super) finalizers: Option<Finalizers<K>>,
    /// Whether an object needs our finalizer.
    pub(super) needs_finalizer: Box<dyn Fn(&K) -> bool + Send + Sync>,
    /// `None` for the default: generation, labels and annotations.
    pub(super) predicate: Option<Box<dyn Predicate<K>>>,
}

// === impl Filter ===

impl<K: Watchable> Filter<K> {
    pub(super) fn passes(&self, event: &AnyEvent) -> bool {
        match event {
            Event::Updated { old, new } => {
                let old = &**old.as_erased();
                let metadata = (old.metadata(), new.metadata());
                self.matters(&metadata.0, &metadata.1)
                    || self.has_lost_finalizer(event, &metadata.0, &metadata.1)
                    || self.is_wanted(event, (old, &metadata.0), (&**new, &metadata.1))
            }
            Event::Added(object) => {
                object.metadata().deletion_timestamp.is_some()
                    || self
                        .predicate
                        .as_ref()
                        .is_none_or(|it| typed(event).is_none_or(|event| it.passes(&event)))
            }
            // Also a resync: a mapper, a trigger or the longest interval asked for it.
            _ => true,
        }
    }

    /// Whether the metadata require a call.
    fn matters(&self, old: &ObjectMeta, new: &ObjectMeta) -> bool {
        let is_marked = old.deletion_timestamp.is_none() && new.deletion_timestamp.is_some();
        if is_marked || Mode::of(old) != Mode::of(new) {
            return true;
        }
        let Some(finalizers) = &self.finalizers else {
            return old.finalizers.as_deref().unwrap_or_default()
                != new.finalizers.as_deref().unwrap_or_default();
        };
        finalizers.foreign_changed(old, new)
    }

    /// Whether our finalizer was removed from an object that needs it.
    fn has_lost_finalizer(&self, event: &AnyEvent, old: &ObjectMeta, new: &ObjectMeta) -> bool {
        let Some(finalizers) = &self.finalizers else {
            return false;
        };
        let is_held = |metadata| finalizers.presence(metadata) != FinalizerPresence::Absent;
        if !is_held(old) || is_held(new) {
            return false;
        }
        let event = typed::<K>(event);
        let object = event.as_ref().and_then(Event::object);
        object.is_none_or(|object| (self.needs_finalizer)(object))
    }

    /// Whether the predicate wants the event. Of an object in JSON the metadata are decoded once, by
    /// the caller.
    fn is_wanted(
        &self,
        event: &AnyEvent,
        (old, old_metadata): (&dyn ErasedObject, &ObjectMeta),
        (new, new_metadata): (&dyn ErasedObject, &ObjectMeta),
    ) -> bool {
        let Some(predicate) = &self.predicate else {
            return content::has_changed(old, new)
                || old_metadata.labels != new_metadata.labels
                || old_metadata.annotations != new_metadata.annotations;
        };
        // An object that does not decode is passed, so that the error is reported.
        typed(event).is_none_or(|event| predicate.passes(&event))
    }
}
