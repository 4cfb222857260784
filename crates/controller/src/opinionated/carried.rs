//! The state that a wrapped call leaves for the next call of its request. *(pure)*

use crate::{Action, Failure, Outcome, State};

/// The [`State`] of a wrapper's call, which contains the state of the inner handler.
#[derive(Clone, Debug)]
pub(super) struct WrappedState {
    /// The action with which the inner handler was called.
    pub(super) passed_as: Action,

    /// Whether the inner handler has added the object, in that call or before it.
    pub(super) added: bool,

    pub(super) inner: InnerCall,

    /// The outcome of the inner handler, if it has succeeded and only the finalizer could not be
    /// written.
    pub(super) unwritten: Option<Outcome>,
}

/// What the next call of the inner handler continues.
#[derive(Clone, Debug, Default)]
pub(super) struct InnerCall {
    /// The state that the inner handler has left.
    pub(super) state: Option<State>,

    /// Whether its predicates have accepted the call, which a repetition does not ask again.
    pub(super) accepted: bool,
}

/// Wraps a failure of the inner handler for the engine, with the state for the next call.
pub(super) fn carry_failure(
    failure: Failure,
    passed_as: Action,
    added: bool,
    inner: InnerCall,
) -> Failure {
    failure.state_as(|left| {
        State::new(WrappedState {
            passed_as,
            added,
            inner: InnerCall {
                state: left.or(inner.state),
                ..inner
            },
            unwritten: None,
        })
    })
}

/// Wraps an outcome of the inner handler for the engine, with the state for the next call.
pub(super) fn carry_outcome(outcome: Outcome, passed_as: Action) -> Outcome {
    match outcome.delay() {
        None => outcome,
        Some(delay) => Outcome::requeue_after(delay).state(State::new(WrappedState {
            passed_as,
            added: true,
            inner: InnerCall {
                state: outcome.into_state(),
                accepted: true,
            },
            unwritten: None,
        })),
    }
}
