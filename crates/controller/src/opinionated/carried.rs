//! The state that a wrapped call leaves for the next call of its request. *(pure)*

use crate::{Action, Failure, Outcome, State};

/// The [`State`] of a wrapper's call, which contains the state of the inner handler.
#[derive(Clone, Debug)]
pub(super) struct WrappedState {
    /// The action with which the inner handler was called.
    pub(super) passed_as: Action,

    /// Whether the inner handler has added the object, in that call or before it.
    pub(super) added: bool,

    /// The state of the inner handler.
    pub(super) state: Option<State>,

    /// The outcome of the inner handler, if it has succeeded and only the finalizer could not be
    /// written.
    pub(super) unwritten: Option<Outcome>,
}

/// Wraps a failure of the inner handler for the engine, with the state for the next call.
pub(super) fn carry_failure(
    failure: Failure,
    passed_as: Action,
    added: bool,
    state: Option<State>,
) -> Failure {
    failure.state_as(|left| {
        State::new(WrappedState {
            passed_as,
            added,
            state: left.or(state),
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
            state: outcome.into_state(),
            unwritten: None,
        })),
    }
}
