//! Finds an object whose handlers are called too often, such as one that its handler writes at each
//! call.

use std::{collections::HashMap, time::Duration};

use windlass_informer::ObjectKey;

use crate::schedule::Moment;

/// Counts the calls of one kind in windows of time. Its memory is bounded, and while few calls begin
/// it only counts them.
#[derive(Debug, Default)]
pub(super) struct FrequentObjects {
    /// The begin of the current window.
    since: Option<Moment>,
    /// The calls of the window.
    calls: u32,
    /// Those for each object, from the call at which the window has many.
    objects: HashMap<ObjectKey, u32>,
    /// When an object was last reported.
    reported: Option<Moment>,
}

impl FrequentObjects {
    /// The length of a window: longer than the bursts of a start or a resync for one object.
    pub(super) const WINDOW: Duration = Duration::from_secs(10);

    /// The calls for one object in a window that are reported: thirty in a second, which no retry
    /// and no user causes for so long.
    pub(super) const LIMIT: u32 = 300;

    /// The objects that are counted in a window. An object that reaches the limit is among the first.
    const MAX_OBJECTS: usize = 256;

    /// The time between two reports of a kind: a line each minute shows that it continues.
    const PAUSE: Duration = Duration::from_secs(60);

    /// Counts a call for `key` that begins at `now`. Returns whether the object has to be reported.
    pub(super) fn count(&mut self, key: &ObjectKey, now: Moment) -> bool {
        let since = *self.since.get_or_insert(now);
        if now - since >= Self::WINDOW {
            self.since = Some(now);
            self.calls = 0;
            self.objects.clear();
        }
        self.calls = self.calls.saturating_add(1);
        // The first calls of the window are counted without their objects, which costs nothing.
        if self.calls <= Self::LIMIT {
            return false;
        }
        let is_full = self.objects.len() >= Self::MAX_OBJECTS;
        let count = match self.objects.get_mut(key) {
            Some(count) => count,
            None if is_full => return false,
            None => self.objects.entry(key.clone()).or_default(),
        };
        *count += 1;
        let is_due = self
            .reported
            .is_none_or(|reported| now - reported >= Self::PAUSE);
        let is_frequent = *count >= Self::LIMIT && is_due;
        if is_frequent {
            self.reported = Some(now);
        }
        is_frequent
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_informer::ObjectKey;

    use super::FrequentObjects;
    use crate::schedule::Moment;

    #[test]
    fn only_an_object_with_many_calls_in_one_window_is_reported_and_once_a_minute() {
        let mut objects = FrequentObjects::default();
        let start = Moment::default();
        let hot = ObjectKey::new("hot");
        // Many calls for many objects.
        for number in 0..10_000 {
            let key = ObjectKey::new(format!("object{number}"));
            assert!(!objects.count(&key, start));
        }
        let at = |millis| start + Duration::from_millis(millis);
        // One call each 50 ms is not too often; one each 10 ms is.
        let reports = |objects: &mut FrequentObjects, from: u64, step: u64| {
            let times = (from..from + 60_000).step_by(usize::try_from(step).expect("small"));
            times.filter(|time| objects.count(&hot, at(*time))).count()
        };
        assert_eq!(reports(&mut objects, 20_000, 50), 0);
        assert_eq!(reports(&mut objects, 100_000, 10), 1);
        assert_eq!(reports(&mut objects, 170_000, 10), 1);
    }
}
