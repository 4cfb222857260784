//! Adds and removes kinds, handlers and mappers.

use std::sync::{Arc, atomic::Ordering};

use super::Shared;
use crate::{
    AddError, HandlerId, Role,
    controller::{finalizers::Planned, kind::KindHandle},
    handler::{ErasedHandler, ErasedMapper},
    metrics::KindMetrics,
    route::KindId,
};

// === impl Shared ===

impl Shared {
    /// Adds a kind called `name`. Other kinds do not wait for the informers of an `optional` kind.
    pub(in crate::controller) fn add_kind(
        self: &Arc<Self>,
        name: &str,
        optional: bool,
    ) -> Result<KindHandle, AddError> {
        let metrics = |name: &Arc<str>| KindMetrics::new(&self.metrics, name);
        let (id, name) = self.route.write().add_kind(name, optional, metrics)?;
        self.changed();
        Ok(KindHandle::new(id, name, Arc::downgrade(self)))
    }

    /// Notes that the handle of `kind` was dropped.
    pub(in crate::controller) fn drop_handle(&self, kind: KindId) {
        self.route.write().drop_handle(kind);
        self.remove_unused(kind);
    }

    /// Removes `kind` if it has no handle, informer, handler or mapper any more, with its queued
    /// events.
    pub(super) fn remove_unused(&self, kind: KindId) {
        {
            let mut route = self.route.write();
            let Some(name) = route.remove_unused(kind) else {
                return;
            };
            // While a new kind cannot have the name.
            self.metrics.remove(&name);
            self.informer_metrics.remove(&name);
        }
        self.changed();
        drop(self.engine.purge(kind));
    }

    pub(in crate::controller) fn add(
        self: &Arc<Self>,
        kind: &KindHandle,
        role: Role,
        code: Box<dyn ErasedHandler>,
    ) -> Result<HandlerId, AddError> {
        let _registration = self.registration.lock();
        self.check_handle(kind)?;
        self.check_informer(kind)?;
        if let Some(finalizer) = code.finalizer() {
            self.claim_finalizers(Planned::Handler(kind.id(), finalizer))?;
        }
        let mut route = self.route.write();
        let id = route.add(kind.id(), role, code);
        // Before the chain is visible: a handler that is called may get pending calls.
        self.engine.admit(id);
        self.changed();
        Ok(id)
    }

    /// Refuses the handle of a kind of another controller, and any addition after the run.
    pub(super) fn check_handle(self: &Arc<Self>, kind: &KindHandle) -> Result<(), AddError> {
        let name = || kind.name().to_owned();
        if !kind.is_of(self) {
            return Err(AddError::OtherController { kind: name() });
        }
        if self.has_ended() {
            return Err(AddError::Ended { kind: name() });
        }
        Ok(())
    }

    /// Refuses a handler or mapper of a kind without an informer while the controller runs. Earlier
    /// additions are checked by `run`.
    pub(super) fn check_informer(&self, kind: &KindHandle) -> Result<(), AddError> {
        if !self.ran.load(Ordering::Acquire) || self.route.read().has_informer(kind.id()) {
            return Ok(());
        }
        let kind = kind.name().to_owned();
        Err(AddError::NoInformer { kind })
    }

    /// Removes the handler of `kind` with this role and id, or all with the role. Returns their
    /// number.
    pub(in crate::controller) fn remove(
        &self,
        kind: KindId,
        role: Role,
        id: Option<HandlerId>,
    ) -> usize {
        let registration = self.registration.lock();
        let removed = {
            let mut route = self.route.write();
            let removed = route.remove(kind, |it| {
                it.role == role && id.is_none_or(|id| it.id == id)
            });
            self.changed();
            removed
        };
        self.reclaim_finalizers();
        let mut letters = Vec::new();
        for handler in &removed {
            self.engine.cancel(handler.id);
            letters.extend(self.dead_letters.lock().cancel(handler.id));
        }
        self.remove_unused(kind);
        // The run stops queueing the events of a kind without handlers.
        self.feeds_changed.notify_one();
        // The code of the handlers and the states of the letters are dropped without a lock.
        drop(registration);
        drop(letters);
        removed.len()
    }

    /// Adds a mapper from `kind` to the kind `to`.
    pub(in crate::controller) fn add_mapper(
        self: &Arc<Self>,
        kind: &KindHandle,
        to: &KindHandle,
        code: Box<dyn ErasedMapper>,
    ) -> Result<HandlerId, AddError> {
        let _registration = self.registration.lock();
        self.check_handle(kind)?;
        self.check_handle(to)?;
        self.check_informer(kind)?;
        Ok(self.route.write().add_mapper(kind.id(), to.id(), code))
    }

    /// Removes the mapper of `from` with this id, or all. Returns their number.
    pub(in crate::controller) fn remove_mappers(
        &self,
        from: KindId,
        id: Option<HandlerId>,
    ) -> usize {
        let registration = self.registration.lock();
        let (targets, removed) = {
            let mut route = self.route.write();
            let targets: Vec<_> = (route.mappers(from).iter())
                .map(|mapper| mapper.to)
                .collect();
            (targets, route.remove_mappers(from, id))
        };
        for kind in targets.into_iter().chain([from]) {
            self.remove_unused(kind);
        }
        // The code of the mappers is dropped without a lock.
        drop(registration);
        removed.len()
    }
}
