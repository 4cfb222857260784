//! Requests resyncs of the objects that mappers return.
//!
//! A mapper returns keys, and the informer of those objects emits a resync of each, after all its
//! earlier events. The priority of a resync is stored here until it arrives. So the number of
//! resyncs is bounded by the number of objects, however slow the handlers are.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use windlass_informer::{ObjectKey, ResyncHandle};

use super::Shared;
use crate::{
    Action, ErrorReport, HandlerError, Reasons, Role,
    event::AnyEvent,
    route::{KindId, RegisteredMapper},
    schedule::Priority,
    trace, work,
};

/// The resyncs that were requested from one informer and have not arrived.
#[derive(Default)]
pub(super) struct RequestedResyncs {
    /// `None` until the controller has subscribed. The subscription begins with all objects.
    resync: OnceLock<ResyncHandle>,
    /// The priority of each requested resync. Only of objects that are in the store.
    priorities: Mutex<HashMap<ObjectKey, Priority>>,
}

/// Calls `mappers` with `event` of `kind`, and requests resyncs of the returned objects with the
/// priority of the event.
pub(super) fn map(
    shared: &Shared,
    mappers: &[Arc<RegisteredMapper>],
    kind: KindId,
    (event, is_from_list): (&AnyEvent, bool),
    resource: &str,
    priority: Priority,
) {
    let mut named: BTreeMap<KindId, BTreeSet<ObjectKey>> = BTreeMap::new();
    for mapper in mappers {
        let keys = mapped_keys(shared, kind, mapper, event);
        named.entry(mapper.to).or_default().extend(keys);
    }
    // The changed object itself is dispatched already.
    if let Some((named, object)) = named.get_mut(&kind).zip(event.object()) {
        named.remove(&object.key());
    }
    for (kind, keys) in named {
        let requested = if shared.settings.level_triggered {
            let mut keys = keys;
            if let Some(own) = shared.own_writes.get() {
                keys.retain(|lane| own.wakes(lane, resource, event, is_from_list));
            }
            shared.wake(kind, keys, priority, Reasons::RELATED)
        } else {
            shared.request_resyncs(kind, &keys, priority)
        };
        if let Some(metrics) = shared.route.read().metrics(kind) {
            metrics.mapped(requested);
        }
    }
}

/// Calls one mapper. An error of a mapper is reported like a failed call.
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
            object: Some(object),
            random: 0.0,
        };
        work::call_user_code("on_error", || (shared.settings.on_error)(&report));
    }
    keys
}

// === impl RequestedResyncs ===

impl RequestedResyncs {
    /// Sets the handle through which resyncs are requested.
    pub(super) fn listen(&self, resync: ResyncHandle) {
        // Each feed is run once.
        _ = self.resync.set(resync);
    }

    /// Requests resyncs of the `keys` that are in the store. Returns their number.
    pub(super) fn request(
        &self,
        keys: &BTreeSet<ObjectKey>,
        priority: Priority,
        is_stored: impl Fn(&ObjectKey) -> bool,
    ) -> usize {
        let Some(resync) = self.resync.get() else {
            return 0;
        };
        let stored: Vec<_> = {
            // Under the lock, so that a later delete finds and removes the entry.
            let mut priorities = self.priorities.lock();
            let stored = keys.iter().filter(|key| is_stored(key));
            let stored = stored.inspect(|key| {
                let known = priorities.entry((*key).clone()).or_insert(priority);
                *known = priority.min(*known);
            });
            stored.cloned().collect()
        };
        let requested = stored.len();
        if !stored.is_empty() {
            resync.request(stored);
        }
        requested
    }

    /// Removes and returns the priority of the resync of `key`, which has arrived or whose object
    /// was deleted.
    pub(super) fn take(&self, key: &ObjectKey) -> Option<Priority> {
        self.priorities.lock().remove(key)
    }
}
