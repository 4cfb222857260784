//! When each object is told again. *(pure)*

use std::time::Duration;

use crate::ObjectKey;

/// A round through all objects, spread over a period.
#[derive(Debug)]
pub(super) struct Round<T> {
    began: T,
    period: Duration,
    keys: Vec<ObjectKey>,
    told: usize,
}

// === impl Round ===

impl<T: Copy + std::ops::Add<Duration, Output = T>> Round<T> {
    pub(super) fn new(keys: Vec<ObjectKey>, period: Duration, began: T) -> Self {
        Self {
            began,
            period,
            keys,
            told: 0,
        }
    }

    /// When the next object is told, or when the round is over.
    pub(super) fn next(&self) -> T {
        let whole = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        let done = u32::try_from(self.told).unwrap_or(u32::MAX);
        if whole == 0 || done >= whole {
            return self.began + self.period;
        }
        // The first one a step into the round, so that rounds join without a double beat.
        self.began
            + self
                .period
                .mul_f64((f64::from(done) + 0.5) / f64::from(whole))
    }

    /// The object whose turn it is; none when the round is over.
    pub(super) fn take(&mut self) -> Option<ObjectKey> {
        let key = self.keys.get(self.told).cloned();
        self.told += 1;
        key
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Round;
    use crate::ObjectKey;

    #[test]
    fn a_round_is_spread_over_its_period() {
        let keys = vec![ObjectKey::new("a"), ObjectKey::new("b")];
        let mut round = Round::new(keys, Duration::from_secs(60), Duration::ZERO);
        let mut beats = Vec::new();
        loop {
            beats.push(round.next().as_secs());
            if round.take().is_none() {
                break;
            }
        }
        assert_eq!(beats, [15, 45, 60]);
    }

    #[test]
    fn a_round_of_nothing_waits_for_its_period() {
        let mut round = Round::new(Vec::new(), Duration::from_secs(60), Duration::ZERO);
        assert_eq!(round.next(), Duration::from_secs(60));
        assert_eq!(round.take(), None);
    }
}
