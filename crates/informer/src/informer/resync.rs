//! Resync times of all objects. *(pure)*
//!
//! The period consists of slices, and the hash of its key assigns each object to a slice. The keys
//! of a slice are read from the store when the slice begins. So each object is resynced once in
//! each period, and for the first time at most one period and one slice after it was added. All
//! times are durations since the schedule was created, so that no instant overflows.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use crate::ObjectKey;

/// The times at which objects are resynced.
#[derive(Debug)]
pub(super) struct ResyncSchedule {
    /// The number of slices of a period.
    slices: u64,

    /// The length of a slice.
    length: Duration,

    /// The number of slices that have begun.
    begun: u64,

    /// When the next slice begins. `None` if that is beyond the range of `Duration`.
    next_slice: Option<Duration>,

    /// When the current slice began.
    began: Duration,

    /// The objects of the current slice, and how many of them were taken.
    keys: Vec<ObjectKey>,
    taken: u32,
}

// === impl ResyncSchedule ===

impl ResyncSchedule {
    /// A delay of a 64th of the period does not matter, and reading all keys of the store 64 times
    /// in a period costs less than one resync of each.
    const SLICES: u64 = 64;

    /// The resolution of tokio's timer. A shorter slice would be a busy loop.
    const SHORTEST: Duration = Duration::from_millis(1);

    /// Creates a schedule that begins now.
    pub(super) fn new(period: Duration) -> Self {
        let period = period.max(Self::SHORTEST);
        let slices = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
        let slices = slices.clamp(1, Self::SLICES);
        Self {
            slices,
            length: period / u32::try_from(slices).unwrap_or(1),
            begun: 0,
            next_slice: Some(Duration::ZERO),
            began: Duration::ZERO,
            keys: Vec::new(),
            taken: 0,
        }
    }

    /// When the next object or slice is due. `None` if never.
    pub(super) fn due(&self) -> Option<Duration> {
        let count = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        if self.taken >= count {
            return self.next_slice;
        }
        // In the middle of its share of the slice, so that the distances between slices are even.
        let share = self.length / count;
        let offset = share.saturating_mul(self.taken).saturating_add(share / 2);
        self.began.checked_add(offset)
    }

    /// Takes the object that is due. `None` if the slice is over and the next one has to
    /// [begin](Self::begin).
    pub(super) fn take(&mut self) -> Option<ObjectKey> {
        let key = self.keys.get(usize::try_from(self.taken).ok()?)?.clone();
        self.taken += 1;
        Some(key)
    }

    /// Begins the next slice. `keys` returns the keys of the store that the filter accepts.
    pub(super) fn begin(
        &mut self,
        now: Duration,
        keys: impl FnOnce(&dyn Fn(&ObjectKey) -> bool) -> Vec<ObjectKey>,
    ) {
        let due = self.next_slice.unwrap_or(now);
        // After a stall of more than a slice the schedule continues from now: resyncs that were
        // missed are not delivered all at once to the subscribers that caused the stall.
        self.began = if now.saturating_sub(due) < self.length {
            due
        } else {
            now
        };
        self.next_slice = self.began.checked_add(self.length);
        let slice = self.begun % self.slices;
        self.begun += 1;
        self.keys = keys(&|key| slice_of(key, self.slices) == slice);
        self.taken = 0;
    }
}

/// The slice of a key, which never changes.
fn slice_of(key: &ObjectKey, slices: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish() % slices
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use super::ResyncSchedule;
    use crate::ObjectKey;

    const PERIOD: Duration = Duration::from_secs(640);
    const SLICE: Duration = Duration::from_secs(10);

    /// Runs a schedule until `end`; `there(now)` are the objects of the store. Returns when
    /// each object was resynced.
    fn resyncs(
        end: Duration,
        there: impl Fn(Duration) -> Vec<ObjectKey>,
    ) -> BTreeMap<ObjectKey, Vec<Duration>> {
        let mut schedule = ResyncSchedule::new(PERIOD);
        let mut resyncs = BTreeMap::<_, Vec<_>>::new();
        while let Some(now) = schedule.due().filter(|due| *due < end) {
            match schedule.take() {
                Some(key) => resyncs.entry(key).or_default().push(now),
                None => schedule.begin(now, |wanted| {
                    there(now).into_iter().filter(|key| wanted(key)).collect()
                }),
            }
        }
        resyncs
    }

    #[test]
    fn each_object_is_resynced_once_in_each_period() {
        let keys: Vec<_> = (0..1000).map(|at| ObjectKey::new(at.to_string())).collect();
        let resyncs = resyncs(PERIOD * 3, |_| keys.clone());
        assert_eq!(resyncs.len(), keys.len());
        for (key, times) in resyncs {
            let periods: Vec<_> = times.iter().map(|time| time.as_secs() / 640).collect();
            assert_eq!(periods, [0, 1, 2], "{key}: {times:?}");
        }
    }

    #[test]
    fn the_first_resync_is_at_most_a_period_and_a_slice_after_the_object_came() {
        for came in (0..1280).map(Duration::from_secs) {
            let key = ObjectKey::new(format!("came-at-{}", came.as_secs()));
            let there = |now| Vec::from_iter((now >= came).then(|| key.clone()));
            let resyncs = resyncs(PERIOD * 4, there);
            let first = resyncs[&key][0];
            let waited = first.checked_sub(came).expect("not before it came");
            assert!(waited <= PERIOD + SLICE, "{key} waited {waited:?}");
        }
    }

    #[test]
    fn resyncs_are_spread_over_the_period() {
        let keys: Vec<_> = (0..6400).map(|at| ObjectKey::new(at.to_string())).collect();
        let mut by_minute = BTreeMap::<_, u32>::new();
        for time in resyncs(PERIOD, |_| keys.clone()).into_values().flatten() {
            *by_minute.entry(time.as_secs() / 64).or_default() += 1;
        }
        assert_eq!(by_minute.len(), 10);
        assert!(by_minute.values().all(|count| (500..800).contains(count)));
    }

    #[test]
    fn a_late_schedule_continues_without_repeating_missed_slices() {
        let mut schedule = ResyncSchedule::new(PERIOD);
        schedule.begin(Duration::ZERO, |_| Vec::new());
        assert_eq!(schedule.due(), Some(SLICE));
        // A late timer moves nothing.
        schedule.begin(SLICE + Duration::from_millis(1), |_| Vec::new());
        assert_eq!(schedule.due(), Some(SLICE * 2));
        schedule.begin(PERIOD * 10, |_| Vec::new());
        assert_eq!(schedule.due(), Some(PERIOD * 10 + SLICE));
    }

    #[test]
    fn any_period_is_valid() {
        for period in [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_millis(3),
            Duration::MAX / 2,
            Duration::MAX,
        ] {
            let mut schedule = ResyncSchedule::new(period);
            let mut last = None;
            for _ in 0..200 {
                let Some(due) = schedule.due() else { break };
                if schedule.take().is_none() {
                    assert!(last < Some(due), "{period:?} does not move");
                    last = Some(due);
                    schedule.begin(due, |_| vec![ObjectKey::new("a"), ObjectKey::new("b")]);
                }
            }
        }
    }
    #[test]
    fn a_schedule_that_is_one_slice_late_restarts_immediately() {
        for (late, began) in [
            (
                SLICE.saturating_sub(Duration::from_nanos(1)),
                Duration::ZERO,
            ),
            (SLICE, SLICE),
        ] {
            let mut schedule = ResyncSchedule::new(PERIOD);
            schedule.begin(late, |_| Vec::new());
            assert_eq!(schedule.due(), Some(began + SLICE), "{late:?}");
        }
    }
}
