//! The clock of a fence: it runs while the process is stopped and the machine is suspended.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::time::Instant;

/// Time since a fixed point of its own.
#[derive(Clone)]
pub(super) struct FenceClock(Arc<dyn Fn() -> Duration + Send + Sync>);

/// What the system clock reads. Decided at the first reading, which is in the runtime that the
/// clock is for.
enum ClockSource {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Boot,
    /// Since this instant.
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
            Self::Boot
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn choose() -> Self {
        Self::Tokio(Instant::now())
    }

    fn now(&self) -> Duration {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Boot => {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
                Duration::try_from(time).unwrap_or_default()
            }
            Self::Tokio(start) => start.elapsed(),
        }
    }
}

/// Whether tokio's clock is paused in the current runtime, as it is in simulations and in tests
/// with `start_paused`. False outside of a runtime.
///
/// Where it is, threads of their own would be outside of the simulation.
#[must_use]
#[expect(
    clippy::disallowed_types,
    reason = "tokio's clock is compared with the one that it shows unless it is paused"
)]
pub fn is_time_simulated() -> bool {
    // A clock that runs shows a time between two readings of the system's. A paused one shows the
    // same time twice, which cannot lie within two intervals that follow each other.
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
    async fn a_running_clock_is_not_taken_for_a_paused_one() {
        for _ in 0..1000 {
            assert!(!is_time_simulated());
        }
    }

    #[test]
    fn outside_of_a_runtime_time_is_not_simulated() {
        assert!(!is_time_simulated());
    }

    #[tokio::test(start_paused = true)]
    async fn on_paused_time_the_system_clock_is_tokios() {
        let clock = FenceClock::system();
        let began = clock.now();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().saturating_sub(began), Duration::from_secs(3600));
    }
}
