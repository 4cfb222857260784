//! Errors of composite controllers.

use std::{error::Error, fmt, time::Duration};

use windlass_controller::{ChildError, ControllerBuildError, Failure};
use windlass_informer::one_line;

/// Why a composite controller was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompositeBuildError {
    /// A kind of children was declared twice.
    #[error("the kind {kind} of {api_version} was declared twice as a kind of children")]
    DuplicateKind {
        /// The kind.
        kind: String,
        /// The group and version.
        api_version: String,
    },

    /// The finalizer, the selector or the settings were refused.
    #[error(transparent)]
    Controller(#[from] ControllerBuildError),
}

/// What was not written of the response of a handler. Its message has the messages of all errors,
/// and its source is that of the first one.
#[derive(Debug)]
pub struct SyncError {
    first: ChildError,
    others: Vec<ChildError>,
}

// === impl SyncError ===

impl SyncError {
    /// The most errors that the message shows.
    const SHOWN: usize = 5;

    pub(crate) fn new(errors: Vec<ChildError>) -> Option<Self> {
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

    fn describe(&self) -> String {
        let count = self.others.len() + 1;
        let shown = self.errors().take(Self::SHOWN);
        let shown: Vec<_> = shown.map(ToString::to_string).collect();
        let shown = one_line(&shown.join("; ")).into_owned();
        match count {
            1 => shown,
            _ => format!("{count} errors: {shown}"),
        }
    }

    /// The failure of a call with an invalid response.
    pub(crate) fn failure_of(error: ChildError) -> Failure {
        let (first, others) = (error, Vec::new());
        Self { first, others }.into_failure()
    }

    /// The failure of a call. It is a conflict if a retry with the newest state helps for each error.
    pub(crate) fn into_failure(self) -> Failure {
        let is_conflict = self.errors().all(ChildError::is_conflict);
        let wait: Option<Duration> = self.errors().filter_map(ChildError::retry_after).min();
        let failure = Failure::new(self);
        match (is_conflict, wait) {
            (true, _) => failure.conflict(),
            (false, Some(wait)) => failure.retry_after(wait),
            (false, None) => failure,
        }
    }
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Error for SyncError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.first.source()
    }
}
