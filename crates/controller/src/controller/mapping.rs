//! From a change of one object to resyncs of the objects that mappers name.
//!
//! A mapper names keys, and the informer of those objects emits a resync of each, after
//! everything that has happened to it. The priority of a resync is kept here until it comes. So
//! the resyncs are bounded by the objects that exist, however far behind the handlers are.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tracing::Span;
use windlass_informer::{ObjectKey, ResyncHandle};

use super::{Shared, report::ErrorReport};
use crate::{
    Action, HandlerError,
    event::AnyEvent,
    route::{KindId, RegisteredMapper, Role},
    schedule::Priority,
    trace, work,
};

/// The keys of one informer for which a resync was requested.
#[derive(Default)]
pub(super) struct TriggeredKeys {
    /// None until the controller is subscribed, which shows it every object anyway.
    resync: OnceLock<ResyncHandle>,
    /// The priority of each resync, until it comes. Only of objects that are in the store.
    priorities: Mutex<HashMap<ObjectKey, Priority>>,
}

/// Asks `mappers` about `event` of `kind`, and requests resyncs of the objects that they name, of
/// the priority of the event.
pub(super) fn map(
    shared: &Shared,
    mappers: &[Arc<RegisteredMapper>],
    kind: KindId,
    event: &AnyEvent,
    priority: Priority,
    parent: &Span,
) {
    if mappers.is_empty() {
        return;
    }
    let _entered = parent.enter();
    let mut named: HashMap<KindId, HashSet<ObjectKey>> = HashMap::new();
    for mapper in mappers {
        let keys = mapped_keys(shared, kind, mapper, event);
        named.entry(mapper.to).or_default().extend(keys);
    }
    // The object that has changed is dispatched for that already.
    if let Some((named, object)) = named.get_mut(&kind).zip(event.object()) {
        named.remove(&object.key());
    }
    for (kind, keys) in named {
        let triggered = shared.trigger(kind, &keys, priority);
        if let Some(metrics) = shared.route.read().metrics(kind) {
            metrics.mapped(triggered);
        }
    }
}

/// The keys that one mapper names. A mapper that fails is reported as a failed call.
fn mapped_keys(
    shared: &Shared,
    kind: KindId,
    mapper: &RegisteredMapper,
    event: &AnyEvent,
) -> Vec<ObjectKey> {
    let Some((action, object)) = Action::of(event).zip(event.object()) else {
        return Vec::new();
    };
    let span = trace::handler(Role::Mapper, mapper.id, action, 0);
    let (keys, failed) = span.in_scope(|| work::map(&*mapper.code, event));
    trace::mapped(&span, failed.as_ref());
    if let Some(error) = failed {
        let (name, metrics) = {
            let route = shared.route.read();
            (route.name(kind), route.metrics(kind))
        };
        if let (HandlerError::Panicked { .. }, Some(metrics)) = (&error, metrics) {
            metrics.mapper_panicked();
        }
        let report = ErrorReport {
            kind: &name,
            key: &object.key(),
            handler: mapper.id,
            handler_type: mapper.code.type_name(),
            role: Role::Mapper,
            action,
            attempt: 0,
            error: &error,
            retry_in: None,
        };
        work::call_user_code("on_error", || (shared.settings.on_error)(&report));
    }
    keys
}

// === impl TriggeredKeys ===

impl TriggeredKeys {
    /// Requests resyncs from `resync` from now on.
    pub(super) fn listen(&self, resync: ResyncHandle) {
        // A feed is pumped once.
        _ = self.resync.set(resync);
    }

    /// Requests a resync of those of `keys` that are in the store. Returns how many they are.
    pub(super) fn trigger(
        &self,
        keys: &HashSet<ObjectKey>,
        priority: Priority,
        is_stored: impl Fn(&ObjectKey) -> bool,
    ) -> usize {
        let Some(resync) = self.resync.get() else {
            return 0;
        };
        let stored: Vec<_> = {
            // Looked up under the lock: an object that goes after that finds its entry.
            let mut priorities = self.priorities.lock();
            let stored = keys.iter().filter(|key| is_stored(key));
            let stored = stored.inspect(|key| {
                let known = priorities.entry((*key).clone()).or_insert(priority);
                *known = priority.min(*known);
            });
            stored.cloned().collect()
        };
        let triggered = stored.len();
        if triggered > 0 {
            resync.request(stored);
        }
        triggered
    }

    /// The priority of the resync of `key`, which has come, or whose object is gone.
    pub(super) fn take(&self, key: &ObjectKey) -> Option<Priority> {
        self.priorities.lock().remove(key)
    }
}
