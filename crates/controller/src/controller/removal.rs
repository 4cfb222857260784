//! Removes informers and handlers from a controller.

use windlass_informer::{Informer, Stored};

use super::{InformerController, Kind};
use crate::{Role, route::KindId};

// === impl InformerController ===

#[expect(clippy::must_use_candidate, reason = "called for its effect")]
impl InformerController {
    /// Removes `informer`, which stops unless another controller or caller runs it. Returns whether
    /// the controller had it. Queued events are still dispatched. The objects of the informer cause
    /// no further events.
    pub fn remove_informer<K>(&self, informer: &Informer<K>) -> bool
    where
        K: Stored,
    {
        self.shared.remove_feed(informer.id())
    }

    /// Removes all mappers of `kind`. Returns their number.
    pub fn remove_all_mappers<S>(&self, kind: &Kind<S>) -> usize {
        let kind = self.own(kind);
        kind.map_or(0, |kind| self.shared.remove_mappers(kind, None))
    }

    /// Removes all watchers of `kind`. Returns their number.
    pub fn remove_all_watchers<S>(&self, kind: &Kind<S>) -> usize {
        let kind = self.own(kind);
        kind.map_or(0, |kind| self.shared.remove(kind, Role::Watcher, None))
    }

    /// Removes all reconcilers of `kind`. Returns their number.
    pub fn remove_all_reconcilers<S>(&self, kind: &Kind<S>) -> usize {
        let kind = self.own(kind);
        kind.map_or(0, |kind| self.shared.remove(kind, Role::Reconciler, None))
    }

    /// The id of `kind`, if this controller created it.
    pub(super) fn own<S>(&self, kind: &Kind<S>) -> Option<KindId> {
        let kind = kind.handle();
        kind.is_of(&self.shared).then(|| kind.id())
    }
}
