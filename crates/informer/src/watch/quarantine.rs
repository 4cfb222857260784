//! Objects that do not decode, and when to request each again. *(pure)*

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::ObjectKey;

/// The quarantine: objects that do not decode, and when each is requested again.
///
/// Generic over the instant, so that it needs no clock.
#[derive(Debug)]
pub(crate) struct DecodeQuarantine<T> {
    objects: BTreeMap<ObjectKey, QuarantinedObject<T>>,

    /// Exactly the keys of `objects`, soonest first.
    due: BTreeSet<(T, ObjectKey)>,

    /// No object is requested before this time.
    next_request: Option<T>,
}

#[derive(Debug)]
struct QuarantinedObject<T> {
    due: T,
    failures: u32,
}

// === impl DecodeQuarantine ===

impl<T: Copy + Ord + std::ops::Add<Duration, Output = T>> DecodeQuarantine<T> {
    /// The first request is early, in case the object becomes decodable without a watch event, for
    /// example because a conversion webhook works again.
    const FIRST: Duration = Duration::from_secs(30);

    /// The longest wait between two requests of one object.
    const LONGEST: Duration = Duration::from_secs(10 * 60);

    /// The minimum time between two requests. With many undecodable objects, each waits until the
    /// others were requested.
    const GAP: Duration = Duration::from_secs(1);

    pub(crate) fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            due: BTreeSet::new(),
            next_request: None,
        }
    }

    /// Returns the object that is due at `now`, and schedules its next request.
    pub(crate) fn take_due(&mut self, now: T) -> Option<ObjectKey> {
        let (due, key) = self.next()?;
        if due > now {
            return None;
        }
        let key = key.clone();
        self.next_request = Some(now + Self::GAP);
        self.put(key.clone(), now);
        Some(key)
    }

    /// The number of quarantined objects.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether `key` is quarantined.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    /// Quarantines `key`, or extends its wait if it is quarantined already.
    pub(crate) fn put(&mut self, key: ObjectKey, now: T) {
        let failures = self
            .take(&key)
            .map_or(0, |known| known.failures.saturating_add(1));
        let wait = Self::FIRST
            .saturating_mul(2_u32.saturating_pow(failures))
            .min(Self::LONGEST);
        let due = now + wait;
        self.due.insert((due, key.clone()));
        self.objects
            .insert(key, QuarantinedObject { due, failures });
    }

    /// Whether no object is quarantined.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Removes `key`, because it decodes or was deleted. Returns whether it was quarantined.
    pub(crate) fn forget(&mut self, key: &ObjectKey) -> bool {
        self.take(key).is_some()
    }

    /// Removes all objects.
    pub(crate) fn clear(&mut self) {
        self.objects.clear();
        self.due.clear();
    }

    /// The object to request next, and its time.
    pub(crate) fn next(&self) -> Option<(T, &ObjectKey)> {
        let (due, key) = self.due.first()?;
        let due = self
            .next_request
            .map_or(*due, |next_request| next_request.max(*due));
        Some((due, key))
    }

    fn take(&mut self, key: &ObjectKey) -> Option<QuarantinedObject<T>> {
        let object = self.objects.remove(key)?;
        self.due.remove(&(object.due, key.clone()));
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::DecodeQuarantine;
    use crate::ObjectKey;

    #[test]
    fn an_object_that_stays_undecodable_is_requested_with_a_growing_delay() {
        let mut quarantine = DecodeQuarantine::new();
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        for _ in 0..7 {
            quarantine.put(ObjectKey::new("bad"), now);
            let (due, _) = quarantine.next().expect("one object");
            waits.push(due.saturating_sub(now).as_secs());
            now = due;
        }
        assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600]);
    }

    #[test]
    fn only_one_undecodable_object_is_requested_per_second() {
        let mut quarantine = DecodeQuarantine::new();
        for number in 0..100 {
            quarantine.put(ObjectKey::new(format!("bad-{number}")), Duration::ZERO);
        }
        let mut now = Duration::ZERO;
        for second in 30..130 {
            let (due, _) = quarantine.next().expect("a hundred objects");
            assert_eq!(due, Duration::from_secs(second));
            assert_eq!(quarantine.take_due(now), None, "it is not due at {now:?}");
            now = due;
            assert!(quarantine.take_due(now).is_some(), "it is due at {now:?}");
        }
        assert_eq!(quarantine.len(), 100);
    }

    #[test]
    fn a_removed_object_is_not_requested() {
        let mut quarantine = DecodeQuarantine::new();
        quarantine.put(ObjectKey::new("bad"), Duration::ZERO);
        assert!(quarantine.forget(&ObjectKey::new("bad")));
        assert!(!quarantine.forget(&ObjectKey::new("bad")));
        assert!(quarantine.next().is_none());
    }

    #[test]
    fn a_cleared_quarantine_is_empty() {
        let mut quarantine = DecodeQuarantine::new();
        assert!(quarantine.is_empty());
        quarantine.put(ObjectKey::new("bad"), Duration::ZERO);
        assert!(!quarantine.is_empty());
        quarantine.clear();
        assert!(quarantine.is_empty());
        assert!(quarantine.next().is_none());
        assert!(!quarantine.contains(&ObjectKey::new("bad")));
    }
}
