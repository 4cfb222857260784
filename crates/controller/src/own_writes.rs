//! The writes of the calls for each object, and what follows from them: when the next call may read
//! the stores, and which events are only the echo of a write. *(pure)*
//!
//! Only what is proven to be ours is suppressed. An event too many costs one call that writes
//! nothing; an event too few costs correctness. The rules:
//!
//! 1. A write is recorded from the response to it: the resource, the key, the uid and the version,
//!    or that the object was deleted ([`client`]).
//! 2. Versions are compared as numbers, and only within one resource.
//! 3. A write is settled when the store shows it or something later, or can never show it
//!    ([`OwnWrite::is_settled`]).
//! 4. The next call for the object waits until its writes are settled, for a limited time
//!    ([`OwnWrites::before_call`]).
//! 5. Reads of the same call see the responses of the call ([`CallAnswers`]).
//! 6. An event is an echo if the call of this lane wrote exactly this version, the version is proven
//!    to have no change of others, it came from the watch, and it is no new generation of the lane's
//!    own object. Events that arrive during a call, after its first write, are decided at its end.
//! 7. After a write with an unknown result nothing is suppressed, and the next call waits until the
//!    informers have passed the version that the server has then.
//! 8. A call that begins when the time of rule 4 is over is stale, and so is each later call until the
//!    stores show the writes: then an event of them is no echo, so that a call follows that sees them.
//! 9. During the backoff after a failed call, events of all its writes wait for the retry. If there is
//!    none, a call follows them.
//!
//! A record lives until it is settled and its event has followed, and at most for the timeout and
//! [`lane::LONGEST_LAG`]: for example, a watch of another cluster never shows the write.
//!
//! Source: java-operator-sdk, `ResourceOperations`, for the condition of rule 6; KEP-5647 for rule 4.

use std::{collections::VecDeque, time::Duration};

use hashbrown::HashMap;
use tokio::time::Instant;
use windlass_informer::ObjectKey;

mod answers;
mod client;
mod lane;
mod records;

use self::lane::{LaneWrites, RunningCall, UnknownWrite, echo_age};
pub(crate) use self::{
    answers::CallAnswers,
    client::{CallRecorder, recording_client},
    records::{
        EventDecision, EventMark, OwnWrite, Readiness, Scope, Shown, ShownByAll, WriteEffect,
    },
};
use crate::Reasons;

/// The writes of all calls of a controller, by lane: by the key of the primary object.
#[derive(Debug)]
pub(crate) struct OwnWrites {
    lanes: HashMap<ObjectKey, LaneWrites>,
    /// When the lanes are looked at again, to drop what has expired.
    expiring: VecDeque<(Instant, ObjectKey)>,
    timeout: Duration,
}

/// The most events of one call that are kept.
const MAX_MARKS: usize = 64;

/// How often a waiting call asks again, at first. An event of the written object ends the wait sooner,
/// if it wakes this lane.
const POLL: Duration = Duration::from_millis(50);

/// The part of the time since the write that a waiting call waits until it asks again: a long wait
/// costs few questions, and is extended by an eighth.
const POLL_PART: u32 = 8;

/// The longest time until a waiting call asks again.
const LONGEST_POLL: Duration = Duration::from_secs(10);

// === impl OwnWrites ===

impl OwnWrites {
    /// Writes are waited for and recognized for `timeout` after their response.
    pub(crate) fn new(timeout: Duration) -> Self {
        /// Added to a time, a longer one can exceed its range.
        const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        Self {
            lanes: HashMap::new(),
            expiring: VecDeque::new(),
            timeout: timeout.min(LONGEST),
        }
    }

    /// The number of lanes with records.
    pub(crate) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether a call of `lane` is in progress, or has writes with a record.
    pub(crate) fn has(&self, lane: &ObjectKey) -> bool {
        self.lanes.contains_key(lane)
    }

    /// A call for `lane` begins. `by_all` is as for [`before_call`](Self::before_call).
    pub(crate) fn begin(&mut self, lane: &ObjectKey, now: Instant, by_all: &ShownByAll<'_>) {
        self.expire(now, by_all);
        let writes = self.lanes.entry(lane.clone()).or_default();
        writes.call = Some(RunningCall::default());
        writes.for_retry = None;
        writes.is_waiting = false;
    }

    /// The call in progress sends a write.
    pub(crate) fn sending(&mut self, lane: &ObjectKey) {
        if let Some(call) = self.lanes.get_mut(lane).and_then(|it| it.call.as_mut()) {
            call.has_written = true;
        }
    }

    /// Whether writes are waited for and recognized.
    pub(crate) const fn recognizes(&self) -> bool {
        !self.timeout.is_zero()
    }

    /// Records the response to a write of `lane`.
    pub(crate) fn record(&mut self, lane: &ObjectKey, write: OwnWrite) {
        if !self.recognizes() {
            return;
        }
        let at = write.at;
        self.expiring_lane(lane, at).writes.push(write);
    }

    /// Records that the result of a write of `lane` to an object in `scope` is not known: it may have
    /// been executed, or may be executed later.
    pub(crate) fn record_unknown(&mut self, lane: &ObjectKey, scope: Scope, now: Instant) {
        if !self.recognizes() {
            return;
        }
        self.expiring_lane(lane, now).unknown.push(UnknownWrite {
            scope,
            at: now,
            version: None,
            asked: None,
        });
    }

    /// Decides about an event that would wake `lane`, when it arrives and before it is coalesced
    /// with others. `is_in_backoff`: a retry of the lane is scheduled.
    pub(crate) fn event(
        &mut self,
        lane: &ObjectKey,
        event: EventMark,
        is_in_backoff: bool,
    ) -> EventDecision {
        let Some(writes) = self.lanes.get_mut(lane) else {
            return EventDecision::Wake;
        };
        if let Some(call) = writes.call.as_mut().filter(|call| call.has_written) {
            if call.marks.len() < MAX_MARKS {
                call.marks.push(event);
            } else {
                call.has_overflowed = true;
            }
            return EventDecision::Keep;
        }
        if !writes.is_waiting && writes.takes(&event, is_in_backoff) {
            EventDecision::Drop
        } else {
            EventDecision::Wake
        }
    }

    /// The call of `lane` has ended. Returns why the lane is called again, if events that arrived
    /// meanwhile are no echoes. `is_in_backoff`: the call failed and is repeated.
    pub(crate) fn end(&mut self, lane: &ObjectKey, is_in_backoff: bool) -> Option<Reasons> {
        let writes = self.lanes.get_mut(lane)?;
        let call = writes.call.take().unwrap_or_default();
        let others = (call.marks.iter()).filter(|event| !writes.takes(event, is_in_backoff));
        let mut reasons = others.map(|event| event.reason).reduce(|all, it| all | it);
        if call.has_overflowed {
            reasons = Some(Reasons::CHANGED | Reasons::RELATED);
        }
        if !is_in_backoff && let Some(missed) = writes.for_retry.take() {
            // They arrived after this call, which was the retry, had begun.
            reasons = Some(reasons.unwrap_or(missed) | missed);
        }
        if writes.is_empty() {
            self.lanes.remove(lane);
        }
        reasons
    }

    /// The failed call of `lane` is not repeated. Returns why the lane is called again, if events wait for
    /// the retry.
    pub(crate) fn not_repeated(&mut self, lane: &ObjectKey) -> Option<Reasons> {
        let writes = self.lanes.get_mut(lane)?;
        let reasons = writes.for_retry.take();
        if writes.is_empty() {
            self.lanes.remove(lane);
        }
        reasons
    }

    /// Whether the next call of `lane` can begin. `by_all` says what the informers show.
    pub(crate) fn before_call(
        &mut self,
        lane: &ObjectKey,
        now: Instant,
        by_all: &ShownByAll<'_>,
    ) -> Readiness {
        let timeout = self.timeout;
        let Some(writes) = self.lanes.get_mut(lane) else {
            return Readiness::Ready;
        };
        let age = |at: Instant| now.saturating_duration_since(at);
        writes.drop_finished(now, timeout, by_all);
        writes.is_waiting = true;
        let versions = writes.missing_versions(now, true);
        if !versions.is_empty() {
            return Readiness::FindVersions(versions);
        }
        let Some(newest) = writes.newest_unsettled(by_all) else {
            writes.is_waiting = false;
            return Readiness::Ready;
        };
        let left = timeout.saturating_sub(age(newest));
        if left.is_zero() {
            writes.is_waiting = false;
            writes.begin_stale(now, by_all);
            return Readiness::Stale;
        }
        let versions = writes.missing_versions(now, false);
        if !versions.is_empty() {
            return Readiness::FindVersions(versions);
        }
        let poll = (age(newest) / POLL_PART).clamp(POLL, LONGEST_POLL);
        Readiness::Wait(left.min(poll))
    }

    /// Tells the version that the server had for the objects in `scope` after the unknown writes of
    /// `lane`. Without one, for example because the server did not answer, it is asked again later.
    pub(crate) fn passes(
        &mut self,
        lane: &ObjectKey,
        scope: &Scope,
        version: Option<u64>,
        now: Instant,
    ) {
        let Some(writes) = self.lanes.get_mut(lane) else {
            return;
        };
        for write in &mut writes.unknown {
            if write.scope == *scope {
                write.version = write.version.or(version);
                write.asked = Some(now);
            }
        }
    }

    /// Forgets the object of `lane`, which does not exist any more.
    pub(crate) fn forget(&mut self, lane: &ObjectKey) {
        self.lanes.remove(lane);
    }

    /// The writes of `lane`, which are looked at again when no event of a write at `at` follows any more.
    fn expiring_lane(&mut self, lane: &ObjectKey, at: Instant) -> &mut LaneWrites {
        let writes = self.lanes.entry(lane.clone()).or_default();
        if !writes.is_expiring {
            writes.is_expiring = true;
            let again = at + echo_age(self.timeout);
            (self.expiring).push_back((again, lane.clone()));
        }
        writes
    }

    /// Drops the records whose time is over and that are settled.
    fn expire(&mut self, now: Instant, by_all: &ShownByAll<'_>) {
        let timeout = self.timeout;
        while (self.expiring.front()).is_some_and(|(at, _)| *at <= now) {
            let Some((_, lane)) = self.expiring.pop_front() else {
                break;
            };
            let Some(writes) = self.lanes.get_mut(&lane) else {
                continue;
            };
            writes.drop_finished(now, timeout, by_all);
            writes.is_expiring = !writes.has_no_records();
            if writes.is_expiring {
                self.expiring.push_back((now + echo_age(timeout), lane));
            } else if writes.is_empty() {
                self.lanes.remove(&lane);
            }
        }
    }
}

/// Reads a version. `None` if it is not a number: then it is not tracked.
pub(crate) fn parse_version(version: &str) -> Option<u64> {
    version.parse().ok()
}

#[cfg(test)]
mod tests;
