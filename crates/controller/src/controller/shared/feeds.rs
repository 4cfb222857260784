//! Adds and removes informers.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, atomic::Ordering},
};

use tokio_util::sync::CancellationToken;
use windlass_informer::{InformerId, ObjectKey};

use super::Shared;
use crate::{
    AddError,
    controller::{feed::Feed, finalizers::Planned, kind::KindHandle, queued::uid},
    event::AnyEvent,
    route::KindId,
    schedule::{LaneKey, Priority},
};

/// An informer and its kind.
pub(in crate::controller) struct FeedEntry {
    pub(in crate::controller) kind: KindId,
    pub(in crate::controller) feed: Arc<dyn Feed>,
    pub(in crate::controller) stop: CancellationToken,
    pub(in crate::controller) started: bool,
    /// Whether other kinds do not wait for it.
    pub(in crate::controller) optional: bool,
}

// === impl Shared ===

impl Shared {
    /// Adds an informer to `kind`.
    pub(in crate::controller) fn add_feed(
        self: &Arc<Self>,
        kind: &KindHandle,
        feed: Arc<dyn Feed>,
    ) -> Result<(), AddError> {
        let _registration = self.registration.lock();
        self.check_handle(kind)?;
        let id = feed.informer();
        let known = self.with_feed(id, |entry| entry.kind);
        if let Some(kind) = known {
            let kind = self.route.read().name(kind).to_string();
            return Err(AddError::InformerAlreadyAdded { kind });
        }
        self.claim_finalizers(Planned::Informer(kind.id(), feed.namespaces()))?;
        let (kind, name) = (kind.id(), kind.name());
        self.route.write().add_informer(kind);
        let others: Vec<_> = (self.feeds.read().iter())
            .filter(|entry| entry.kind == kind)
            .map(|entry| (entry.feed.informer(), entry.started))
            .collect();
        // Not in the condition, which would lock the route and the merge together.
        let merge = self.route.read().merge(kind);
        if let Some(merge) = merge
            && !others.is_empty()
        {
            let mut merge = merge.lock();
            if merge.is_idle() {
                for (other, started) in others {
                    merge.add(other, started);
                }
            }
            merge.add(id, false);
        }
        let optional = self.route.read().is_optional(kind);
        feed.instrument(&self.informer_metrics, name);
        let mut feeds = self.feeds.write();
        feeds.push(FeedEntry {
            kind,
            feed,
            stop: CancellationToken::new(),
            started: false,
            optional,
        });
        if !optional && self.gates_late_informers() && self.ran.load(Ordering::Acquire) {
            // Under the lock: the run opens the gate under it, after all informers have synced.
            self.engine.set_gate(None, false);
        }
        drop(feeds);
        self.feeds_changed.notify_one();
        Ok(())
    }

    /// Removes an informer. Returns whether the controller had it.
    pub(in crate::controller) fn remove_feed(&self, informer: InformerId) -> bool {
        let _registration = self.registration.lock();
        let removed = {
            let mut feeds = self.feeds.write();
            let at = (feeds.iter()).position(|entry| entry.feed.informer() == informer);
            at.map(|at| feeds.remove(at))
        };
        let Some(entry) = removed else {
            return false;
        };
        self.has_removed_informer.store(true, Ordering::Release);
        entry.stop.cancel();
        entry.feed.uninstrument(&self.informer_metrics);
        let merge = {
            let mut route = self.route.write();
            route.remove_informer(entry.kind);
            route.merge(entry.kind)
        };
        self.reclaim_finalizers();
        if let Some(merge) = merge {
            let objects = (merge.lock()).remove(informer, &|_, key, uid| entry.feed.find(key, uid));
            self.resync(objects);
        }
        self.remove_unused(entry.kind);
        self.feeds_changed.notify_one();
        true
    }

    /// Reads the entry of `informer`, if the controller has it.
    pub(in crate::controller) fn with_feed<T>(
        &self,
        informer: InformerId,
        read: impl FnOnce(&FeedEntry) -> T,
    ) -> Option<T> {
        let feeds = self.feeds.read();
        feeds
            .iter()
            .find(|it| it.feed.informer() == informer)
            .map(read)
    }

    /// Requests a resync of each object from the informer with it.
    pub(super) fn resync(&self, objects: Vec<(InformerId, ObjectKey)>) {
        let mut keys: HashMap<InformerId, BTreeSet<ObjectKey>> = HashMap::new();
        for (informer, key) in objects {
            keys.entry(informer).or_default().insert(key);
        }
        for entry in &*self.feeds.read() {
            if let Some(keys) = keys.remove(&entry.feed.informer()) {
                entry.feed.request_resyncs(&keys, Priority::Live);
            }
        }
    }

    /// Requests resyncs of the `keys` that are in a store of `kind`. Returns their number.
    pub(in crate::controller) fn request_resyncs(
        &self,
        kind: KindId,
        keys: &BTreeSet<ObjectKey>,
        priority: Priority,
    ) -> usize {
        let feeds = self.feeds.read();
        let feeds = feeds.iter().filter(|entry| entry.kind == kind);
        feeds
            .map(|entry| entry.feed.request_resyncs(keys, priority))
            .sum()
    }

    /// Whether a call for `event` is for an object that no informer of its kind has any more, because
    /// its informer was removed: the deletion of the object is not reported then.
    pub(in crate::controller) fn is_orphaned(&self, lane: &LaneKey, event: &AnyEvent) -> bool {
        if !self.has_removed_informer.load(Ordering::Acquire) {
            return false;
        }
        let feeds = self.feeds.read();
        let mut feeds = feeds.iter().filter(|entry| entry.kind == lane.kind);
        let has = |feed: &dyn Feed| match uid(event) {
            Some(uid) => feed.find(&lane.object, uid).is_some(),
            None => feed.stored(&lane.object).is_some(),
        };
        !feeds.any(|entry| has(&*entry.feed))
    }

    /// Whether an informer that is added while the controller runs stops all calls until it has
    /// synced: a level-triggered handler that reads an empty store would delete or create objects.
    pub(in crate::controller) const fn gates_late_informers(&self) -> bool {
        self.settings.level_triggered && !self.settings.start_before_sync
    }
}
