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
//! 8. During the backoff after a failed call, events of all its writes wait for the retry.
//!
//! A record lives until it is settled and its event has arrived, or for the timeout.
//!
//! Source: java-operator-sdk, `ResourceOperations`, for the condition of rule 6; KEP-5647 for rule 4.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use hashbrown::HashMap;
use tokio::time::Instant;
use windlass_informer::ObjectKey;

mod answers;
mod client;
mod records;

pub(crate) use self::{
    answers::CallAnswers,
    client::{CallRecorder, recording_client},
    records::{EventDecision, EventMark, OwnWrite, Readiness, Shown, WriteEffect},
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

/// The writes of the calls for one object.
#[derive(Debug, Default)]
struct LaneWrites {
    writes: Vec<OwnWrite>,
    unknown: Vec<UnknownWrite>,
    call: Option<RunningCall>,
    /// Whether the next call waits for the stores.
    is_waiting: bool,
}

/// A write whose result is not known.
#[derive(Debug)]
struct UnknownWrite {
    resource: Arc<str>,
    at: Instant,
    /// The version of the server after the write, once it is known.
    passed_at: Option<u64>,
}

/// A call in progress.
#[derive(Debug, Default)]
struct RunningCall {
    has_written: bool,
    marks: Vec<EventMark>,
    /// More events arrived than are kept.
    has_overflowed: bool,
}

/// The most events of one call that are kept.
const MAX_MARKS: usize = 64;

/// How often a waiting call asks again, at first. An event of the written object ends the wait sooner,
/// if it wakes this lane.
const POLL: Duration = Duration::from_millis(50);

/// The part of the time since the write that a waiting call waits until it asks again: a long wait
/// costs few questions, and is extended by an eighth.
const POLL_PART: u32 = 8;

// === impl OwnWrites ===

impl OwnWrites {
    /// Writes are waited for and recognized for `timeout` after their response.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            lanes: HashMap::new(),
            expiring: VecDeque::new(),
            timeout,
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

    /// A call for `lane` begins.
    pub(crate) fn begin(&mut self, lane: &ObjectKey, now: Instant) {
        self.expire(now);
        let writes = self.lanes.entry(lane.clone()).or_default();
        writes.call = Some(RunningCall::default());
        writes.is_waiting = false;
    }

    /// The call in progress sends a write.
    pub(crate) fn sending(&mut self, lane: &ObjectKey) {
        if let Some(call) = self.lanes.get_mut(lane).and_then(|it| it.call.as_mut()) {
            call.has_written = true;
        }
    }

    /// Records the response to a write of `lane`.
    pub(crate) fn record(&mut self, lane: &ObjectKey, write: OwnWrite) {
        if self.timeout.is_zero() {
            return;
        }
        let expires = write.at + self.timeout;
        let lane_writes = self.lanes.entry(lane.clone()).or_default();
        lane_writes.writes.push(write);
        self.expiring.push_back((expires, lane.clone()));
    }

    /// Records that the result of a write of `lane` is not known: it may have been executed, or may
    /// be executed later.
    pub(crate) fn record_unknown(&mut self, lane: &ObjectKey, resource: Arc<str>, now: Instant) {
        if self.timeout.is_zero() {
            return;
        }
        let lane_writes = self.lanes.entry(lane.clone()).or_default();
        lane_writes.unknown.push(UnknownWrite {
            resource,
            at: now,
            passed_at: None,
        });
        (self.expiring).push_back((now + self.timeout, lane.clone()));
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
        if writes.is_echo(&event, is_in_backoff) && !writes.is_waiting {
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
        let others = (call.marks.iter()).filter(|event| !writes.is_echo(event, is_in_backoff));
        let mut reasons = others.map(|event| event.reason).reduce(|all, it| all | it);
        if call.has_overflowed {
            reasons = Some(Reasons::CHANGED | Reasons::RELATED);
        }
        if writes.is_empty() {
            self.lanes.remove(lane);
        }
        reasons
    }

    /// Whether the next call of `lane` can begin. `shown` returns what the informers show of the
    /// object with this resource and key.
    pub(crate) fn before_call(
        &mut self,
        lane: &ObjectKey,
        now: Instant,
        shown: impl Fn(&str, Option<&ObjectKey>) -> Shown,
    ) -> Readiness {
        let timeout = self.timeout;
        let Some(writes) = self.lanes.get_mut(lane) else {
            return Readiness::Ready;
        };
        let age = |at: Instant| now.saturating_duration_since(at);
        let mut unsettled = Vec::new();
        for write in &writes.writes {
            if !write.is_settled(&shown(&write.resource, Some(&write.key))) {
                unsettled.push(write.at);
            }
        }
        let mut versions = Vec::new();
        writes.unknown.retain(|write| {
            if age(write.at) >= timeout {
                unsettled.push(write.at);
                return true;
            }
            let passed = match shown(&write.resource, None) {
                Shown::Unwatched => return false,
                Shown::Watched { passed, .. } => passed,
            };
            match write.passed_at {
                None => versions.push(Arc::clone(&write.resource)),
                Some(version) if passed.is_some_and(|passed| passed >= version) => return false,
                Some(_) => unsettled.push(write.at),
            }
            true
        });
        let newest = unsettled.iter().max().copied();
        writes.is_waiting = true;
        if !versions.is_empty() {
            versions.sort_unstable();
            versions.dedup();
            return Readiness::FindVersions(versions);
        }
        let Some(newest) = newest else {
            writes.is_waiting = false;
            // While a call waits, records do not expire.
            writes.writes.retain(|write| age(write.at) < timeout);
            return Readiness::Ready;
        };
        let left = timeout.saturating_sub(age(newest));
        if left.is_zero() {
            writes.is_waiting = false;
            writes.unknown.clear();
            (writes.writes).retain(|write| !unsettled.contains(&write.at));
            return Readiness::Stale;
        }
        Readiness::Wait(left.min(POLL.max(age(newest) / POLL_PART)))
    }

    /// Tells the version that the server had for `resource` after the unknown writes of `lane`.
    /// Without one, for example because the server did not answer, the calls wait for the timeout.
    pub(crate) fn passes(&mut self, lane: &ObjectKey, resource: &str, version: Option<u64>) {
        let Some(writes) = self.lanes.get_mut(lane) else {
            return;
        };
        for write in &mut writes.unknown {
            if &*write.resource == resource {
                write.passed_at = Some(version.unwrap_or(u64::MAX));
            }
        }
    }

    /// Forgets the object of `lane`, which does not exist any more.
    pub(crate) fn forget(&mut self, lane: &ObjectKey) {
        self.lanes.remove(lane);
    }

    /// Drops the records whose time is over.
    fn expire(&mut self, now: Instant) {
        while let Some((at, _)) = self.expiring.front() {
            if *at > now {
                break;
            }
            let Some((_, lane)) = self.expiring.pop_front() else {
                break;
            };
            let timeout = self.timeout;
            let is_young = |at: Instant| now.saturating_duration_since(at) < timeout;
            if let Some(writes) = self.lanes.get_mut(&lane) {
                // A waiting call counts its own stale writes.
                if writes.is_waiting {
                    continue;
                }
                writes.writes.retain(|write| is_young(write.at));
                writes.unknown.retain(|write| is_young(write.at));
                if writes.is_empty() {
                    self.lanes.remove(&lane);
                }
            }
        }
    }
}

// === impl LaneWrites ===

impl LaneWrites {
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.unknown.is_empty() && self.call.is_none()
    }

    /// Whether `event` shows a write of this lane and nothing else.
    fn is_echo(&self, event: &EventMark, is_in_backoff: bool) -> bool {
        if !self.unknown.is_empty() || event.is_new_generation {
            return false;
        }
        self.writes.iter().any(|write| {
            let is_same = event.uid.as_deref() == Some(&*write.uid)
                && event.resource == write.resource
                && match write.effect {
                    WriteEffect::Version(version) => event.version == Some(version),
                    WriteEffect::Gone => event.version.is_none(),
                };
            is_same && event.is_from_watch && (write.is_proven || is_in_backoff)
        })
    }
}

/// Reads a version. `None` if it is not a number: then it is not tracked.
pub(crate) fn parse_version(version: &str) -> Option<u64> {
    version.parse().ok()
}

#[cfg(test)]
mod tests;
