//! The calls of handlers, and the external resources that they write.

use std::collections::BTreeMap;

use super::{Origin, World};
use crate::oracle;

/// The calls that are in progress, and what the handlers have seen.
#[derive(Default)]
pub(super) struct Calls {
    /// By process, handler and object.
    open: BTreeMap<(Origin, String, String), u32>,
    /// By process, handler and uid: the highest version.
    versions: BTreeMap<(Origin, String, String), u64>,
}

/// A call in progress; it ends when this is dropped.
pub(crate) struct CallId<'w> {
    world: &'w World,
    origin: Origin,
    handler: String,
    object: String,
}

impl World {
    /// Notes that a call begins.
    pub(crate) fn call(
        &self,
        origin: Origin,
        handler: &str,
        object: &str,
        uid: &str,
        version: Option<u64>,
    ) -> CallId<'_> {
        let mut state = self.state.lock();
        let key = (origin, handler.to_owned(), object.to_owned());
        let open = state.calls.open.entry(key).or_default();
        *open += 1;
        let overlaps = *open > 1;
        let key = (origin, handler.to_owned(), uid.to_owned());
        let before = state.calls.versions.get(&key).copied();
        if let Some(version) = version {
            let highest = before.map_or(version, |before| before.max(version));
            state.calls.versions.insert(key, highest);
        }
        drop(state);
        if overlaps {
            let text = format!("{handler} was called for {object} during another call for it");
            self.violate(oracle::SERIALIZED, text);
        }
        if let (Some(before), Some(version)) = (before, version)
            && version < before
        {
            let text = format!("{handler} was given version {version} of {object} after {before}");
            self.violate(oracle::VERSIONS, text);
        }
        CallId {
            world: self,
            origin,
            handler: handler.to_owned(),
            object: object.to_owned(),
        }
    }

    /// Writes an external resource; `None` removes it. Returns the value before.
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

// === impl CallId ===

impl Drop for CallId<'_> {
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
