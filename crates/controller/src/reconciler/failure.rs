//! `Failure`: the error of a call, and whether and when to retry.

use std::{error::Error, fmt, time::Duration};

use super::State;

/// A call that went wrong, and what its handler has to say about the next one.
///
/// Every error becomes one by `?`, an `anyhow::Error` and a `Box<dyn Error + Send + Sync>` too, so
/// it is named only where there is more to say. It is not itself an [`Error`], because no type can
/// be one and be made of every error by `?`.
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
#[derive(Debug)]
pub struct Failure {
    source: Box<dyn Error + Send + Sync>,
    state: Option<State>,
    retry: Retry,
}

/// What the handler says about being called again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Retry {
    /// As the retry policy says.
    #[default]
    Policy,
    /// If the policy allows another attempt: after this time rather than after the policy's.
    After(Duration),
    /// It cannot help.
    Never,
}

// === impl Failure ===

impl Failure {
    /// A failure because of `source`: an error, a boxed one, or a message.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            source: source.into(),
            state: None,
            retry: Retry::Policy,
        }
    }

    /// What the next call of this request finds.
    #[must_use]
    pub fn state(self, state: State) -> Self {
        Self {
            state: Some(state),
            ..self
        }
    }

    /// When to try again, if a server said so by `Retry-After`. It takes the place
    /// of the retry policy's delay; whether there is another attempt is still the policy's to
    /// say.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        Self {
            retry: Retry::After(delay),
            ..self
        }
    }

    /// Trying again cannot help: the call is given up at once, until something happens to the
    /// object.
    #[must_use]
    pub fn permanent(self) -> Self {
        Self {
            retry: Retry::Never,
            ..self
        }
    }

    /// The same failure with what `state` makes of its state.
    pub(crate) fn state_as(self, state: impl FnOnce(Option<State>) -> State) -> Self {
        Self {
            state: Some(state(self.state)),
            ..self
        }
    }

    pub(crate) fn into_parts(self) -> (Box<dyn Error + Send + Sync>, Option<State>, Retry) {
        (self.source, self.state, self.retry)
    }
}

/// Of any error, of `anyhow::Error`, `Box<dyn Error + Send + Sync>` and messages.
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
