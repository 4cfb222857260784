//! The pace of calls: debounce and rate limit of each object.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_informer::ObjectKey;

use super::{Reasons, debounce::Debounce};
use crate::gcra::Rate;

/// Decides whether a call begins now. Objects that wait for nothing need no memory.
#[derive(Debug, Default)]
pub(super) struct Paces {
    debounce: Option<Debounce>,
    rate: Option<Rate>,
    objects: Mutex<HashMap<ObjectKey, Pace>>,
}

/// The times of one object, as durations since `began`.
#[derive(Clone, Copy, Debug)]
struct Pace {
    began: Instant,
    /// When the first and the last of the events came that wait for a quiet time.
    waiting: Option<(Duration, Duration)>,
    /// The theoretical arrival time of the rate limit.
    arrival: Duration,
}

// === impl Paces ===

impl Paces {
    pub(super) fn new(debounce: Option<Debounce>, rate: Option<Rate>) -> Self {
        Self {
            debounce,
            rate,
            objects: Mutex::default(),
        }
    }

    /// Returns how long a call for `key` has to wait. If it does not, it [begins](Self::begin).
    pub(super) fn wait(&self, key: &ObjectKey, reasons: Reasons, now: Instant) -> Option<Duration> {
        self.change(key, now, |pace, now| self.wait_of(pace, reasons, now))
    }

    /// Notes that a call for `key` begins.
    pub(super) fn begin(&self, key: &ObjectKey, now: Instant) {
        self.change(key, now, |pace, now| {
            pace.waiting = None;
            let ahead = pace.arrival.saturating_sub(now);
            if let Some(Ok(ahead)) = self.rate.map(|rate| rate.admit(ahead)) {
                pace.arrival = now.saturating_add(ahead);
            }
            None
        });
    }

    fn change(
        &self,
        key: &ObjectKey,
        now: Instant,
        change: impl FnOnce(&mut Pace, Duration) -> Option<Duration>,
    ) -> Option<Duration> {
        if self.debounce.is_none() && self.rate.is_none() {
            return None;
        }
        let mut objects = self.objects.lock();
        let mut pace = objects.get(key).copied().unwrap_or(Pace {
            began: now,
            waiting: None,
            arrival: Duration::ZERO,
        });
        let since = now.saturating_duration_since(pace.began);
        let wait = change(&mut pace, since);
        if pace.waiting.is_none() && pace.arrival <= since {
            objects.remove(key);
        } else {
            objects.insert(key.clone(), pace);
        }
        wait
    }

    fn wait_of(&self, pace: &mut Pace, reasons: Reasons, now: Duration) -> Option<Duration> {
        if let Some(debounce) = self.debounce {
            // A retry, a requeue and a deferred call are no events, and have waited.
            let is_event = reasons != Reasons::RETRY && !reasons.contains(Reasons::REQUEUE);
            if is_event {
                let first = pace.waiting.map_or(now, |(first, _)| first);
                pace.waiting = Some((first, now));
            }
            if let Some((first, last)) = pace.waiting
                && let Some(wait) = debounce.wait(first, last, now)
            {
                return Some(wait);
            }
        }
        let ahead = pace.arrival.saturating_sub(now);
        self.rate?.admit(ahead).err()
    }

    /// Forgets an object that was deleted.
    pub(super) fn forget(&self, key: &ObjectKey) {
        if self.debounce.is_some() || self.rate.is_some() {
            self.objects.lock().remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_object_needs_no_memory_after_its_limit_has_passed() {
        let second = Duration::from_secs(1);
        let paces = Paces::new(None, Rate::new(1, second));
        let key = ObjectKey::new("web");
        let now = Instant::now();
        assert_eq!(paces.wait(&key, Reasons::CHANGED, now), None);
        paces.begin(&key, now);
        assert_eq!(paces.wait(&key, Reasons::CHANGED, now), Some(second));
        assert_eq!(paces.objects.lock().len(), 1);
        paces.forget(&key);
        assert!(paces.objects.lock().is_empty());
    }
}
