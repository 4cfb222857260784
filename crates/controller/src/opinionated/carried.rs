//! What a wrapped call leaves for the next call of its request. *(pure)*

use crate::{Action, Failure, Outcome, State};

/// What a call leaves for the next call of the same request, of ours and of those to whom it
/// was passed on.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    /// What the request was passed on as.
    pub(super) passed_as: Action,
    /// Their state.
    pub(super) state: Option<State>,
    /// What they said, if the call has succeeded and only the finalizer is owed.
    pub(super) owed: Option<Outcome>,
}

/// The failure as it goes to the engine, with what the next call of this request needs.
pub(super) fn carry(failure: Failure, passed_as: Action, state: Option<State>) -> Failure {
    failure.state_as(|left| {
        State::new(Carried {
            passed_as,
            state: left.or(state),
            owed: None,
        })
    })
}

/// The outcome as it goes to the engine, with what the next call of this request needs.
pub(super) fn carry_on(outcome: Outcome, passed_as: Action, state: Option<State>) -> Outcome {
    match outcome.delay() {
        None => outcome,
        Some(delay) => Outcome::requeue_after(delay).state(State::new(Carried {
            passed_as,
            state,
            owed: None,
        })),
    }
}
