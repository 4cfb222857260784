//! `WrapperCall`: a call of a wrapper, and what decides about it.

use std::sync::Arc;

use kube::Resource;
use serde::Serialize;

use super::{
    super::{
        change,
        inner_call::InnerCall,
        next_step::{Cause, Change, Observed, Unfinished},
        versions::{is_not_newer, is_older_state, is_terminating},
    },
    OpinionatedReconciler,
};
use crate::{Action, Outcome, Reconciler, Request, State};

/// A call of a wrapper for an object that exists.
pub(super) struct WrapperCall<K> {
    pub(super) request: Request<K>,
    /// The newest known state of the object.
    pub(super) object: Arc<K>,
    /// The last state that the inner handler received, or the old state of the event.
    pub(super) old: Option<Arc<K>>,
    pub(super) observed: Observed,
    /// The call that an earlier one has left.
    pub(super) earlier: Option<InnerCall<K>>,
}

// === impl WrapperCall ===

impl<K: Send + Sync + 'static> WrapperCall<K> {
    /// The outcome if nothing is left to do: that of an earlier call whose finalizer is written now.
    pub(super) fn finished(&self) -> Outcome {
        let earlier = self.earlier.as_ref();
        let unwritten = earlier.and_then(|it| Some((it.action, it.unwritten.clone()?)));
        unwritten.map_or(Outcome::done(), |(action, outcome)| {
            InnerCall::<K>::requeued(action, outcome)
        })
    }

    /// The call of the inner handler with `action` that continues the earlier one.
    pub(super) fn inner(&self, action: Action, added: bool) -> InnerCall<K> {
        let earlier = self.earlier.clone();
        let inner = earlier.unwrap_or_else(|| InnerCall::new(action, added));
        inner.continued_as(action, added)
    }
}

// === impl OpinionatedReconciler ===

impl<K, R> OpinionatedReconciler<K, R>
where
    K: Resource + Serialize + Send + Sync + 'static,
    R: Reconciler<K>,
{
    /// Collects what decides about the next step, and notes what the informer has shown.
    pub(super) fn observe(&self, request: Request<K>) -> WrapperCall<K> {
        let state = &self.state;
        let shown = request.object();
        let object = state.newest(shown);
        let cause = match request.action() {
            Action::Updated => Cause::Updated,
            Action::Resynced => Cause::Resynced,
            _ => Cause::Added,
        };
        let (given, old) = (state.given(&object), request.old());
        let change = self.change(cause, &object, given.as_ref(), old);
        let terminating = is_terminating(&*object);
        let is_stale = state.is_stale(&object);
        let was_held = state.was_held(old.map(|old| &**old), terminating);
        let given = given.filter(|given| is_older_state(given, &object));
        let old = given.or_else(|| old.cloned());
        // What is observed above refers to the time before this event.
        state.note_shown(shown);
        let earlier = self.earlier(&request, &object);
        let repeated = request.attempt.is_repeated;
        let unfinished = match &earlier {
            Some(earlier) => earlier.unfinished(),
            // Another call of the watcher has succeeded since.
            None if self.settings.for_watcher && repeated && cause == Cause::Added => {
                Some(Unfinished::Add)
            }
            None => None,
        };
        let observed = Observed {
            settings: self.settings,
            cause,
            change,
            repeated,
            unfinished,
            progress: state.progress(&object),
            presence: state.finalizers.presence(object.meta()),
            terminating,
            was_held,
            stale: is_stale,
            lost_old: request.attempt.has_lost_old,
        };
        WrapperCall {
            request,
            object,
            old,
            observed,
            earlier,
        }
    }

    /// The call that an earlier one has left.
    pub(super) fn earlier(&self, request: &Request<K>, object: &K) -> Option<InnerCall<K>> {
        if self.settings.for_watcher {
            return self.state.unfinished(object);
        }
        request
            .state()
            .and_then(State::get::<InnerCall<K>>)
            .cloned()
    }

    /// How `object` differs from the state that the inner handler was last `given`, or from the `old`
    /// state of its event.
    fn change(
        &self,
        cause: Cause,
        object: &Arc<K>,
        given: Option<&Arc<K>>,
        old: Option<&Arc<K>>,
    ) -> Change {
        let for_watcher = self.settings.for_watcher;
        let is_update = cause == Cause::Updated;
        if is_update && !for_watcher {
            // `on_event` has rejected those that are not.
            return Change::Relevant;
        }
        let since = match given {
            Some(given) if is_older_state(given, object) => Some(given),
            Some(given) if is_not_newer(object, given) => return Change::Irrelevant,
            _ => old.filter(|_| is_update),
        };
        let finalizers = &self.state.finalizers;
        let is_relevant = |since: &K| {
            if for_watcher {
                change::matters(finalizers, since, object)
            } else {
                !change::is_echo(finalizers, since, object)
            }
        };
        match since {
            None => Change::Unknown,
            Some(since) if is_relevant(since) => Change::Relevant,
            Some(_) => Change::Irrelevant,
        }
    }
}
