//! The events that a wrapper has to process: not those whose state the inner handler has received.

use std::sync::Arc;

use kube::Resource;
use serde::Serialize;
use windlass_informer::{Event, LazyObject, Uid};

use super::{
    change,
    finalizer_state::FinalizerState,
    memory::Progress,
    versions::{is_not_newer, is_older, is_older_state, is_terminating},
};
use crate::{
    Interest, OpinionatedReconciler, Reconciler,
    finalizer::{FinalizerPresence, OnEvent},
};

// === impl FinalizerState ===

impl<K: Resource + Serialize + Send + Sync + 'static> FinalizerState<K> {
    /// Whether the inner handler has received `new`, the new state of an update: it is not newer than
    /// the last received state, or only shows a patch of ours.
    fn is_received(&self, old: &LazyObject<K>, new: &Arc<K>) -> bool {
        match self.given(new) {
            Some(given) if is_not_newer(new, &given) => true,
            Some(given) => {
                change::is_echo(&self.finalizers, &given, new)
                    || (is_shown_in(old, &given) && self.is_own_patch(old, new))
            }
            None => self.is_own_patch(old, new),
        }
    }

    /// Whether the update from `old`, whose own event was passed or rejected, only shows a patch of
    /// ours.
    fn is_own_patch(&self, old: &LazyObject<K>, new: &Arc<K>) -> bool {
        // Decoding the old state is expensive. Our patches change the finalizers.
        let own = self.finalizers.presence(new.meta()) != FinalizerPresence::Absent;
        let changed = own && old.metadata().finalizers != new.meta().finalizers;
        let old = if changed { old.get().ok() } else { None };
        old.is_some_and(|old| change::is_echo(&self.finalizers, &old, new))
    }

    /// Whether the wrapper needs `event` for its finalizer: the object has to be cleaned up, or the
    /// finalizer has changed.
    fn needs(&self, event: &Event<K>) -> bool {
        let Some(object) = event.object() else {
            return false;
        };
        let presence = self.finalizers.presence(object.meta());
        let is_ours =
            || presence != FinalizerPresence::Absent || self.with(object, |_| ()).is_some();
        match event {
            Event::Deleted { .. } => is_ours(),
            Event::Updated { old, .. } if self.finalizers.presence(&old.metadata()) != presence => {
                true
            }
            _ => is_terminating(&**object) && is_ours(),
        }
    }
    /// Notes what `event` shows, and returns whether the wrapper is called for it.
    pub(super) fn on_event(&self, event: &Event<K>) -> Interest {
        if let Event::Updated { old, new } = event
            && self.is_received(old, new)
        {
            // For other events the wrapper notes it, after it has compared the states.
            self.note_shown(new);
            return Interest::No;
        }
        if self.needs(event) {
            Interest::Needed
        } else {
            Interest::Yes
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
            self.finalizers.presence(object.meta()) == (FinalizerPresence::Held { tidy: true });
        let version = object.meta().resource_version.as_deref();
        self.change(object, |memory| {
            if is_older(version, memory.patched.as_deref()) {
                return;
            }
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
            // A failed add may be repeated with a state from before it, which may have a finalizer of an
            // earlier life.
            if memory.progress != Some(Progress::Begun { held: false }) {
                memory.patched = None;
            }
        });
    }
}

// === impl OpinionatedReconciler ===

impl<K, R> OnEvent<K> for OpinionatedReconciler<K, R>
where
    K: Resource + Serialize + Send + Sync + 'static,
    R: Reconciler<K>,
{
    fn awaits(&self, uid: Option<&Uid>) -> bool {
        self.state.memories.lock().get(uid).is_some()
    }

    fn on_event(&self, event: &Event<K>) -> Interest {
        self.state.on_event(event)
    }

    fn on_repetition(&self, event: &Event<K>) -> Interest {
        match self.state.on_event(event) {
            Interest::Needed if !event.object().is_some_and(|it| is_terminating(&**it)) => {
                Interest::Needed
            }
            Interest::Yes | Interest::Needed if self.accepts_repetition(event) => Interest::Yes,
            _ => Interest::No,
        }
    }
}

/// Whether the informer shows `given` or a newer state in `old`, so that no change between them is
/// left. Otherwise such a change may have been undone, and `old` does not show it.
fn is_shown_in<K: Resource + Send + Sync + 'static>(old: &LazyObject<K>, given: &Arc<K>) -> bool {
    let (shown, given) = (old.metadata(), given.meta());
    let (shown, given) = (&shown.resource_version, &given.resource_version);
    shown == given || is_older(given.as_deref(), shown.as_deref())
}
