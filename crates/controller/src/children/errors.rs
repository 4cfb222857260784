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
