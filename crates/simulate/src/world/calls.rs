//! The calls of handlers and their checks, and the external resources.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;
use serde_json::Value;
use tokio::time::Instant;
use windlass_controller::Action;

use super::{Origin, World};
use crate::oracle;

/// The calls in progress, and the newest states that handlers received.
#[derive(Default)]
pub(super) struct Calls {
    /// By process, handler and object.
    open: BTreeMap<(Origin, String, String), u32>,
    /// By process, handler and uid.
    seen: BTreeMap<(Origin, String, String), Seen>,
}

/// The newest state of one object that a handler received.
struct Seen {
    object: String,
    /// The highest resource version, if it is a number.
    version: Option<u64>,
    /// The generation in the last call.
    generation: Option<i64>,
    /// Whether the last call was for the deletion.
    deleted: bool,
}

/// At the end of a run: by handler and object, the newest state or deletion that the handler did
/// not receive.
pub(crate) type Unseen = BTreeMap<String, String>;

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
        action: Action,
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
        let before = state.calls.seen.get(&key).and_then(|seen| seen.version);
        let seen = Seen {
            object: object.to_owned(),
            version: version.max(before),
            generation: meta.generation,
            deleted: action == Action::Deleted,
        };
        state.calls.seen.insert(key, seen);
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

    /// The states of `objects`, which are all objects of the server, that handlers of running
    /// processes have not received.
    pub(crate) fn unseen(&self, objects: &[(String, Value)]) -> Unseen {
        let by_uid = |(_, object): &'_ (String, Value)| {
            let metadata = &object["metadata"];
            let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
            (uid, metadata["generation"].as_i64())
        };
        let generations: BTreeMap<_, _> = objects.iter().map(by_uid).collect();
        let state = self.state.lock();
        let mut unseen = Unseen::new();
        for ((origin, handler, uid), seen) in &state.calls.seen {
            let own = &state.replicas[origin.replica];
            let runs = own.incarnation == origin.incarnation && !own.crash.is_cancelled();
            // A process that does not lead any more receives no events.
            if !runs || !state.writes.may_lead(*origin) {
                continue;
            }
            let call = format!("{handler} of {}", seen.object);
            match generations.get(uid) {
                Some(generation) if *generation != seen.generation => {
                    let text = format!("saw generation {:?}, not {generation:?}", seen.generation);
                    unseen.insert(call, text);
                }
                None if !seen.deleted => {
                    unseen.insert(call, "was not called for its deletion".to_owned());
                }
                _ => {}
            }
        }
        unseen
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
