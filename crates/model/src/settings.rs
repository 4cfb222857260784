//! The settings of a controller that its rules depend on.

use std::{fmt, sync::Arc, time::Duration};

/// The settings of a controller that its rules depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which pending calls a new event removes.
    pub dequeue: Dequeue,
    /// When a failed call is retried.
    pub retry: Retry,
    /// Whether a retry receives the object of the failed call instead of the newest object.
    pub retry_as_received: bool,
    /// Whether handlers may be called before the informers have synced.
    pub start_before_sync: bool,
    /// The timeout of a call, after which it is dropped.
    pub timeout: Option<Duration>,
    /// When undispatched events of one object are coalesced.
    pub coalescing: Coalescing,
    /// Whether the retries of a failed delete end when an object with the same name is created.
    pub delete_until_successor: bool,
    /// What wrappers do when an object leaves the selector of the informers.
    pub selector_exit: SelectorExit,
    /// A level-triggered controller, for which other rules hold than for event handlers.
    pub level: Option<Level>,
}

/// The settings of a level-triggered controller. The kind of its handler is that of the primary
/// objects; the informers of other kinds show the objects that affect them.
#[derive(Clone, Debug)]
pub struct Level {
    /// The keys of an object of another kind, and of a primary object that it affects.
    pub mapped: Vec<(Arc<str>, Arc<str>)>,
    /// How long a call waits until the informers show the writes of the call before it.
    pub own_write_timeout: Duration,
}

/// When undispatched events of one object are coalesced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coalescing {
    /// When the queue is full.
    #[default]
    WhenFull,
    /// Immediately.
    Always,
    /// Never: as [`WhenFull`](Self::WhenFull), and the run does not exceed the bound.
    Never,
}

/// What wrappers do when an object leaves the selector of the informers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectorExit {
    /// They remove the finalizer.
    #[default]
    Release,
    /// They clean up the object, and then remove the finalizer.
    CleanUp,
    /// They only report it.
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
    /// Calls of the same action and another generation. A delete removes all.
    Opinionated,
    /// A policy of the user, which the rules do not know.
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
            level: None,
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

    /// Whether it retries without a limit.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        self.delays(u32::MAX).is_some()
    }
}

impl Default for Retry {
    /// Without a limit, from 1 s, doubled each time, up to 5 min, with full jitter.
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
