//! Handlers that show their errors in the status of the parent.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use serde::Serialize;
use serde_json::Value;
use windlass_informer::{random_seed, wall_clock};

use super::{Error, FinalizeResponse, Handler, SyncRequest, SyncResponse};

/// The delays of repeated calls.
#[derive(Clone, Debug, PartialEq)]
pub struct BackoffConfig {
    /// The first delay.
    pub initial_interval: Duration,
    /// The longest delay.
    pub max_interval: Duration,
    /// The time after the first error from which no call is repeated.
    pub give_up_after: Option<Duration>,
    /// Each delay is this many times the one before.
    pub multiplier: f64,
    /// The part of a delay that is added or taken away at random.
    pub randomization_factor: f64,
}

/// The delays of each parent.
#[derive(Debug, Default)]
pub struct ErrorBackoff {
    config: BackoffConfig,
    /// By uid: the number of errors, and the time of the first.
    errors: Mutex<HashMap<String, (i32, SystemTime)>>,
}

/// The result of the steps of a [`FailableHandler`].
#[derive(Clone, Debug, PartialEq)]
pub enum HandlerResult<V, E> {
    /// `validate` failed.
    ValidationFailed(E),
    /// `sync_children` failed.
    SyncFailed(V, E),
    /// `finalize` failed.
    FinalizeFailed(E),
    /// The children are known.
    SyncSuccess(V),
    /// The clean-up has finished.
    FinalizeSuccess,
}

/// A handler in steps: `validate`, `sync_children` and `determine_status`.
pub trait FailableHandler: Send + Sync + 'static {
    /// What `validate` returns.
    type Validated;
    /// The error of all steps.
    type Error: fmt::Debug;
    /// The status.
    type Status: Serialize;

    /// Checks the parent.
    ///
    /// # Errors
    ///
    /// Children stay as they are.
    fn validate(&self, request: &SyncRequest) -> Result<Self::Validated, Self::Error>;

    /// Returns the children.
    ///
    /// # Errors
    ///
    /// Children stay as they are.
    fn sync_children(
        &self,
        validated: &mut Self::Validated,
        request: &SyncRequest,
    ) -> Result<Vec<Value>, Self::Error>;

    /// Cleans up. By default it finishes at once.
    ///
    /// # Errors
    ///
    /// The parent stays.
    fn finalize(&self, request: &SyncRequest) -> Result<(), Self::Error> {
        let _ = request;
        Ok(())
    }

    /// Returns the status after the other steps, also after an error.
    fn determine_status(
        &self,
        request: &SyncRequest,
        result: HandlerResult<Self::Validated, Self::Error>,
    ) -> Self::Status;
}

/// A [`FailableHandler`] as a [`Handler`], with a backoff for each parent.
#[derive(Debug)]
pub struct DefaultFailableHandler<H> {
    inner: H,
    backoff: ErrorBackoff,
    resync: Option<Duration>,
}

// === impl BackoffConfig and ErrorBackoff ===

impl Default for BackoffConfig {
    fn default() -> Self {
        Self {
            initial_interval: Duration::from_millis(500),
            max_interval: Duration::from_secs(600),
            give_up_after: None,
            multiplier: 1.5,
            randomization_factor: 0.5,
        }
    }
}

impl BackoffConfig {
    /// The same delay after each error.
    #[must_use]
    pub const fn fixed_interval(interval: Duration) -> Self {
        Self {
            initial_interval: interval,
            max_interval: interval,
            give_up_after: None,
            multiplier: 1.0,
            randomization_factor: 0.0,
        }
    }

    /// No call is repeated before the next change.
    #[must_use]
    pub fn never_retry() -> Self {
        Self {
            give_up_after: Some(Duration::ZERO),
            ..Self::default()
        }
    }

    /// Removes the random part.
    #[must_use]
    pub const fn disable_randomization(mut self) -> Self {
        self.randomization_factor = 0.0;
        self
    }

    fn delay(&self, errors: i32) -> Duration {
        let max = self.max_interval.as_secs_f64();
        let grown = self.initial_interval.as_secs_f64() * self.multiplier.powi(errors);
        // From -1 to 1.
        let random = f64::from(u32::try_from(random_seed() >> 32).unwrap_or_default());
        let random = random / f64::from(u32::MAX) * 2.0 - 1.0;
        let delay = grown.min(max) * (1.0 + self.randomization_factor * random);
        Duration::try_from_secs_f64(delay).unwrap_or(self.max_interval)
    }
}

impl ErrorBackoff {
    /// Creates it without errors.
    #[must_use]
    pub fn new(config: BackoffConfig) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Counts an error. Returns the delay of the repeated call, if it is to be repeated.
    pub fn next_error_backoff(&self, request: &SyncRequest) -> Option<Duration> {
        let (now, uid) = (wall_clock(), request.parent.uid().to_owned());
        let mut all = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let (errors, first) = all.entry(uid).or_insert((0, now));
        let delay = self.config.delay(*errors);
        *errors = errors.saturating_add(1);
        let elapsed = now.duration_since(*first).unwrap_or_default();
        let is_over = self.config.give_up_after.is_some_and(|it| elapsed >= it);
        (!is_over).then_some(delay)
    }

    /// Forgets the errors of a parent.
    pub fn reset_backoff(&self, request: &SyncRequest) {
        let mut all = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(request.parent.uid());
    }
}

// === impl HandlerResult ===

impl<V, E> HandlerResult<V, E> {
    /// Whether no step failed.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::SyncSuccess(_) | Self::FinalizeSuccess)
    }

    /// Whether a step failed.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        !self.is_success()
    }

    /// The error.
    #[must_use]
    pub fn into_error(self) -> Option<E> {
        match self {
            Self::ValidationFailed(error)
            | Self::SyncFailed(_, error)
            | Self::FinalizeFailed(error) => Some(error),
            Self::SyncSuccess(_) | Self::FinalizeSuccess => None,
        }
    }

    /// What `validate` returned.
    #[must_use]
    pub fn into_validated(self) -> Option<V> {
        match self {
            Self::SyncFailed(validated, _) | Self::SyncSuccess(validated) => Some(validated),
            _ => None,
        }
    }
}

// === impl DefaultFailableHandler ===

impl<H: FailableHandler> DefaultFailableHandler<H> {
    /// Creates it with the default backoff, and without a regular resync.
    pub fn wrap(handler: H) -> Self {
        Self::new(handler, BackoffConfig::default(), None)
    }

    /// Creates it.
    pub fn new(handler: H, backoff: BackoffConfig, regular_resync: Option<Duration>) -> Self {
        Self {
            inner: handler,
            backoff: ErrorBackoff::new(backoff),
            resync: regular_resync,
        }
    }

    /// Calls `sync` again after `interval` although nothing has changed.
    #[must_use]
    pub fn with_regular_resync(self, interval: Duration) -> Self {
        Self {
            resync: Some(interval),
            ..self
        }
    }

    /// Sets the backoff.
    #[must_use]
    pub fn with_backoff(self, config: BackoffConfig) -> Self {
        Self {
            backoff: ErrorBackoff::new(config),
            ..self
        }
    }

    fn delay(&self, request: &SyncRequest, is_error: bool) -> Option<Duration> {
        if is_error {
            return self.backoff.next_error_backoff(request);
        }
        self.backoff.reset_backoff(request);
        None
    }
}

impl<H: FailableHandler> Handler for DefaultFailableHandler<H> {
    fn sync(&self, request: &SyncRequest) -> Result<SyncResponse, Error> {
        let mut children = Vec::new();
        let result = match self.inner.validate(request) {
            Err(error) => HandlerResult::ValidationFailed(error),
            Ok(mut validated) => match self.inner.sync_children(&mut validated, request) {
                Err(error) => HandlerResult::SyncFailed(validated, error),
                Ok(wanted) => {
                    children = wanted;
                    HandlerResult::SyncSuccess(validated)
                }
            },
        };
        let is_error = result.is_error();
        let delay = self.delay(request, is_error);
        let status = serde_json::to_value(self.inner.determine_status(request, result))?;
        if is_error {
            return Ok(SyncResponse {
                resync: delay,
                ..SyncResponse::keeping_children(status)
            });
        }
        Ok(SyncResponse {
            status,
            children,
            resync: self.resync,
        })
    }

    fn finalize(&self, request: &SyncRequest) -> Result<FinalizeResponse, Error> {
        let result = match self.inner.finalize(request) {
            Ok(()) => HandlerResult::FinalizeSuccess,
            Err(error) => HandlerResult::FinalizeFailed(error),
        };
        let is_error = result.is_error();
        let delay = self.delay(request, is_error);
        let status = serde_json::to_value(self.inner.determine_status(request, result))?;
        // Without a delay the clean-up would count as finished.
        let retry = is_error.then(|| delay.unwrap_or(self.backoff.config.max_interval));
        Ok(FinalizeResponse { status, retry })
    }
}

/// A function that returns the children, and one that returns the status.
impl<S, D, T, E> FailableHandler for (S, D)
where
    S: Fn(&SyncRequest) -> Result<Vec<Value>, E> + Send + Sync + 'static,
    D: Fn(&SyncRequest, Option<E>) -> T + Send + Sync + 'static,
    T: Serialize,
    E: fmt::Debug,
{
    type Validated = ();
    type Error = E;
    type Status = T;

    fn validate(&self, _: &SyncRequest) -> Result<(), E> {
        Ok(())
    }

    fn sync_children(&self, (): &mut (), request: &SyncRequest) -> Result<Vec<Value>, E> {
        (self.0)(request)
    }

    fn determine_status(&self, request: &SyncRequest, result: HandlerResult<(), E>) -> T {
        (self.1)(request, result.into_error())
    }
}
