//! `WatchErrors`: the errors of watches that the stream has not yielded.

use std::{collections::VecDeque, task::Waker};

use kube::core::Status;
use parking_lot::Mutex;
use windlass_controller::RunError;
use windlass_informer::{ErrorChain, Problem, Verb, WatchError, WatchErrorCause};

use crate::watcher;

/// A bounded queue of errors. If the stream is not read, the oldest ones are dropped.
#[derive(Default)]
pub(super) struct WatchErrors {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    errors: VecDeque<watcher::Error>,
    reader: Option<Waker>,
}

/// The most errors that wait. Each one was also logged.
const MOST: usize = 64;

// === impl WatchErrors ===

impl WatchErrors {
    /// Adds the problem of an informer, if it is one of a watch, and logs it.
    pub(super) fn report(&self, problem: &Problem<'_>) {
        windlass_informer::log_problem(problem);
        if let Problem::Watch { error, .. } = problem {
            self.push(converted(error));
        }
    }

    /// Adds `error`.
    pub(super) fn push(&self, error: watcher::Error) {
        let reader = {
            let mut waiting = self.waiting.lock();
            if waiting.errors.len() == MOST {
                waiting.errors.pop_front();
            }
            waiting.errors.push_back(error);
            waiting.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Takes all errors, and wakes `reader` for the next one.
    pub(super) fn take(&self, reader: &Waker) -> VecDeque<watcher::Error> {
        let mut waiting = self.waiting.lock();
        if waiting
            .reader
            .as_ref()
            .is_none_or(|it| !it.will_wake(reader))
        {
            waiting.reader = Some(reader.clone());
        }
        std::mem::take(&mut waiting.errors)
    }
}

/// An error of a watch of ours as the one that kube-runtime yields for the same response.
fn converted(error: &WatchError) -> watcher::Error {
    let cause = match &error.cause {
        WatchErrorCause::Unauthenticated { .. } => status(401, "Unauthorized", error),
        WatchErrorCause::Forbidden { .. } => status(403, "Forbidden", error),
        WatchErrorCause::UnknownKind | WatchErrorCause::OtherPlural { .. } => {
            status(404, "NotFound", error)
        }
        WatchErrorCause::Invalid { .. } => status(400, "BadRequest", error),
        WatchErrorCause::Throttled { .. } => status(429, "TooManyRequests", error),
        WatchErrorCause::Server { code, .. } => status(*code, "InternalError", error),
        WatchErrorCause::Expired { .. } => {
            return watcher::Error::WatchError(Box::new(response(410, "Expired", error)));
        }
        _ => {
            let cause = kube::Error::Service(ErrorChain::new(error).to_string().into());
            return match error.verb {
                Verb::List => watcher::Error::InitialListFailed(cause),
                // The connection of a watch that has begun.
                _ => watcher::Error::WatchFailed(cause),
            };
        }
    };
    match error.verb {
        Verb::List => watcher::Error::InitialListFailed(cause),
        _ => watcher::Error::WatchStartFailed(cause),
    }
}

fn status(code: u16, reason: &str, error: &WatchError) -> kube::Error {
    kube::Error::Api(Box::new(response(code, reason, error)))
}

fn response(code: u16, reason: &str, error: &WatchError) -> Status {
    Status::failure(&error.to_string(), reason).with_code(code)
}

/// The error of an engine that ended although it was not stopped.
pub(super) fn ended(error: &RunError) -> watcher::Error {
    let message = ErrorChain::new(error).to_string();
    if matches!(error, RunError::HistoryWentBack { .. }) {
        let status = Status::failure(&message, "HistoryWentBack").with_code(410);
        return watcher::Error::WatchError(Box::new(status));
    }
    watcher::Error::WatchFailed(kube::Error::Service(message.into()))
}

/// The error of a controller whose stream has panicked.
pub(super) fn panicked(message: &str) -> watcher::Error {
    let error = format!("a stream of the controller panicked: {message}");
    watcher::Error::WatchFailed(kube::Error::Service(error.into()))
}

#[cfg(test)]
mod tests {
    use std::{task::Waker, time::Duration};

    use windlass_informer::{Verb, WatchError, WatchErrorCause};

    use super::{WatchErrors, converted};
    use crate::watcher::Error;

    #[test]
    fn a_missing_kind_is_a_list_that_failed_with_404() {
        let error = WatchError::new("gadgets", Verb::List, WatchErrorCause::UnknownKind);
        let Error::InitialListFailed(kube::Error::Api(status)) = converted(&error) else {
            panic!("{error}");
        };
        assert_eq!((status.code, &*status.reason), (404, "NotFound"));
        assert!(status.message.contains("gadgets"), "{}", status.message);
    }

    #[test]
    fn a_watch_that_breaks_has_failed_and_not_its_start() {
        let limit = Duration::from_secs(30);
        let cause = WatchErrorCause::Silent { limit };
        let error = converted(&WatchError::new("gadgets", Verb::Watch, cause));
        assert!(matches!(error, Error::WatchFailed(_)), "{error}");
    }

    #[test]
    fn at_most_64_errors_wait_and_the_oldest_are_dropped() {
        let errors = WatchErrors::default();
        for _ in 0..100 {
            errors.push(Error::NoResourceVersion);
        }
        assert_eq!(errors.take(Waker::noop()).len(), 64);
        assert!(errors.take(Waker::noop()).is_empty());
    }
}
