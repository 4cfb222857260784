//! The events that a wrapper has to process: not those whose state the inner handler has received.

use std::sync::Arc;

use kube::Resource;
use serde::Serialize;
use windlass_informer::Event;

use super::{
    change,
    finalizer_state::FinalizerState,
    memory::Progress,
    versions::{is_not_newer, is_older, is_older_state, is_terminating},
};
use crate::{Predicate, finalizer::FinalizerPresence};

// === impl FinalizerState ===

impl<K: Resource + Serialize + Send + Sync + 'static> FinalizerState<K> {
    /// Whether `new` only shows a patch of ours, compared with `old`.
    pub(super) fn is_echo(&self, old: &K, new: &K) -> bool {
        change::is_echo(&self.finalizers, old, new)
    }

    /// Whether the inner handler has to receive the change from `old` to `new`. Not if it
    /// has received `new` or a newer state.
    pub(super) fn matters(&self, old: &Arc<K>, new: &Arc<K>) -> bool {
        match self.given(new) {
            Some(given) if is_older_state(&given, new) => {
                change::matters(&self.finalizers, &given, new)
            }
            Some(_) => false,
            None => change::matters(&self.finalizers, old, new),
        }
    }

    /// Whether the inner handler has received what `event` shows: it is not newer than the last
    /// received state, or only shows a patch of ours. If so, notes what the informer has shown; for
    /// other events the wrapper notes it.
    fn is_known(&self, event: &Event<K>) -> bool {
        let (Event::Added(new) | Event::Updated { new, .. } | Event::Resynced(new)) = event else {
            return false;
        };
        let given = self.given(new);
        let known = match event {
            Event::Updated { old, .. } => match given {
                Some(given) if is_not_newer(new, &given) => true,
                Some(given) => change::is_echo(&self.finalizers, &given, new),
                None => {
                    // Decoding the old state is expensive. Our patches change the finalizers.
                    let own = self.finalizers.presence(new) != FinalizerPresence::Absent;
                    let changed = own && old.metadata().finalizers != new.meta().finalizers;
                    let old = if changed { old.get().ok() } else { None };
                    old.is_some_and(|old| change::is_echo(&self.finalizers, &old, new))
                }
            },
            _ => false,
        };
        if known {
            self.note_shown(new);
        }
        known
    }

    /// Whether the wrapper needs `event` for its finalizer: the object has to be cleaned up, or the
    /// finalizer has changed.
    pub(super) fn needs(&self, event: &Event<K>) -> bool {
        let Some(object) = event.object() else {
            return false;
        };
        let presence = self.finalizers.presence(object);
        let is_ours =
            || presence != FinalizerPresence::Absent || self.with(object, |_| ()).is_some();
        match event {
            Event::Deleted { .. } => is_ours(),
            Event::Updated { old, .. }
                if self.finalizers.presence_in(&old.metadata()) != presence =>
            {
                true
            }
            _ => is_terminating(&**object) && is_ours(),
        }
    }
}

impl<K: Resource + Send + Sync + 'static> FinalizerState<K> {
    /// Notes that the informer has shown `object`.
    pub(super) fn note_shown(&self, object: &Arc<K>) {
        if self.with(object, |_| ()).is_none() {
            return;
        }
        let has_finalizer =
            self.finalizers.presence(object) == (FinalizerPresence::Held { tidy: true });
        let version = object.meta().resource_version.as_deref();
        self.change(object, |memory| {
            if is_older(version, memory.patched.as_deref()) {
                return;
            }
            memory.patched = None;
            let is_shown = |given: &Arc<K>| !is_older_state(object, given);
            // A repeated call that writes the finalizer compares with it.
            let is_written = memory.progress != Some(Progress::Added);
            if is_written && memory.given.as_ref().is_some_and(is_shown) {
                memory.given = None;
            }
            // A finalizer that another process has written shows that it has added the object.
            let is_shown = [Progress::Held, Progress::Begun { held: false }];
            if has_finalizer && memory.progress.is_some_and(|it| is_shown.contains(&it)) {
                memory.progress = None;
            }
        });
    }
}

/// Rejects what the inner handler has received.
impl<K: Resource + Serialize + Send + Sync + 'static> Predicate<K> for FinalizerState<K> {
    fn passes(&self, event: &Event<K>) -> bool {
        !self.is_known(event)
    }
}
