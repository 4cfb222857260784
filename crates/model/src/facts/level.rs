//! The calls of a level-triggered controller, and the changes that cause them.

use std::{collections::BTreeMap, ops::Bound::Excluded, sync::Arc, time::Duration};

use super::{Facts, Moment};
use crate::{
    Began, CallId, Entry, InformerEvent, InformerId, Outcome, Settings, Snapshot, Version, Writer,
};

/// The calls of a level-triggered controller in the current process, and the changes that its
/// informers have shown.
#[derive(Debug, Default)]
pub(crate) struct LevelFacts {
    /// By the key of the primary object.
    pub(crate) lanes: BTreeMap<Arc<str>, Lane>,
    /// In the order in which the informers have shown them.
    pub(crate) changes: Vec<Change>,
    /// The writes of calls, by the version that they left.
    writes: BTreeMap<Version, OwnWrite>,
    /// The uids of the objects that the server has committed, by version.
    commits: BTreeMap<Version, Arc<str>>,
    /// The lane of each call.
    lane_of: BTreeMap<CallId, Arc<str>>,
    /// The informer that has listed last, and when.
    listed: Option<(InformerId, Duration)>,
}

/// The calls for one primary object.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Oldest first.
    pub(crate) calls: Vec<LaneCall>,
    /// The number of failures in a row, without those of early calls.
    pub(crate) failures: u32,
    /// The retry or the requeue that the last call has left.
    pub(crate) scheduled: Option<Scheduled>,
}

/// One call.
#[derive(Debug)]
pub(crate) struct LaneCall {
    pub(crate) began: Moment,
    pub(crate) ended: Option<Moment>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) object: Arc<Snapshot>,
    /// The objects of other kinds that it has read at its begin, by key.
    pub(crate) read: BTreeMap<Arc<str>, Arc<Snapshot>>,
    /// Whether it began before the retry was due, and for no new generation.
    is_early: bool,
    call: CallId,
}

/// A retry or a requeue.
#[derive(Clone, Debug)]
pub(crate) struct Scheduled {
    pub(crate) has_failed: bool,
    /// The earliest and the latest time.
    pub(crate) due: Duration,
    pub(crate) latest: Duration,
    pub(crate) object: Arc<Snapshot>,
}

/// A change that an informer has shown.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) at: Moment,
    pub(crate) is_primary: bool,
    pub(crate) is_deletion: bool,
    /// Whether it may come from a list, in which earlier versions are missing.
    is_listed: bool,
    /// Whether it has a new generation or a deletion mark.
    is_urgent: bool,
    /// The version of the same object that was shown before.
    before: Option<Version>,
    pub(crate) object: Arc<Snapshot>,
}

/// A write of a call.
#[derive(Debug)]
struct OwnWrite {
    call: CallId,
    /// When the call received the response, and whether the version is proven.
    answer: Option<(Duration, bool)>,
}

// === impl Facts ===

impl Facts {
    pub(super) fn apply_level(&mut self, entry: &Entry) {
        let now = self.moment();
        match entry {
            Entry::Stopped => self.level = LevelFacts::default(),
            Entry::Listed(informer) => self.level.listed = Some((*informer, now.time)),
            Entry::InformerEvent { informer, shown } => {
                let kind = self.informers.get(informer).map(|it| &it.kind);
                let mut handlers = self.handlers.values();
                let is_primary = handlers.any(|it| Some(&it.handler.kind) == kind);
                self.level.show(*informer, is_primary, shown, now);
            }
            Entry::Committed { by, object } => {
                let uid = Arc::clone(&object.uid);
                self.level.commits.insert(object.version, uid);
                if let Writer::Call(call) = by {
                    let write = OwnWrite {
                        call: *call,
                        answer: None,
                    };
                    self.level.writes.insert(object.version, write);
                }
            }
            Entry::Answered {
                call,
                version,
                proven,
            } => {
                let write = self.level.writes.get_mut(version);
                if let Some(write) = write.filter(|write| write.call == *call) {
                    write.answer = Some((now.time, *proven));
                }
            }
            Entry::Began(began) => self.level.begin(began, now),
            Entry::Read { call, object } => {
                if let Some(call) = self.level.call(*call) {
                    call.read
                        .insert(Arc::clone(&object.key), Arc::clone(object));
                }
            }
            Entry::Ended { call, outcome } => {
                self.level.end(*call, outcome, &self.settings, now);
            }
            _ => {}
        }
    }
}

// === impl LevelFacts ===

impl LevelFacts {
    fn show(&mut self, informer: InformerId, is_primary: bool, shown: &InformerEvent, now: Moment) {
        let object = shown.object();
        let before = self.newest(is_primary, &object.key);
        let before = before.filter(|before| before.object.uid == object.uid);
        let is_urgent = before.is_none_or(|before| object.is_urgent_after(&before.object));
        let before = before.map(|before| before.object.version);
        self.changes.push(Change {
            at: now,
            is_primary,
            is_deletion: matches!(shown, InformerEvent::Deleted(_)),
            is_listed: self.listed == Some((informer, now.time)),
            is_urgent,
            before,
            object: Arc::clone(object),
        });
    }

    fn begin(&mut self, began: &Began, now: Moment) {
        let key = &began.object.key;
        self.lane_of.insert(began.call, Arc::clone(key));
        let is_renewed = self.is_renewed(began);
        let lane = self.lanes.entry(Arc::clone(key)).or_default();
        let last = lane.calls.last();
        if last.is_some_and(|last| last.object.uid != began.object.uid) {
            *lane = Lane::default();
        }
        let scheduled = lane.scheduled.as_ref();
        let waiting = scheduled.filter(|it| it.has_failed);
        let is_first = began.request.is_none_or(|request| request.attempt == 0);
        let is_urgent = waiting.is_some() && is_renewed && is_first;
        if is_urgent {
            lane.failures = 0;
        }
        let is_early = waiting.is_some_and(|it| now.time < it.due) && !is_urgent;
        if !is_early {
            lane.scheduled = None;
        }
        lane.calls.push(LaneCall {
            began: now,
            ended: None,
            outcome: None,
            object: Arc::clone(&began.object),
            read: BTreeMap::new(),
            is_early,
            call: began.call,
        });
    }

    fn end(&mut self, call: CallId, outcome: &Outcome, settings: &Settings, now: Moment) {
        let lane = (self.lane_of.get(&call)).and_then(|key| self.lanes.get_mut(key));
        let Some(lane) = lane else { return };
        let Some(ended) = lane.calls.iter_mut().find(|it| it.call == call) else {
            return;
        };
        ended.ended = Some(now);
        ended.outcome = Some(outcome.clone());
        let object = Arc::clone(&ended.object);
        let retry_after = match outcome {
            Outcome::Done | Outcome::Requeue { .. } => {
                lane.failures = 0;
                let Outcome::Requeue { after, .. } = outcome else {
                    lane.scheduled = None;
                    return;
                };
                lane.scheduled = Some(Scheduled {
                    has_failed: false,
                    due: now.time + *after,
                    latest: now.time + *after,
                    object,
                });
                return;
            }
            Outcome::Failed { retry_after, .. } => *retry_after,
            Outcome::Panicked => None,
            Outcome::Dropped => return,
        };
        // An early call that takes longer replaces the retry.
        let scheduled = lane.scheduled.as_mut().filter(|it| it.due > now.time);
        if let Some(scheduled) = scheduled.filter(|_| ended.is_early) {
            // The schedule stays, but a delay that was requested can be longer.
            let requested = now.time + retry_after.unwrap_or_default();
            scheduled.due = scheduled.due.max(requested);
            scheduled.latest = scheduled.latest.max(requested);
            return;
        }
        let delays = settings.retry.delays(lane.failures);
        lane.failures += 1;
        lane.scheduled = delays.map(|(shortest, longest)| Scheduled {
            has_failed: true,
            due: now.time + retry_after.unwrap_or(shortest),
            latest: now.time + retry_after.unwrap_or(longest),
            object,
        });
    }

    fn call(&mut self, call: CallId) -> Option<&mut LaneCall> {
        let lane = self.lanes.get_mut(self.lane_of.get(&call)?)?;
        lane.calls.iter_mut().find(|it| it.call == call)
    }

    // --- queries ---

    /// Whether the object has a new generation or a deletion mark since the last call, which ends the
    /// backoff. The last call may have read it before its event arrived.
    pub(crate) fn is_renewed(&self, began: &Began) -> bool {
        let object = &began.object;
        let lane = self.lanes.get(&object.key);
        let Some(last) = lane.and_then(|lane| lane.calls.last()) else {
            return false;
        };
        let since = last.began.time;
        object.is_urgent_after(&last.object)
            || self.changes.iter().any(|it| {
                it.is_primary && it.object.key == object.key && it.is_urgent && it.at.time >= since
            })
    }

    /// The last change of the object with this key.
    pub(crate) fn newest(&self, is_primary: bool, key: &str) -> Option<&Change> {
        let mut changes = self.changes.iter().rev();
        changes.find(|it| it.is_primary == is_primary && &*it.object.key == key)
    }

    /// The changes of the object with this key that are not only writes of calls of `lane`, oldest
    /// first.
    pub(crate) fn foreign<'a>(
        &'a self,
        lane: &'a str,
        is_primary: bool,
        key: &'a str,
    ) -> impl Iterator<Item = &'a Change> {
        self.changes.iter().filter(move |it| {
            it.is_primary == is_primary
                && &*it.object.key == key
                && (it.is_deletion
                    || !self.is_written_by(it.object.version, lane)
                    || self.hides_foreign(it, lane))
        })
    }

    /// Whether a list has shown `change`, and not a version of another client before it.
    fn hides_foreign(&self, change: &Change, lane: &str) -> bool {
        let Some(before) = change
            .before
            .filter(|before| *before < change.object.version)
        else {
            return false;
        };
        let between = (Excluded(before), Excluded(change.object.version));
        let mut commits = self.commits.range(between);
        commits
            .any(|(version, uid)| *uid == change.object.uid && !self.is_written_by(*version, lane))
    }

    fn is_written_by(&self, version: Version, lane: &str) -> bool {
        let write = self.writes.get(&version);
        let of = write.and_then(|write| self.lane_of.get(&write.call));
        of.is_some_and(|of| &**of == lane)
    }

    /// Whether a call has made a write without a response.
    pub(crate) fn has_unknown_write(&self, call: &LaneCall) -> bool {
        let mut writes = self.writes.values();
        writes.any(|write| write.call == call.call && write.answer.is_none())
    }

    /// Whether a change is only a write of `lane`, so that it causes no call: it came from the watch,
    /// soon after the response, is no new generation of the own object, and either is proven or the
    /// lane is called again anyway.
    pub(crate) fn is_echo(
        &self,
        change: &Change,
        lane: &str,
        timeout: Duration,
        is_in_backoff: bool,
    ) -> bool {
        let answer = self.writes.get(&change.object.version);
        let answer = answer.and_then(|write| write.answer);
        let is_answered = answer
            .is_some_and(|(at, proven)| change.at.time < at + timeout && (proven || is_in_backoff));
        let is_new_generation = change.is_primary && change.is_urgent;
        is_answered
            && !change.is_deletion
            && !change.is_listed
            && !is_new_generation
            && self.is_written_by(change.object.version, lane)
    }
}
