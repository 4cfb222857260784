//! `Informers`: the informers of one kind of a controller, read together.

use std::{
    collections::HashSet,
    fmt,
    hash::Hash,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::Client;
use parking_lot::RwLock;
use tokio::time::sleep;
use windlass_informer::{HealthState, Index, Informer, InformerId, ListWatch, WatchErrorCause};

use super::{
    error::ControllerBuildError,
    watch::{Indexes, Opened, Watch, Watchable},
};
use crate::{AddError, InformerController, Kind, controller::Shared};

mod reads;
mod shown;

/// The informers of one kind of a [`Controller`](crate::Controller), with their stores read as one.
///
/// # Contract
///
/// *Guaranteed.* Of an object that several informers show, the newest state is returned. A watch
/// that is added while the controller runs stops all calls of the controller until its objects are
/// listed, except for a kind that is [optional](super::MissingKind::Optional).
///
/// *Not guaranteed.* A consistent snapshot: two reads can be of different times.
///
/// Clones belong to the same controller.
pub struct Informers<K: Watchable> {
    shared: Arc<Contents<K>>,
}

struct Contents<K: Watchable> {
    types: K::DynamicType,
    informers: RwLock<Vec<Informer<K>>>,
    /// The informers of other clusters, which do not show the writes of the calls.
    of_other_clusters: RwLock<HashSet<InformerId>>,
    indexes: RwLock<Indexes<K>>,
    /// Whether a call saw that the kind is absent, since the last time all were reconciled.
    was_absent: AtomicBool,
    /// Set when the controller is built.
    controller: OnceLock<Added<K>>,
}

/// The controller, for informers that are added later.
struct Added<K> {
    /// Weak, because the handlers of the controller hold these informers.
    controller: Weak<Shared>,
    kind: Kind<K>,
    client: Client,
    resync: Option<Duration>,
}

/// How often an optional kind that was absent is looked at.
const ABSENCE_PERIOD: Duration = Duration::from_secs(1);

/// The identity of a watch that was added to a running controller.
#[derive(Clone, Debug)]
pub struct AddedWatch(Vec<InformerId>);

// === impl Informers ===

impl<K: Watchable> Informers<K> {
    pub(super) fn new(types: K::DynamicType) -> Self {
        Self {
            shared: Arc::new(Contents {
                types,
                informers: RwLock::default(),
                of_other_clusters: RwLock::default(),
                indexes: RwLock::default(),
                was_absent: AtomicBool::new(false),
                controller: OnceLock::new(),
            }),
        }
    }

    /// The group, version and plural name of the kind, if it is known only at run time.
    pub(super) fn types(&self) -> &K::DynamicType {
        &self.shared.types
    }

    /// Declares an index for all informers that are added later.
    pub(super) fn declare<V>(&self, index: &Index<K, V>)
    where
        V: Clone + Eq + Hash + Send + Sync + 'static,
    {
        let index = index.clone();
        let add = move |informer: &Informer<K>| informer.add_index(&index);
        self.shared.indexes.write().push(Arc::new(add));
    }

    /// Adds the informers of `watch` to `kind` of `controller`, and remembers both
    /// for later additions.
    pub(super) fn attach(
        &self,
        controller: &InformerController,
        kind: Kind<K>,
        client: &Client,
        resync: Option<Duration>,
        watch: Watch<K>,
    ) -> Result<(), ControllerBuildError> {
        _ = self.shared.controller.set(Added {
            controller: controller.downgrade(),
            kind,
            client: client.clone(),
            resync,
        });
        // Also for the watches that are added later: a read asks all of them.
        self.shared.indexes.write().extend(watch.indexes());
        self.open(controller, watch).map(drop)
    }

    fn open(
        &self,
        controller: &InformerController,
        watch: Watch<K>,
    ) -> Result<AddedWatch, ControllerBuildError> {
        let Some(added) = self.shared.controller.get() else {
            return Err(ControllerBuildError::NotBuilt);
        };
        let is_of_another_cluster = watch.is_of_another_cluster;
        let (opened, indexes) = watch.open(&added.client)?;
        let informers = match opened {
            Opened::Shared(informer) => vec![informer],
            Opened::Own(lists) => {
                let build = |list: ListWatch<K>| {
                    let builder = Informer::builder(list);
                    match added.resync {
                        Some(period) => builder.resync(period).build(),
                        None => builder.build(),
                    }
                };
                lists.into_iter().map(build).collect()
            }
        };
        for informer in &informers {
            let declared = self.shared.indexes.read();
            for add in declared.iter().chain(&indexes) {
                add(informer)?;
            }
        }
        if informers.is_empty() {
            return Err(ControllerBuildError::NothingWatched {
                kind: added.kind.name().to_owned(),
            });
        }
        let mut ids = Vec::with_capacity(informers.len());
        for informer in informers {
            if is_of_another_cluster {
                let mut others = self.shared.of_other_clusters.write();
                others.insert(informer.id());
            }
            // Readable before its first event can be mapped.
            self.shared.informers.write().push(informer.clone());
            if let Err(error) = controller.add_informer(&added.kind, &informer) {
                // The same informer may have been added before.
                let mut all = self.shared.informers.write();
                let at = all.iter().rposition(|it| it.id() == informer.id());
                at.map(|at| all.remove(at));
                drop(all);
                self.remove(&AddedWatch(ids));
                return Err(error.into());
            }
            ids.push(informer.id());
        }
        Ok(AddedWatch(ids))
    }

    /// Adds the objects of `watch` while the controller runs, for example those of another
    /// namespace. No call begins until they are listed.
    ///
    /// *Required.* `watch` is of the same cluster as the others: of two objects with the same key, one is
    /// read.
    ///
    /// *Guaranteed.* It has the [indexes](Watch::index) and the [filter](Watch::filter) of the first
    /// watch.
    ///
    /// # Errors
    ///
    /// [`ControllerBuildError`] if the controller was dropped, a selector is invalid, the watch has a
    /// filter of its own, an informer that has run before lacks an index of the first watch, or the same
    /// informer was already added.
    pub fn add(&self, watch: Watch<K>) -> Result<AddedWatch, ControllerBuildError> {
        let added = self.shared.controller.get();
        let controller = added.and_then(|added| added.controller.upgrade());
        let controller = controller.ok_or(ControllerBuildError::NotBuilt)?;
        if watch.predicate.is_some() {
            return Err(ControllerBuildError::FilterOfAddedWatch {
                kind: K::kind(self.types()).into_owned(),
            });
        }
        self.open(&InformerController::from_shared(controller), watch)
    }

    /// Removes a watch that was added. Its objects are not read any more, and cause no calls except
    /// for events that are queued. Returns whether it was there.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn remove(&self, watch: &AddedWatch) -> bool {
        let removed: Vec<_> = {
            let mut informers = self.shared.informers.write();
            let is_removed = |informer: &mut Informer<K>| watch.0.contains(&informer.id());
            informers.extract_if(.., is_removed).collect()
        };
        let mut others = self.shared.of_other_clusters.write();
        others.retain(|id| !watch.0.contains(id));
        drop(others);
        let added = self.shared.controller.get();
        if let Some(controller) = added.and_then(|added| added.controller.upgrade()) {
            let controller = InformerController::from_shared(controller);
            for informer in &removed {
                controller.remove_informer(informer);
            }
        }
        !removed.is_empty()
    }

    /// Whether all informers have listed their objects.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        let informers = self.shared.informers.read();
        informers.iter().all(Informer::has_synced)
    }

    /// Whether the API server does not serve the kind, or does not allow to list it: some objects were
    /// never listed, or the last list or watch failed because the kind is unknown. With
    /// [`MissingKind::Optional`](super::MissingKind::Optional) the objects of such a kind are not
    /// known.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        let is_absent = self.lacks_objects();
        if is_absent {
            self.shared.was_absent.store(true, Ordering::Release);
        }
        is_absent
    }

    fn lacks_objects(&self) -> bool {
        let is_unknown = |informer: &Informer<K>| match informer.health().state {
            HealthState::Down { error } => matches!(error.cause, WatchErrorCause::UnknownKind),
            _ => false,
        };
        let informers = self.shared.informers.read();
        (informers.iter()).any(|informer| !informer.has_synced() || is_unknown(informer))
    }

    /// Calls `reconcile_all` after the first list of an optional kind, and each time after a call saw
    /// that the kind is absent: the list may be empty, so that no event follows.
    pub(super) async fn follow(self, reconcile_all: impl Fn() + Send) {
        let was_absent = &self.shared.was_absent;
        // Calls can begin before the first list.
        was_absent.store(true, Ordering::Release);
        loop {
            sleep(ABSENCE_PERIOD).await;
            if was_absent.load(Ordering::Acquire) && !self.lacks_objects() {
                was_absent.store(false, Ordering::Release);
                reconcile_all();
            }
        }
    }

    /// The informers.
    #[must_use]
    pub fn informers(&self) -> Vec<Informer<K>> {
        self.shared.informers.read().clone()
    }
}

impl<K: Watchable> Clone for Informers<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Watchable> fmt::Debug for Informers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informers")
            .field("kind", &K::kind(&self.shared.types))
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl From<AddError> for ControllerBuildError {
    fn from(source: AddError) -> Self {
        Self::Add { source }
    }
}
