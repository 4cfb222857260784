//! The kinds of a controller, and the handlers of each.
//!
//! A kind is a name of the user's choice. Its chain is its watchers followed by its reconcilers,
//! each in registration order. The id of a handler is never reused, so that removing one does not
//! affect the others. A kind without a handle, informer, handler and mapper is removed.

mod kind;

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use self::kind::KindEntry;
pub(crate) use self::kind::{Chain, KindId, KindSnapshot, Mappers, RegisteredMapper};
use crate::{
    AddError, HandlerId, Role,
    handler::{ErasedHandler, ErasedMapper, Handler},
    merge::Merge,
    metrics::KindMetrics,
};

/// The kinds of a controller, and their chains.
#[derive(Default)]
pub(crate) struct Route {
    kinds: HashMap<KindId, KindEntry>,
    names: HashMap<Arc<str>, KindId>,
    handlers: u64,
    next_kind: u32,
}

// === impl Route ===

impl Route {
    /// Adds a kind called `name`, with `metrics` and a handle.
    pub(crate) fn add_kind(
        &mut self,
        name: &str,
        optional: bool,
        metrics: impl FnOnce(&Arc<str>) -> KindMetrics,
    ) -> Result<(KindId, Arc<str>), AddError> {
        if name.is_empty() {
            return Err(AddError::EmptyKind);
        }
        if self.names.contains_key(name) {
            let kind = name.to_owned();
            return Err(AddError::KindExists { kind });
        }
        let id = KindId(self.next_kind);
        self.next_kind += 1;
        let name: Arc<str> = Arc::from(name);
        self.names.insert(Arc::clone(&name), id);
        let entry = KindEntry {
            name: Arc::clone(&name),
            optional,
            has_handle: true,
            informers: 0,
            chain: Chain::from([]),
            mappers: Mappers::from([]),
            metrics: Arc::new(metrics(&name)),
            merge: Arc::default(),
            unhandled: false,
        };
        self.kinds.insert(id, entry);
        Ok((id, name))
    }

    /// Notes that the handle of `kind` was dropped.
    pub(crate) fn drop_handle(&mut self, kind: KindId) {
        if let Some(kind) = self.kinds.get_mut(&kind) {
            kind.has_handle = false;
        }
    }

    /// Whether other kinds do not wait for the informers of `kind`.
    pub(crate) fn is_optional(&self, kind: KindId) -> bool {
        self.kinds.get(&kind).is_some_and(|kind| kind.optional)
    }

    /// Notes that an informer of `kind` was added.
    pub(crate) fn add_informer(&mut self, kind: KindId) {
        if let Some(kind) = self.kinds.get_mut(&kind) {
            kind.informers += 1;
        }
    }

    /// Notes that an informer of `kind` was removed.
    pub(crate) fn remove_informer(&mut self, kind: KindId) {
        if let Some(kind) = self.kinds.get_mut(&kind) {
            kind.informers = kind.informers.saturating_sub(1);
        }
    }

    /// Removes `kind` if nothing uses it. Returns its name.
    pub(crate) fn remove_unused(&mut self, kind: KindId) -> Option<Arc<str>> {
        let known = self.kinds.get(&kind)?;
        if known.has_handle || known.informers > 0 || self.needs_informer(kind, known) {
            return None;
        }
        let removed = self.kinds.remove(&kind)?;
        self.names.remove(&removed.name);
        Some(removed.name)
    }

    /// Whether `kind` has a handler or mapper, or is the target of a mapper.
    fn needs_informer(&self, id: KindId, kind: &KindEntry) -> bool {
        let mapped = || (self.kinds.values()).any(|it| it.mappers.iter().any(|it| it.to == id));
        !kind.chain.is_empty() || !kind.mappers.is_empty() || mapped()
    }

    /// Returns the name of a kind that has a handler or mapper but no informer.
    pub(crate) fn without_informer(&self) -> Option<String> {
        let kinds = (self.kinds.iter())
            .filter(|(id, kind)| kind.informers == 0 && self.needs_informer(**id, kind));
        let (_, kind) = kinds.min_by_key(|(id, _)| **id)?;
        Some(kind.name.to_string())
    }

    /// All handlers, with their kinds.
    pub(crate) fn handlers(&self) -> impl Iterator<Item = (KindId, &Handler)> {
        let kinds = self.kinds.iter();
        kinds.flat_map(|(id, kind)| kind.chain.iter().map(|handler| (*id, &**handler)))
    }

    /// Whether `kind` has an informer.
    pub(crate) fn has_informer(&self, kind: KindId) -> bool {
        (self.kinds.get(&kind)).is_some_and(|kind| kind.informers > 0)
    }

    /// Stops queueing the events of the kinds without handlers whose gate `is_open`. Returns those
    /// kinds whose events were queued so far.
    pub(crate) fn stop_unhandled(&mut self, is_open: impl Fn(KindId) -> bool) -> Vec<KindId> {
        let kinds = self.kinds.iter_mut();
        let unhandled = kinds.filter(|(id, kind)| kind.chain.is_empty() && is_open(**id));
        let stopped = unhandled.filter_map(|(id, kind)| {
            let was_queued = !std::mem::replace(&mut kind.unhandled, true);
            was_queued.then_some(*id)
        });
        stopped.collect()
    }

    /// Queues the events of `kind` until its gate is open: a handler that is added meanwhile gets them.
    pub(crate) fn expect_handlers(&mut self, kind: KindId) {
        if let Some(kind) = self.kinds.get_mut(&kind) {
            kind.unhandled = false;
        }
    }

    /// Whether the events of `kind` are not queued.
    pub(crate) fn is_unhandled(&self, kind: KindId) -> bool {
        self.kinds.get(&kind).is_none_or(|kind| kind.unhandled)
    }

    /// The merge of the informers of `kind`.
    pub(crate) fn merge(&self, kind: KindId) -> Option<Arc<Mutex<Merge>>> {
        Some(Arc::clone(&self.kinds.get(&kind)?.merge))
    }

    /// The metrics of `kind`.
    pub(crate) fn metrics(&self, kind: KindId) -> Option<Arc<KindMetrics>> {
        Some(Arc::clone(&self.kinds.get(&kind)?.metrics))
    }

    /// The metrics of all kinds.
    pub(crate) fn all_metrics(&self) -> impl Iterator<Item = &Arc<KindMetrics>> {
        self.kinds.values().map(|kind| &kind.metrics)
    }

    /// The handlers and metrics of each kind.
    pub(crate) fn snapshot(&self) -> impl Iterator<Item = (KindId, KindSnapshot)> {
        self.kinds.iter().map(|(id, kind)| {
            let snapshot = KindSnapshot {
                chain: Arc::clone(&kind.chain),
                metrics: Arc::clone(&kind.metrics),
            };
            (*id, snapshot)
        })
    }

    /// The name of `kind`.
    pub(crate) fn name(&self, kind: KindId) -> Arc<str> {
        let kind = self.kinds.get(&kind);
        kind.map_or_else(|| Arc::from(""), |kind| Arc::clone(&kind.name))
    }

    /// The handlers of `kind`.
    #[cfg(test)]
    pub(crate) fn chain(&self, kind: KindId) -> Chain {
        Arc::clone(&self.kinds[&kind].chain)
    }

    /// The handler with this id, if it was not removed.
    pub(crate) fn handler(&self, kind: KindId, id: HandlerId) -> Option<Arc<Handler>> {
        let chain = &self.kinds.get(&kind)?.chain;
        chain.iter().find(|handler| handler.id == id).cloned()
    }

    /// Adds a handler after those of its role.
    pub(crate) fn add(
        &mut self,
        kind: KindId,
        role: Role,
        code: Box<dyn ErasedHandler>,
    ) -> HandlerId {
        let id = self.next();
        let handler = Arc::new(Handler::new(id, role, code));
        if let Some(kind) = self.kinds.get_mut(&kind) {
            let mut chain = kind.chain.to_vec();
            let at = chain.partition_point(|it| it.role <= role);
            chain.insert(at, handler);
            kind.chain = chain.into();
            kind.unhandled = false;
        }
        id
    }

    /// Removes the handlers of `kind` that match. Returns them.
    pub(crate) fn remove(
        &mut self,
        kind: KindId,
        matches: impl Fn(&Handler) -> bool,
    ) -> Vec<Arc<Handler>> {
        let Some(kind) = self.kinds.get_mut(&kind) else {
            return Vec::new();
        };
        let (removed, kept): (Vec<_>, Vec<_>) =
            kind.chain.iter().cloned().partition(|it| matches(it));
        if removed.is_empty() {
            return Vec::new();
        }
        kind.chain = kept.into();
        for handler in &removed {
            handler.remove();
        }
        removed
    }

    /// The mappers of `kind`.
    pub(crate) fn mappers(&self, kind: KindId) -> Mappers {
        let kind = self.kinds.get(&kind);
        kind.map_or_else(|| Mappers::from([]), |kind| Arc::clone(&kind.mappers))
    }

    /// Adds a mapper from `kind` to the kind `to`.
    pub(crate) fn add_mapper(
        &mut self,
        kind: KindId,
        to: KindId,
        code: Box<dyn ErasedMapper>,
    ) -> HandlerId {
        let id = self.next();
        if let Some(kind) = self.kinds.get_mut(&kind) {
            let mapper = Arc::new(RegisteredMapper { id, to, code });
            kind.mappers = kind.mappers.iter().cloned().chain([mapper]).collect();
        }
        id
    }

    /// Removes the mapper with this id from `kind`, or all mappers. Returns them.
    pub(crate) fn remove_mappers(
        &mut self,
        kind: KindId,
        id: Option<HandlerId>,
    ) -> Vec<Arc<RegisteredMapper>> {
        let Some(kind) = self.kinds.get_mut(&kind) else {
            return Vec::new();
        };
        let matches = |it: &Arc<RegisteredMapper>| id.is_none_or(|id| it.id == id);
        let (removed, kept): (Vec<_>, Vec<_>) = kind.mappers.iter().cloned().partition(matches);
        kind.mappers = kept.into();
        removed
    }

    fn next(&mut self) -> HandlerId {
        let id = HandlerId(self.handlers);
        self.handlers += 1;
        id
    }
}

#[cfg(test)]
mod tests;
