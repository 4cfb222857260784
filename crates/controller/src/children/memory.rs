//! Memory of the children of one parent between calls. *(pure)*

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::Duration,
};

use tokio::time::Instant;
use windlass_informer::ObjectKey;

use super::{digest::Digest, status::RememberedStatus};

/// What a controller remembers of the children of one parent: the result of the last apply of each.
///
/// Drop it after the parent was deleted. After a restart it is empty, and each child is applied once.
#[derive(Default)]
pub struct ChildMemory {
    children: BTreeMap<ChildId, Remembered>,
    /// The last status of the parent.
    pub(crate) status: Option<RememberedStatus>,
    /// Whether the fields of earlier managers were moved in its status.
    pub(crate) is_status_migrated: bool,
}

/// A child of a parent: its kind as `plural.group`, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChildId {
    pub(super) resource: String,
    pub(super) key: ObjectKey,
}

/// The last apply of a child.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    pub(super) uid: String,
    /// Of the desired object.
    pub(super) desired: Digest,
    /// Of the response.
    pub(super) answer: AnswerDigests,
    /// Of the response.
    pub(super) version: String,
    pub(super) reverts: Reverts,
}

/// The digests of one answer, cut to the fields of the desired object, for each form in which a
/// store may have the object later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnswerDigests {
    /// Of the JSON.
    pub(super) json: Digest,
    /// Of the object after it was decoded: fields that its type does not have are lost.
    pub(super) decoded: Digest,
    /// Of the metadata alone.
    pub(super) metadata: Digest,
}

/// How often changes of other writers were reverted.
#[derive(Clone, Debug, Default)]
pub(super) struct Reverts {
    /// The times of the last [`MAX_REVERTS`] reverts.
    times: VecDeque<Instant>,
    /// The delay after the last revert.
    delay: Duration,
}

/// More reverts of one child within [`WINDOW`] are delayed.
const MAX_REVERTS: usize = 5;

/// A child that was not reverted for this time has no other writer.
const WINDOW: Duration = Duration::from_secs(600);

/// The first delay; each following one is twice as long.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// The longest delay.
const MAX_DELAY: Duration = Duration::from_secs(300);

// === impl ChildMemory ===

impl ChildMemory {
    /// Creates an empty memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn get(&self, id: &ChildId) -> Option<&Remembered> {
        self.children.get(id)
    }

    pub(super) fn put(&mut self, id: ChildId, remembered: Remembered) {
        self.children.insert(id, remembered);
    }

    pub(super) fn forget(&mut self, id: &ChildId) {
        self.children.remove(id);
    }

    /// The remembered children of a kind: their keys and uids.
    pub(super) fn of_kind(&self, resource: &str) -> Vec<(ObjectKey, String)> {
        let of_kind = self
            .children
            .iter()
            .filter(|(id, _)| id.resource == resource);
        of_kind
            .map(|(id, child)| (id.key.clone(), child.uid.clone()))
            .collect()
    }

    /// Forgets the children of a kind that `keep` does not accept.
    pub(super) fn retain(&mut self, resource: &str, keep: impl Fn(&ObjectKey) -> bool) {
        self.children
            .retain(|id, _| id.resource != resource || keep(&id.key));
    }

    /// Whether a version that is newer than `version` is remembered of the object with `uid`: then
    /// `version` is a state from before our last write.
    pub(super) fn is_newer(remembered: &Remembered, uid: &str, version: &str) -> bool {
        remembered.uid == uid && windlass_informer::is_older(version, &remembered.version)
    }
}

// === impl Remembered ===

impl Remembered {
    /// A child of which only the labels and the owner were restored: its digests are those of no
    /// object, and its version is older than all.
    pub(super) fn restored(uid: &str) -> Self {
        let none = Digest::none();
        Self {
            uid: uid.to_owned(),
            desired: none,
            answer: AnswerDigests {
                json: none,
                decoded: none,
                metadata: none,
            },
            version: String::new(),
            reverts: Reverts::default(),
        }
    }
}

impl fmt::Debug for ChildMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildMemory")
            .field("children", &self.children.len())
            .finish_non_exhaustive()
    }
}

// === impl Reverts ===

impl Reverts {
    /// The time to wait before the next revert.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        let last = *self.times.back()?;
        let left = self
            .delay
            .saturating_sub(now.saturating_duration_since(last));
        (!left.is_zero()).then_some(left)
    }

    /// Whether another writer reverts our writes as well, counting a revert at `now`.
    pub(super) fn is_contended(&self, now: Instant) -> bool {
        let since = |time: &Instant| now.saturating_duration_since(*time);
        let is_recent = |time: &Instant| since(time) < WINDOW;
        let is_delayed = !self.delay.is_zero() && self.times.back().is_some_and(is_recent);
        let is_frequent = self.times.len() + 1 >= MAX_REVERTS && self.times.iter().all(is_recent);
        is_delayed || is_frequent
    }

    /// Counts a revert at `now`.
    pub(super) fn record(&mut self, now: Instant) {
        self.delay = if self.is_contended(now) {
            (self.delay * 2).clamp(FIRST_DELAY, MAX_DELAY)
        } else {
            Duration::ZERO
        };
        self.times.push_back(now);
        while self.times.len() >= MAX_REVERTS {
            self.times.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: RO-43
    #[test]
    fn two_writers_that_revert_each_other_slow_down_to_one_revert_in_five_minutes() {
        let start = Instant::now();
        let (mut reverts, mut now, mut delays) = (Reverts::default(), start, Vec::new());
        for _ in 0..16 {
            reverts.record(now);
            let wait = reverts.wait(now).unwrap_or_default();
            delays.push(wait.as_secs());
            now += wait + Duration::from_millis(10);
            assert_eq!(reverts.wait(now), None, "the wait is over");
        }
        assert_eq!(delays[..4], [0; 4], "a few reverts are not delayed");
        assert_eq!(delays[4..13], [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        assert_eq!(delays[13..], [300; 3]);

        now += WINDOW;
        assert!(!reverts.is_contended(now));
        reverts.record(now);
        assert_eq!(reverts.wait(now), None, "the other writer has stopped");
    }

    #[test]
    fn rare_reverts_are_never_delayed() {
        let (mut reverts, mut now) = (Reverts::default(), Instant::now());
        for _ in 0..50 {
            now += WINDOW / 4 + Duration::from_secs(1);
            reverts.record(now);
            assert_eq!(reverts.wait(now), None);
        }
    }
}
