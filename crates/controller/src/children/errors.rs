//! `ChildErrors`: the errors of all children that one call has not written or deleted.

use std::{error::Error, fmt, time::Duration};

use windlass_informer::one_line;

use super::ChildError;
use crate::Failure;

/// Why children were not written or deleted: one error for each. Its message has the messages of the
/// first 5, which name the children.
#[derive(Debug)]
pub struct ChildErrors {
    first: ChildError,
    others: Vec<ChildError>,
}

// === impl ChildErrors ===

impl ChildErrors {
    /// The most errors that the message shows.
    const SHOWN: usize = 5;

    /// `None` if there is no error.
    #[doc(hidden)]
    #[must_use]
    pub fn new(errors: Vec<ChildError>) -> Option<Self> {
        let mut errors = errors.into_iter();
        Some(Self {
            first: errors.next()?,
            others: errors.collect(),
        })
    }

    /// All errors, in the order of the children.
    pub fn errors(&self) -> impl Iterator<Item = &ChildError> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The failure of a call. It is a conflict if a retry with the newest state helps for each error.
    /// It has a delay if each error has one: that of the first retry that can succeed.
    #[doc(hidden)]
    #[must_use]
    pub fn into_failure(self) -> Failure {
        let is_conflict = self.errors().all(ChildError::is_conflict);
        let waits: Option<Vec<Duration>> = self.errors().map(ChildError::retry_after).collect();
        let wait = waits.and_then(|waits| waits.into_iter().min());
        let failure = Failure::new(self);
        match (is_conflict, wait) {
            (true, _) => failure.conflict(),
            (false, Some(wait)) => failure.retry_after(wait),
            (false, None) => failure,
        }
    }
}

impl From<ChildError> for ChildErrors {
    fn from(error: ChildError) -> Self {
        let (first, others) = (error, Vec::new());
        Self { first, others }
    }
}

impl fmt::Display for ChildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.errors().take(Self::SHOWN);
        let shown: Vec<_> = shown.map(ToString::to_string).collect();
        let shown = one_line(&shown.join("; ")).into_owned();
        match self.others.len() {
            0 => f.write_str(&shown),
            others => write!(f, "{} errors: {shown}", others + 1),
        }
    }
}

/// Its source is that of the error for which the API server named the longest time to wait, so that no
/// retry is earlier, or that of the first error.
impl Error for ChildErrors {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let demanded = self.errors().filter(|it| it.request().is_some());
        let slowest = demanded.max_by_key(|it| it.retry_after());
        let slowest = slowest.filter(|it| it.retry_after().is_some());
        slowest.unwrap_or(&self.first).source()
    }
}

#[cfg(test)]
mod tests {
    use windlass_informer::ObjectKey;

    use super::*;
    use crate::Retry;

    fn key() -> (String, ObjectKey) {
        ("secrets".to_owned(), ObjectKey::new("web").within("shop"))
    }

    fn api_error(code: u16, seconds: u32) -> kube::Error {
        let status = serde_json::json!({
            "status": "Failure", "message": "refused", "reason": "", "code": code,
            "details": { "retryAfterSeconds": seconds },
        });
        let status = serde_json::from_value(status).expect("a status");
        kube::Error::Api(status)
    }

    fn conflict() -> ChildError {
        let (resource, key) = key();
        let source = Box::new(api_error(409, 0));
        ChildError::Conflict {
            resource,
            key,
            source,
        }
    }

    fn busy(seconds: u32) -> ChildError {
        let (resource, key) = key();
        let (verb, source) = ("patch", Box::new(api_error(429, seconds)));
        ChildError::Request {
            verb,
            resource,
            key,
            source,
        }
    }

    fn contended(seconds: u64) -> ChildError {
        let (resource, key) = key();
        let wait = Duration::from_secs(seconds);
        ChildError::Contended {
            resource,
            key,
            wait,
        }
    }

    /// The retry of a failure with these errors, and whether it is a conflict.
    fn retry(errors: Vec<ChildError>) -> (Retry, bool) {
        let errors = ChildErrors::new(errors).expect("an error");
        let (_, instructions) = errors.into_failure().into_parts();
        (instructions.retry, instructions.is_conflict)
    }

    /// Rows: BO-38
    #[test]
    fn several_errors_are_retried_when_the_first_of_them_can_succeed() {
        let after = |seconds| Retry::After(Duration::from_secs(seconds));
        assert_eq!(retry(vec![conflict(), conflict()]), (Retry::Policy, true));
        assert_eq!(retry(vec![conflict(), busy(0)]), (Retry::Policy, false));
        assert_eq!(retry(vec![contended(300)]), (after(300), false));
        assert_eq!(retry(vec![contended(300), busy(0)]), (Retry::Policy, false));
        assert_eq!(retry(vec![contended(300), busy(30)]), (after(30), false));
        assert!(ChildErrors::new(Vec::new()).is_none());
    }

    #[test]
    fn a_retry_is_not_earlier_than_the_api_server_demands() {
        let errors = ChildErrors::new(vec![busy(0), contended(300), busy(30), busy(7)]);
        let errors = errors.expect("an error");
        let source = errors.source().expect("a response").to_string();
        let text = errors.to_string();
        assert!(
            text.starts_with("4 errors: cannot patch secrets shop/web; "),
            "{text}"
        );
        let demanded = crate::HandlerError::Failed {
            source: Box::new(errors),
        };
        let demanded = demanded.retry_after();
        assert_eq!(demanded, Some(Duration::from_secs(30)), "{source}");
    }
}
