//! The limit of concurrent requests that are not reads.

use std::num::NonZeroUsize;

use http::Method;
use http::request::Parts;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::user::{MASTERS, User};
use crate::wire::Target;

/// Limits how many requests that are not reads run at the same time.
#[derive(Debug)]
pub(crate) struct MutatingLimit {
    running: Semaphore,
}

/// The limit is reached.
#[derive(Debug)]
pub(crate) struct LimitReached;

/// Subresources whose requests run for long; the limit does not apply to them.
const LONG_RUNNING: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

// === impl MutatingLimit ===

impl MutatingLimit {
    pub(crate) fn new(requests: NonZeroUsize) -> Self {
        // A semaphore with more permits panics.
        let requests = requests.get().min(Semaphore::MAX_PERMITS);
        Self {
            running: Semaphore::new(requests),
        }
    }

    /// The permit of a request, to keep until its response is complete; nothing if the limit does
    /// not apply to the request, or is reached and `user` is exempt from it.
    ///
    /// # Errors
    ///
    /// [`LimitReached`]; the response is 429.
    pub(crate) fn admit(
        &self,
        parts: &Parts,
        user: &User,
    ) -> Result<Option<SemaphorePermit<'_>>, LimitReached> {
        if !Self::applies_to(parts) {
            return Ok(None);
        }
        match self.running.try_acquire() {
            Ok(permit) => Ok(Some(permit)),
            Err(_) if user.groups.iter().any(|group| group == MASTERS) => Ok(None),
            Err(_) => Err(LimitReached),
        }
    }

    /// Whether a request with this head counts.
    fn applies_to(parts: &Parts) -> bool {
        if matches!(parts.method, Method::GET | Method::HEAD) {
            return false;
        }
        match Target::parse(parts.uri.path()) {
            Target::Resource(path) => {
                let subresource = path.subresource.as_deref();
                !subresource.is_some_and(|it| LONG_RUNNING.contains(&it))
            }
            _ => true,
        }
    }
}
