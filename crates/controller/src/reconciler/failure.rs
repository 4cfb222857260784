//! `Failure`: the error of a call, and whether and when to retry.

use std::{error::Error, fmt, time::Duration};

use super::State;
use crate::Action;

/// A failed call, with instructions for the retry.
///
/// Every error converts to a `Failure` with `?`, also `anyhow::Error` and `Box<dyn Error + Send +
/// Sync>`. Create one with [`new`](Self::new) to set the delay, prevent the retry, or keep a
/// [`State`]. It does not implement [`Error`], because a type cannot do that and convert from all
/// errors.
///
/// If the error or one of its sources is a [`kube::Error`] with the `retryAfterSeconds` of an API
/// server, the retry waits at least that long, up to 5 minutes. `anyhow::Error` hides the type of its
/// outermost error: there, use [`retry_after`](Self::retry_after).
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_controller::{Failure, State};
///
/// fn parse(port: &str) -> Result<u16, Failure> {
///     Ok(port.parse::<u16>()?)
/// }
/// assert_eq!(parse("http").unwrap_err().to_string(), "invalid digit found in string");
///
/// fn check(host: &str) -> Result<(), Failure> {
///     let checked: Result<(), Box<dyn std::error::Error + Send + Sync>> = Err(host.into());
///     Ok(checked?)
/// }
/// assert_eq!(check("no host").unwrap_err().to_string(), "no host");
///
/// let busy = Failure::new("the registry is busy")
///     .retry_after(Duration::from_secs(30))
///     .state(State::new("half done"));
/// assert_eq!(busy.to_string(), "the registry is busy");
/// ```
///
/// Calls move between threads, so a `Box<dyn Error>` without `Send + Sync` does not convert:
///
/// ```compile_fail
/// use windlass_controller::Failure;
///
/// let boxed: Box<dyn std::error::Error> = "no host".into();
/// let failure = Failure::from(boxed);
/// ```
#[derive(Debug)]
pub struct Failure {
    source: Box<dyn Error + Send + Sync>,
    instructions: Instructions,
}

/// What follows a failed call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Instructions {
    /// For the next call of the request.
    pub(crate) state: Option<State>,
    pub(crate) retry: Retry,
    /// Whether another writer was faster.
    pub(crate) is_conflict: bool,
    /// The action of the inner call, if it is that of a wrapper with a finalizer.
    pub(crate) inner_action: Option<Action>,
}

/// Whether and when a failed call is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// As the retry policy decides.
    #[default]
    Policy,
    /// After this delay, if the retry policy repeats the call. A `Retry-After` of the API server in
    /// the error is never undercut.
    After(Duration),
    /// Not before the next event of the object that the predicates accept: the call becomes a dead
    /// letter.
    Never,
}

// === impl Instructions ===

impl Instructions {
    /// Whether the call is repeated because another writer was faster. A permanent failure is reported
    /// as such, also if it is a conflict.
    pub(crate) fn is_repeated_conflict(&self) -> bool {
        self.is_conflict && self.retry != Retry::Never
    }
}

// === impl Failure ===

impl Failure {
    /// Creates a failure from an error, a boxed error, or a message.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::with(source, Instructions::default())
    }

    /// Another writer was faster: the call used an outdated object. It is repeated soon, at the latest
    /// after the delay that the retry policy has for a first failure. It is logged at `INFO`, counted
    /// as `conflict`, and does not count as a failed attempt. With [`retry_after`](Self::retry_after) it
    /// has that delay, and with [`permanent`](Self::permanent) it is not repeated.
    #[must_use]
    pub fn conflict(mut self) -> Self {
        self.instructions.is_conflict = true;
        self
    }

    /// Sets the state for the next call of this request.
    #[must_use]
    pub fn state(mut self, state: State) -> Self {
        self.instructions.state = Some(state);
        self
    }

    /// Sets the delay of the retry, for example from a server's `Retry-After`. It replaces the
    /// delay of the retry policy, which still decides whether there is a retry.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        self.retry(Retry::After(delay))
    }

    /// Prevents retries, because they cannot succeed: the call becomes a dead letter at once. The
    /// next event of the object that the predicates accept calls the handler again.
    #[must_use]
    pub fn permanent(self) -> Self {
        self.retry(Retry::Never)
    }

    /// Replaces the state by the result of `state`.
    pub(crate) fn state_as(mut self, state: impl FnOnce(Option<State>) -> State) -> Self {
        let before = self.instructions.state.take();
        self.state(state(before))
    }

    /// Sets the action that the inner handler of a wrapper has received. A failure from a wrapper in
    /// this one keeps its action.
    pub(crate) fn inner_action(mut self, action: Action) -> Self {
        self.instructions.inner_action.get_or_insert(action);
        self
    }

    /// Creates a failure with these instructions.
    pub(crate) fn with(
        source: impl Into<Box<dyn Error + Send + Sync>>,
        instructions: Instructions,
    ) -> Self {
        Self {
            source: source.into(),
            instructions,
        }
    }

    pub(crate) fn into_parts(self) -> (Box<dyn Error + Send + Sync>, Instructions) {
        (self.source, self.instructions)
    }

    /// The failure with another instruction for the retry.
    pub(crate) fn retry(mut self, retry: Retry) -> Self {
        self.instructions.retry = retry;
        self
    }
}

/// From any error, `anyhow::Error`, `Box<dyn Error + Send + Sync>`, and messages.
// Without this attribute the compiler also explains why `dyn Error` is not `Sized`.
#[diagnostic::do_not_recommend]
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_its_error() {
        assert_eq!(Failure::new("disk full").to_string(), "disk full");
    }
}
