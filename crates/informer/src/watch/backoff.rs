//! Exponential backoff of a broken watch, with jitter and a cap. *(pure)*

use std::{fmt, sync::Arc, time::Duration};

use rand::Rng;

/// An exponential backoff. Each wait is a random part of the upper half of its ceiling.
///
/// Each source has its own backoff, so that a failing watch does not delay another one.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_informer::Backoff;
///
/// let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5))?;
/// # _ = backoff;
/// // The ceilings of the waits are 1, 2, 4, 5, 5, … seconds.
/// # Ok::<(), windlass_informer::InvalidBackoff>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    min: Duration,
    max: Duration,
}

/// The waits of a source after its failures.
#[derive(Clone)]
pub(crate) enum Waits {
    Backoff(Backoff),
    /// The wait after this number of earlier failures in a row. `None` for that of
    /// [`Backoff::CLIENT_GO`].
    Delays(Arc<dyn Fn(u32) -> Option<Duration> + Send + Sync>),
}

/// Why a backoff is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBackoff {
    /// The minimum wait is zero.
    #[error(
        "the minimum wait of a backoff must be above zero, otherwise retries become a busy loop"
    )]
    Zero,

    /// The minimum wait is longer than the maximum.
    #[error("the minimum wait of a backoff, {min:?}, is longer than its maximum, {max:?}")]
    Reversed {
        /// The given minimum.
        min: Duration,
        /// The given maximum.
        max: Duration,
    },
}

// === impl Backoff ===

impl Backoff {
    /// The backoff of client-go's reflector: from 0.8 s to 30 s.
    ///
    /// Source: client-go, `tools/cache/reflector.go`. client-go resets it after two quiet minutes;
    /// here it is reset when a watch has been stable.
    pub const CLIENT_GO: Self = Self {
        min: Duration::from_millis(800),
        max: Duration::from_secs(30),
    };

    /// Creates a backoff from `min` to `max`.
    ///
    /// # Errors
    ///
    /// [`InvalidBackoff`] if `min` is zero or longer than `max`.
    pub fn new(min: Duration, max: Duration) -> Result<Self, InvalidBackoff> {
        if min.is_zero() {
            return Err(InvalidBackoff::Zero);
        }
        if min > max {
            return Err(InvalidBackoff::Reversed { min, max });
        }
        Ok(Self { min, max })
    }

    /// The longest wait after `failures` earlier failures in a row.
    fn ceiling(&self, failures: u32) -> Duration {
        2_u32
            .checked_pow(failures)
            .and_then(|factor| self.min.checked_mul(factor))
            .map_or(self.max, |wait| wait.min(self.max))
    }

    /// The wait after `failures` earlier failures in a row: between half of the
    /// ceiling and all of it, so that many watches that broke at the same time
    /// do not retry at the same time.
    pub(crate) fn wait(&self, failures: u32, rng: &mut impl Rng) -> Duration {
        let ceiling = self.ceiling(failures);
        let wait = ceiling.as_secs_f64() * rng.random_range(0.5..=1.0);
        // Near `Duration::MAX` the rounded value overflows.
        Duration::try_from_secs_f64(wait).unwrap_or(ceiling)
    }
}

// === impl Waits ===

impl Waits {
    /// The wait after `failures` earlier failures in a row.
    pub(crate) fn wait(&self, failures: u32, rng: &mut impl Rng) -> Duration {
        match self {
            Self::Backoff(backoff) => backoff.wait(failures, rng),
            Self::Delays(delay) => {
                delay(failures).unwrap_or_else(|| Backoff::CLIENT_GO.wait(failures, rng))
            }
        }
    }
}

impl From<Backoff> for Waits {
    fn from(backoff: Backoff) -> Self {
        Self::Backoff(backoff)
    }
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backoff(backoff) => backoff.fmt(f),
            Self::Delays(_) => f.write_str("Delays"),
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::CLIENT_GO
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::{SeedableRng as _, rngs::StdRng};

    use super::{Backoff, InvalidBackoff};

    #[test]
    fn a_backoff_never_overflows() {
        assert_eq!(
            Backoff::CLIENT_GO.ceiling(u32::MAX),
            Duration::from_secs(30)
        );
    }

    #[test]
    fn delays_are_random_in_the_upper_half_of_their_maximum() {
        let rng = &mut StdRng::seed_from_u64(7);
        let ceiling = Backoff::CLIENT_GO.ceiling(3);
        let waits: Vec<Duration> = (0..100).map(|_| Backoff::CLIENT_GO.wait(3, rng)).collect();
        assert!(
            waits
                .iter()
                .all(|wait| *wait >= ceiling / 2 && *wait <= ceiling)
        );
        assert!(waits.iter().any(|wait| *wait < ceiling.mul_f64(0.6)));
        assert!(waits.iter().any(|wait| *wait > ceiling.mul_f64(0.9)));
    }

    #[test]
    fn the_maximum_delay_does_not_overflow() {
        let longest = Backoff::new(Duration::MAX, Duration::MAX).expect("a backoff");
        for seed in 0..100 {
            let rng = &mut StdRng::seed_from_u64(seed);
            assert!(longest.wait(0, rng) >= Duration::MAX / 3, "seed {seed}");
        }
    }

    #[test]
    fn a_backoff_that_never_waits_is_refused() {
        assert_eq!(
            Backoff::new(Duration::ZERO, Duration::from_secs(1)),
            Err(InvalidBackoff::Zero)
        );
    }
}
