//! `Action`: when an object is reconciled again.

use std::time::Duration;

/// When an object is reconciled again, if nothing changes before.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_runtime::controller::Action;
///
/// assert_ne!(Action::requeue(Duration::from_secs(5)), Action::await_change());
/// ```
#[derive(Debug, Clone, Eq, PartialEq)]
pub struct Action {
    pub(super) next: Next,
}

/// When the next call is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Next {
    After(Duration),
    OnChange,
    AfterBackoff,
}

// === impl Action ===

impl Action {
    /// Reconciles the object again after `duration`. A change before that reconciles it at once, and
    /// replaces this requeue.
    #[must_use]
    pub const fn requeue(duration: Duration) -> Self {
        Self {
            next: Next::After(duration),
        }
    }

    /// Reconciles the object again only on the next change.
    #[must_use]
    pub const fn await_change() -> Self {
        Self {
            next: Next::OnChange,
        }
    }

    /// Reconciles the object again after a delay that grows with each such action in a row for this
    /// object: 1 s, then twice the previous one, at most 5 minutes, with jitter.
    ///
    /// For the error policy. kube-runtime has no backoff for each object.
    #[must_use]
    pub const fn backoff() -> Self {
        Self {
            next: Next::AfterBackoff,
        }
    }
}
