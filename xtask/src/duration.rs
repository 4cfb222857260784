//! Durations, printed for people.

use std::{fmt, time::Duration};

#[expect(
    clippy::disallowed_types,
    reason = "a command waits in real time, and no test pauses it"
)]
type Clock = std::time::Instant;

/// Measures the time since it was created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Clock);

/// A duration that is printed as `0.3 s`, `12 s` or `4 min 29 s`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elapsed(pub(crate) Duration);

// === impl Stopwatch ===

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Clock::now())
    }

    pub(crate) fn elapsed(self) -> Elapsed {
        Elapsed(self.0.elapsed())
    }
}

// === impl Elapsed ===

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let words = match seconds {
            0..10 => format!("{:.1} s", self.0.as_secs_f64()),
            10..60 => format!("{seconds} s"),
            _ => format!("{} min {} s", seconds / 60, seconds % 60),
        };
        f.pad(&words)
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Elapsed};

    #[test]
    fn durations_are_printed_with_the_relevant_precision() {
        let shown = |millis| Elapsed(Duration::from_millis(millis)).to_string();
        assert_eq!(shown(340), "0.3 s");
        assert_eq!(shown(12_900), "12 s");
        assert_eq!(shown(269_000), "4 min 29 s");
    }
}
