//! Objects that do not decode, and when to request each again. *(pure)*

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::ObjectKey;

/// The objects that are set aside because they do not decode.
///
/// Generic over the instant, so that it has no clock of its own.
#[derive(Debug)]
pub(crate) struct Aside<T> {
    objects: BTreeMap<ObjectKey, Look<T>>,

    /// Exactly the keys of `objects`, soonest first.
    due: BTreeSet<(T, ObjectKey)>,

    /// No object is requested before.
    next_look: Option<T>,
}

#[derive(Debug)]
struct Look<T> {
    due: T,
    failures: u32,
}

// === impl Aside ===

impl<T: Copy + Ord + std::ops::Add<Duration, Output = T>> Aside<T> {
    /// The first look is soon, in case whoever broke the object is about to mend it in a
    /// way no watch shows (a conversion webhook that comes back).
    const FIRST: Duration = Duration::from_secs(30);

    /// A broken object costs one request in this time, for as long as it is broken.
    const LONGEST: Duration = Duration::from_secs(10 * 60);

    /// The least time between two requests. Where many objects do not decode, the wait of
    /// each becomes as long as it takes to request the others.
    const GAP: Duration = Duration::from_secs(1);

    pub(crate) fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            due: BTreeSet::new(),
            next_look: None,
        }
    }

    /// The object that is due at `now` is requested. Returns it; it is set aside once more.
    pub(crate) fn look(&mut self, now: T) -> Option<ObjectKey> {
        let (due, key) = self.next()?;
        if due > now {
            return None;
        }
        let key = key.clone();
        self.next_look = Some(now + Self::GAP);
        self.put(key.clone(), now);
        Some(key)
    }

    /// How many objects are aside.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether `key` is aside.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    /// Sets `key` aside, once more if it is aside already.
    pub(crate) fn put(&mut self, key: ObjectKey, now: T) {
        let failures = self.take(&key).map_or(0, |look| look.failures + 1);
        let wait = Self::FIRST
            .saturating_mul(2_u32.saturating_pow(failures))
            .min(Self::LONGEST);
        let due = now + wait;
        self.due.insert((due, key.clone()));
        self.objects.insert(key, Look { due, failures });
    }

    /// Whether nothing is aside.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Forgets `key`: it decodes again, or is gone. Returns whether it was aside.
    pub(crate) fn forget(&mut self, key: &ObjectKey) -> bool {
        self.take(key).is_some()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.objects.clear();
        self.due.clear();
    }

    /// The object to request next, and when.
    pub(crate) fn next(&self) -> Option<(T, &ObjectKey)> {
        let (due, key) = self.due.first()?;
        let due = self.next_look.map_or(*due, |next_look| next_look.max(*due));
        Some((due, key))
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Look<T>> {
        let look = self.objects.remove(key)?;
        self.due.remove(&(look.due, key.clone()));
        Some(look)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Aside;
    use crate::ObjectKey;

    #[test]
    fn an_object_that_stays_broken_is_looked_at_less_and_less_often() {
        let mut aside = Aside::new();
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        for _ in 0..7 {
            aside.put(ObjectKey::new("bad"), now);
            let (due, _) = aside.next().expect("one object");
            waits.push(due.saturating_sub(now).as_secs());
            now = due;
        }
        assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600]);
    }

    #[test]
    fn of_many_broken_objects_one_is_requested_each_second() {
        let mut aside = Aside::new();
        for number in 0..100 {
            aside.put(ObjectKey::new(format!("bad-{number}")), Duration::ZERO);
        }
        let mut now = Duration::ZERO;
        for second in 30..130 {
            let (due, _) = aside.next().expect("a hundred objects");
            assert_eq!(due, Duration::from_secs(second));
            assert_eq!(aside.look(now), None, "it is not due at {now:?}");
            now = due;
            assert!(aside.look(now).is_some(), "it is due at {now:?}");
        }
        assert_eq!(aside.len(), 100);
    }

    #[test]
    fn an_object_that_is_forgotten_is_not_looked_at() {
        let mut aside = Aside::new();
        aside.put(ObjectKey::new("bad"), Duration::ZERO);
        assert!(aside.forget(&ObjectKey::new("bad")));
        assert!(!aside.forget(&ObjectKey::new("bad")));
        assert!(aside.next().is_none());
    }
}
