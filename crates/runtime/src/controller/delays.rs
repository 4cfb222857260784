//! `Delays`: the delays of a user's backoff, for all watches of a controller.

use std::{fmt, time::Duration};

use parking_lot::Mutex;

use crate::utils::Backoff;

/// The delays of the backoff that the user has set, drawn when they are needed.
///
/// A backoff has a state and cannot be cloned. Its delays are drawn once, and each watch has its own
/// position in them.
#[derive(Default)]
pub(super) struct Delays {
    drawn: Mutex<Option<Drawn>>,
}

struct Drawn {
    backoff: Box<dyn Backoff>,
    delays: Vec<Duration>,
    /// Whether the backoff has ended, or as many delays were drawn as are kept.
    has_ended: bool,
}

/// How many delays are drawn. After that the last one is repeated: an exponential backoff has reached
/// its cap before.
const MOST: usize = 64;

/// The shortest delay: without one, a watch that fails at once is a busy loop.
const SHORTEST: Duration = Duration::from_millis(1);

// === impl Delays ===

impl Delays {
    /// Uses the delays of `backoff` from now on.
    pub(super) fn replace(&self, backoff: impl Backoff + 'static) {
        *self.drawn.lock() = Some(Drawn {
            backoff: Box::new(backoff),
            delays: Vec::new(),
            has_ended: false,
        });
    }

    /// The delay after this number of earlier failures in a row. `None` for the default backoff.
    pub(super) fn after(&self, failures: u32) -> Option<Duration> {
        let mut drawn = self.drawn.lock();
        let drawn = drawn.as_mut()?;
        let wanted = usize::try_from(failures).unwrap_or(usize::MAX);
        while !drawn.has_ended && drawn.delays.len() <= wanted {
            let next = drawn.backoff.next();
            drawn.delays.extend(next.map(|delay| delay.max(SHORTEST)));
            drawn.has_ended = next.is_none() || drawn.delays.len() == MOST;
        }
        let delay = drawn.delays.get(wanted).or(drawn.delays.last());
        delay.copied()
    }
}

impl fmt::Debug for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delays").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Backoff, Delays};

    /// 1, 2 and 3 seconds.
    struct Three(u64);

    impl Iterator for Three {
        type Item = Duration;

        fn next(&mut self) -> Option<Duration> {
            self.0 += 1;
            (self.0 <= 3).then(|| Duration::from_secs(self.0))
        }
    }

    impl Backoff for Three {
        fn reset(&mut self) {
            self.0 = 0;
        }
    }

    #[test]
    fn each_watch_has_its_own_position_and_the_last_delay_is_repeated() {
        let delays = Delays::default();
        assert_eq!(delays.after(0), None);
        delays.replace(Three(0));
        let seconds = |failures| delays.after(failures).map(|delay| delay.as_secs());
        assert_eq!([0, 1, 2, 3, 900].map(seconds), [1, 2, 3, 3, 3].map(Some));
        assert_eq!(seconds(0), Some(1));
    }

    #[test]
    fn a_backoff_without_delays_is_the_default_one() {
        let delays = Delays::default();
        delays.replace(Three(3));
        assert_eq!(delays.after(0), None);
    }
}
