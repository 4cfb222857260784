//! States and versions that the informers of a kind show, for the record of own writes.

use std::sync::Arc;

use windlass_informer::{Informer, ObjectIdentity as _, ObjectKey};

use super::Informers;
use crate::{
    level::Watchable,
    own_writes::{Shown, parse_version},
};

impl<K: Watchable> Informers<K> {
    /// Whether there are informers, and none shows writes of the calls.
    pub(in crate::level) fn are_of_other_clusters(&self) -> bool {
        let informers = self.shared.informers.read();
        let others = self.shared.of_other_clusters.read();
        !others.is_empty() && informers.iter().all(|it| others.contains(&it.id()))
    }

    /// What the informers show of the object with this key: the newest state, and the lowest version
    /// that all informers which can show the object have passed.
    pub(in crate::level) fn shown(&self, key: &ObjectKey) -> Shown {
        let informers = self.shared.informers.read();
        let others = self.shared.of_other_clusters.read();
        let can_show = |informer: &&Informer<K>| {
            let namespaces = informer.namespaces();
            !others.contains(&informer.id())
                && namespaces.is_none_or(|all| all.iter().any(|it| key.namespace() == Some(it)))
        };
        let mut shown = Shown::Unwatched;
        for informer in informers.iter().filter(can_show) {
            // Its first list will show the write. Its kind can be missing.
            if !informer.has_synced() {
                continue;
            }
            // First, because the store is written before the version advances.
            let passed = informer.last_sync_resource_version();
            let passed = passed.as_deref().and_then(parse_version);
            let object = informer.store().get_lazy(key);
            let object = object.and_then(|object| {
                let version = parse_version(object.resource_version()?)?;
                Some((Arc::from(object.uid()?), version))
            });
            shown = shown.with_other(Shown::Watched { object, passed });
        }
        shown
    }
}
