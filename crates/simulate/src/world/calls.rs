//! The calls of handlers and their checks, and the external resources.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::ObjectMeta;
use serde_json::Value;
use tokio::time::Instant;
use windlass_controller::Action;

use super::{Origin, World, other_clients::FOREIGN};
use crate::{
    oracle,
    received::{LastCall, Received, Trigger},
};

/// The calls in progress, and the last call for each object.
#[derive(Default)]
pub(super) struct Calls {
    /// By process, handler and object.
    open: BTreeMap<(Origin, String, String), u32>,
    /// By process, handler and uid.
    last: BTreeMap<(Origin, String, String), LastCall>,
}

/// A call in progress. The call ends when this guard is dropped.
pub(crate) struct CallGuard<'w> {
    world: &'w World,
    origin: Origin,
    handler: String,
    object: String,
}

impl World {
    /// Records that a call begins, and checks it.
    pub(crate) fn call(
        &self,
        origin: Origin,
        handler: &str,
        (trigger, action): (Trigger, Action),
        object: &str,
        meta: &ObjectMeta,
    ) -> CallGuard<'_> {
        let version: Option<u64> = (meta.resource_version.as_ref()).and_then(|it| it.parse().ok());
        let mut state = self.state.lock();
        let key = (origin, handler.to_owned(), object.to_owned());
        let open = state.calls.open.entry(key).or_default();
        *open += 1;
        let overlaps = *open > 1;
        let uid = meta.uid.clone().unwrap_or_default();
        let key = (origin, handler.to_owned(), uid);
        let before = state.calls.last.get(&key).and_then(|last| last.version);
        let mut finalizers = meta.finalizers.iter().flatten();
        let last = LastCall {
            object: object.to_owned(),
            trigger,
            version: version.max(before),
            generation: meta.generation,
            has_finalizer: finalizers.any(|it| it != FOREIGN),
            is_deletion: action == Action::Deleted,
        };
        state.calls.last.insert(key, last);
        let ended = state.writes.time_without_lease(origin, Instant::now());
        drop(state);
        if overlaps {
            let text = format!("{handler} was called for {object} during another call for it");
            self.report_violation(oracle::SERIALIZED, text);
        }
        if let (Some(before), Some(version)) = (before, version)
            && version < before
        {
            let text = format!("{handler} received version {version} of {object} after {before}");
            self.report_violation(oracle::VERSIONS, text);
        }
        if let Some(ago) = ended {
            let text = format!(
                "{origin} began a call of {handler} for {object} {ago:?} after its lease had ended"
            );
            self.report_violation(oracle::LEADER, text);
        }
        CallGuard {
            world: self,
            origin,
            handler: handler.to_owned(),
            object: object.to_owned(),
        }
    }

    /// What the handlers of the running processes have received of `objects`, which are all objects of
    /// the server.
    pub(crate) fn received(&self, objects: &[(String, Value)]) -> Received {
        let state = self.state.lock();
        let calls = || state.calls.last.iter();
        let cleaning: BTreeSet<_> = calls()
            .filter(|(_, last)| last.trigger == Trigger::Level && last.is_deletion)
            .map(|((_, handler, _), _)| handler.clone())
            .collect();
        let of_running = calls().filter(|((origin, ..), _)| {
            let own = &state.replicas[origin.replica];
            let runs = own.incarnation == origin.incarnation && !own.crash.is_cancelled();
            // A process that does not lead any more receives no events.
            runs && state.writes.may_lead(*origin)
        });
        let of_running =
            of_running.map(|((_, handler, uid), last)| (handler.as_str(), uid.as_str(), last));
        Received::new(objects, cleaning, of_running)
    }

    /// Writes an external resource. `None` removes it. Returns the previous value.
    pub(crate) fn set_external(&self, name: &str, value: Option<String>) -> Option<String> {
        let mut state = self.state.lock();
        match value {
            Some(value) => state.external.insert(name.to_owned(), value),
            None => state.external.remove(name),
        }
    }

    /// The value of an external resource.
    pub(crate) fn external(&self, name: &str) -> Option<String> {
        self.state.lock().external.get(name).cloned()
    }
}

// === impl CallGuard ===

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.world.state.lock();
        let key = (
            self.origin,
            std::mem::take(&mut self.handler),
            std::mem::take(&mut self.object),
        );
        if let Some(open) = state.calls.open.get_mut(&key) {
            *open -= 1;
        }
    }
}
