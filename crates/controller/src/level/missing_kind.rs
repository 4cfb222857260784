//! `MissingKind`: what happens without a kind of the controller.

use std::time::Duration;

/// What happens if the API server does not know a kind of a controller, or does not allow to list
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKind {
    /// The controller fails after this time without progress. The error names the kind, the verb and
    /// the response of the API server. The default, after 2 minutes.
    Fail {
        /// The time.
        after: Duration,
    },
    /// No call begins until the kind can be listed.
    Wait,
    /// Calls begin without the other kinds: those that [`owns`](crate::ControllerBuilder::owns),
    /// [`claims`](crate::ControllerBuilder::claims), [`watches`](crate::ControllerBuilder::watches) and
    /// [`refers_to`](crate::ControllerBuilder::refers_to) added. While a kind is not listed,
    /// [`Informers::is_absent`](crate::Informers::is_absent) is true and its handle shows no objects:
    /// check it before you conclude that there are none. All objects are reconciled after the first
    /// list, and when the kind has returned after `is_absent` was true. A watch that is added while the
    /// controller runs stops no calls. The primary kind is not optional.
    Optional,
}

// === impl MissingKind ===

impl MissingKind {
    /// As long as controller-runtime waits for caches to sync.
    pub(crate) const DEFAULT: Self = Self::Fail {
        after: Duration::from_secs(120),
    };
}
