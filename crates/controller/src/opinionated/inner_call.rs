//! `InnerCall`: a call of the inner handler of a wrapper. *(pure)*

use std::sync::Arc;

use super::next_step::Unfinished;
use crate::{Action, Failure, Outcome, State};

/// A call of the inner handler, which a later call for the object may continue.
///
/// The requests of a reconciler carry it as their [`State`]; that of a watcher is remembered.
#[derive(Debug)]
pub(super) struct InnerCall<K> {
    pub(super) action: Action,

    /// Whether the inner handler has added the object before.
    pub(super) added: bool,

    /// The old state of an update.
    pub(super) old: Option<Arc<K>>,

    /// The state that the inner handler has left.
    pub(super) state: Option<State>,

    /// Whether its predicates have accepted the call, which a repetition does not ask again.
    pub(super) accepted: bool,

    /// The outcome, if the call has succeeded and only the finalizer could not be written.
    pub(super) unwritten: Option<Outcome>,
}

// === impl InnerCall ===

impl<K> InnerCall<K> {
    /// A first call.
    pub(super) const fn new(action: Action, added: bool) -> Self {
        Self {
            action,
            added,
            old: None,
            state: None,
            accepted: false,
            unwritten: None,
        }
    }

    /// An add that has succeeded with `outcome`, and whose finalizer could not be written.
    pub(super) fn unwritten(outcome: Outcome) -> Self {
        Self {
            state: outcome.clone().into_state(),
            accepted: true,
            unwritten: Some(outcome),
            ..Self::new(Action::Created, true)
        }
    }

    /// The call with `action` that continues this one.
    pub(super) fn continued_as(self, action: Action, added: bool) -> Self {
        Self {
            state: self.state,
            accepted: self.accepted,
            ..Self::new(action, added)
        }
    }

    /// What is left to do if the object exists.
    pub(super) const fn unfinished(&self) -> Option<Unfinished> {
        match self.action {
            _ if self.unwritten.is_some() => Some(Unfinished::Finalizer),
            Action::Created if !self.added => Some(Unfinished::Add),
            // The clean-up was for an earlier life of the object.
            Action::Deleted => None,
            action => Some(Unfinished::Call(action)),
        }
    }
}

impl<K: Send + Sync + 'static> InnerCall<K> {
    /// Adds this call to its failure, for the next call of the request and for reports.
    pub(super) fn failed(self, failure: Failure) -> Failure {
        failure.inner_action(self.action).state_as(|left| {
            State::new(Self {
                state: left.or(self.state),
                ..self
            })
        })
    }

    /// Adds a call with `action` to its outcome, for the next call of the request.
    pub(super) fn requeued(action: Action, outcome: Outcome) -> Outcome {
        let Some(delay) = outcome.delay() else {
            return outcome;
        };
        Outcome::requeue_after(delay).state(State::new(Self {
            state: outcome.into_state(),
            accepted: true,
            ..Self::new(action, true)
        }))
    }
}

// Not derived, because that would require `K: Clone`.
impl<K> Clone for InnerCall<K> {
    fn clone(&self) -> Self {
        Self {
            action: self.action,
            added: self.added,
            old: self.old.clone(),
            state: self.state.clone(),
            accepted: self.accepted,
            unwritten: self.unwritten.clone(),
        }
    }
}
