//! The clock of a fence: it runs while the process is stopped and the machine is suspended.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::time::ClockId;
use tokio::time::Instant;

/// The time since a fixed point.
#[derive(Clone)]
pub(super) struct FenceClock(Arc<dyn Fn() -> Duration + Send + Sync>);

/// The source of the time. Chosen at the first reading, which happens in the runtime that uses the
/// clock.
enum ClockSource {
    /// This clock of the kernel.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Kernel(ClockId),
    /// tokio's clock, since this instant.
    Tokio(Instant),
}

// === impl FenceClock ===

impl FenceClock {
    pub(super) fn system() -> Self {
        let source = OnceLock::new();
        Self(Arc::new(move || {
            source.get_or_init(ClockSource::choose).now()
        }))
    }

    pub(super) fn custom(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(clock))
    }

    pub(super) fn now(&self) -> Duration {
        (self.0)()
    }
}

// === impl ClockSource ===

impl ClockSource {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn choose() -> Self {
        if is_time_simulated() {
            Self::Tokio(Instant::now())
        } else {
            // Unlike the monotonic clock, it runs while the machine is suspended.
            Self::Kernel(ClockId::Boottime)
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn choose() -> Self {
        Self::Tokio(Instant::now())
    }

    fn now(&self) -> Duration {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Kernel(clock) => {
                let time = rustix::time::clock_gettime(*clock);
                Duration::try_from(time).unwrap_or_default()
            }
            Self::Tokio(start) => start.elapsed(),
        }
    }
}

/// Whether tokio's clock is paused in the current runtime, as in simulations and in tests with
/// `start_paused`. False outside of a runtime.
///
/// Under simulated time, do not start threads: they would not be part of the simulation.
#[doc(hidden)]
#[must_use]
#[expect(
    clippy::disallowed_types,
    reason = "tokio's clock is compared with the one that it shows unless it is paused"
)]
pub fn is_time_simulated() -> bool {
    // A running clock shows a time between two readings of the system's clock. A paused one shows
    // the same time twice, which cannot be within two consecutive intervals.
    let shows_system_time = || {
        let before = std::time::Instant::now();
        let shown = Instant::now().into_std();
        before <= shown && shown <= std::time::Instant::now()
    };
    !(shows_system_time() && shows_system_time())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_recognized_before_and_after_it_was_advanced() {
        assert!(is_time_simulated());
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(is_time_simulated());
    }

    #[tokio::test]
    async fn a_running_clock_is_distinguished_from_a_paused_one() {
        for _ in 0..1000 {
            assert!(!is_time_simulated());
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_system_clock_runs_during_suspend() {
        let chosen = ClockSource::choose();
        assert!(matches!(chosen, ClockSource::Kernel(ClockId::Boottime)));
    }

    #[test]
    fn outside_of_a_runtime_time_is_not_simulated() {
        assert!(!is_time_simulated());
    }

    #[tokio::test(start_paused = true)]
    async fn with_paused_time_the_system_clock_is_that_of_tokio() {
        let clock = FenceClock::system();
        let began = clock.now();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().saturating_sub(began), Duration::from_secs(3600));
    }
}
