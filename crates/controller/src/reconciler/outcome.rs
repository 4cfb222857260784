//! `Outcome`: the success of a call, and whether to requeue.

use std::time::Duration;

use super::State;

/// What is to follow a call that went well.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_controller::{Outcome, State};
///
/// let outcome = Outcome::requeue_after(Duration::from_secs(30)).state(State::new(1));
/// assert_eq!(outcome.delay(), Some(Duration::from_secs(30)));
/// assert_eq!(Outcome::done().delay(), None);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "an outcome says whether the call is made again"]
pub struct Outcome {
    requeue_after: Option<Duration>,
    state: Option<State>,
}

// === impl Outcome ===

impl Outcome {
    /// Nothing more is to be done until something happens.
    pub const fn done() -> Self {
        Self {
            requeue_after: None,
            state: None,
        }
    }

    /// The same call is to be made again after `delay`, unless something happens before.
    pub const fn requeue_after(delay: Duration) -> Self {
        Self {
            requeue_after: Some(delay),
            state: None,
        }
    }

    /// What the next call of this request finds. Kept only where there is a next call.
    pub fn state(self, state: State) -> Self {
        Self {
            state: Some(state),
            ..self
        }
    }

    /// After how long the call is made again, if it is.
    #[must_use]
    pub const fn delay(&self) -> Option<Duration> {
        self.requeue_after
    }

    pub(crate) fn into_state(self) -> Option<State> {
        self.state
    }
}
