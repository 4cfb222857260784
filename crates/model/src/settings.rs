//! The settings of a controller that its rules depend on.

use std::{fmt, sync::Arc, time::Duration};

/// The settings of a controller that its rules depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which pending calls a new event removes.
    pub dequeue: Dequeue,
    /// When a failed call is retried.
    pub retry: Retry,
    /// Whether a retry has the object that the failed call had, and not the newest.
    pub retry_as_received: bool,
    /// Whether handlers may be called before the informers have synced.
    pub start_before_sync: bool,
    /// After which time a call is dropped.
    pub timeout: Option<Duration>,
    /// When undispatched events of one object are folded.
    pub coalescing: Coalescing,
    /// Whether a failed delete is given up when the name is used again.
    pub delete_until_successor: bool,
    /// What wrappers do about an object that leaves the selector of the informers.
    pub selector_exit: SelectorExit,
}

/// When undispatched events of one object are folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coalescing {
    /// Beyond the bound of the queue.
    #[default]
    WhenFull,
    /// At once.
    Always,
    /// Never; also for [`WhenFull`](Self::WhenFull) if the run never exceeds the bound.
    Never,
}

/// What wrappers do about an object that leaves the selector of the informers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectorExit {
    /// The finalizer goes.
    #[default]
    Release,
    /// The object is cleaned up after, then the finalizer goes.
    CleanUp,
    /// Nothing.
    Report,
}

/// Which pending calls of an object a new event of it removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dequeue {
    /// All.
    #[default]
    Always,
    /// None.
    Never,
    /// Those of the same action and another generation, and at a delete all.
    Opinionated,
    /// A policy that the rules know nothing of.
    Other,
}

/// When a failed call is retried: between which two delays after the failure with this number
/// (0 is the first), or not at all.
#[derive(Clone)]
pub struct Retry(Arc<dyn Fn(u32) -> Option<(Duration, Duration)> + Send + Sync>);

// === impl Settings ===

impl Default for Settings {
    /// The defaults of a controller.
    fn default() -> Self {
        Self {
            dequeue: Dequeue::default(),
            retry: Retry::default(),
            retry_as_received: false,
            start_before_sync: false,
            timeout: None,
            coalescing: Coalescing::default(),
            delete_until_successor: false,
            selector_exit: SelectorExit::default(),
        }
    }
}

// === impl Retry ===

impl Retry {
    /// A policy that delays the retry after failure `n` by between the two durations of
    /// `delays(n)`.
    pub fn new(
        delays: impl Fn(u32) -> Option<(Duration, Duration)> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(delays))
    }

    /// A policy that never retries.
    #[must_use]
    pub fn never() -> Self {
        Self::new(|_| None)
    }

    /// The shortest and the longest delay after the failure with this number.
    #[must_use]
    pub fn delays(&self, failure: u32) -> Option<(Duration, Duration)> {
        (self.0)(failure)
    }

    /// Whether it retries without end.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        self.delays(u32::MAX).is_some()
    }
}

impl Default for Retry {
    /// Without end, from 1 s, doubled each time, up to 5 min; jitter takes any part of it.
    fn default() -> Self {
        Self::new(|failure| {
            let longest = Duration::from_secs(1 << failure.min(9)).min(Duration::from_secs(300));
            Some((Duration::ZERO, longest * 2))
        })
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Retry").field(&self.delays(0)).finish()
    }
}
