//! `Config`: the debounce and the concurrency of a controller.

use std::{num::NonZeroUsize, time::Duration};

/// Settings of a [`Controller`](crate::Controller).
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_runtime::controller::Config;
///
/// let config = Config::default().concurrency(8).debounce(Duration::from_secs(1));
/// # let _ = config;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub(super) debounce: Duration,
    concurrency: Option<u16>,
}

/// How many calls run at the same time if the program does not say it: enough for calls that mostly
/// wait for an API server, and few enough not to overload it.
const DEFAULT_CONCURRENCY: usize = 64;

/// How many calls run at the same time if the program asks for no limit. A limit remains, because
/// each call may hold a connection.
const MOST_CALLS: usize = 1024;

// === impl Config ===

impl Config {
    /// Delays each call until the object and its related objects have been quiet for `debounce`, but
    /// at most for ten times as long. The default is no delay.
    #[must_use]
    pub fn debounce(mut self, debounce: Duration) -> Self {
        self.debounce = debounce;
        self
    }

    /// Sets how many calls run at the same time. The default is 64. 0 stands for 1,024; in
    /// kube-runtime it is the default, and stands for no limit.
    #[must_use]
    pub fn concurrency(mut self, concurrency: u16) -> Self {
        self.concurrency = Some(concurrency);
        self
    }

    /// The number of workers.
    pub(super) fn workers(&self) -> NonZeroUsize {
        let workers = self.concurrency.map_or(DEFAULT_CONCURRENCY, usize::from);
        NonZeroUsize::new(workers)
            .unwrap_or(NonZeroUsize::new(MOST_CALLS).unwrap_or(NonZeroUsize::MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::Config;

    #[test]
    fn the_number_of_workers_is_bounded() {
        assert_eq!(Config::default().workers().get(), 64);
        assert_eq!(Config::default().concurrency(0).workers().get(), 1024);
        assert_eq!(Config::default().concurrency(3).workers().get(), 3);
    }
}
