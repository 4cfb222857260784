//! State machine of one candidate for a lease. *(pure)*
//!
//! A campaign receives the time and the responses of the API server, and returns the next request.
//!
//! ```text
//!              free, absent, or unchanged for its lease duration
//!   Candidate ───────────────────── write ─────────────────────▶ Leader ──┐ renew
//!       ▲ │ read                                                   │  ▲   │
//!       └─┘                                                        │  └───┘
//!                 taken, emptied, deleted, or not renewed in time  ▼
//!                                                                 Lost
//! ```
//!
//! Decisions use only the candidate's own clock, which continues while the machine is suspended.
//! The times in a lease are only compared with each other for equality, never with a clock. So a
//! wrong wall clock cannot cause two leaders.
//!
//! A leader measures its deadline from *before* it sent its write, a candidate from *after* it read
//! the response. The server applied the write in between, so the leader stops first.
//!
//! Source: client-go, `tools/leaderelection`; the records are the same. There are four differences:
//!
//! - A candidate that reads its own name in a record that it did not write waits like any other
//!   candidate. So two replicas with the same name are not two leaders.
//! - A record is ours only in the lease with the uid to which we wrote. A lease that was deleted
//!   and created again is a different lease.
//! - A leader whose write ends in a conflict reads the record. If the record is still its own, it
//!   continues to lead: another client changed, for example, a label, or an earlier write of its own was
//!   applied late.
//! - A candidate wakes up when the lease expires, not only at its next regular read.

use std::time::Duration;

use jiff::Timestamp;

use self::writes::Writes;
use super::record::{Record, Timing, micros, seconds};

mod writes;

/// Time since the campaign began.
pub(super) type Moment = Duration;

/// The maximal random addition to a candidate's wait, as a multiple of the retry period, so that
/// candidates do not read at the same time.
///
/// Source: client-go, `JitterFactor`.
const JITTER: f64 = 1.2;

/// The longest wait of a candidate that a server can ask for. The API server asks for 1 s. During
/// the wait this candidate does not replace a leader that has crashed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The state of one candidate.
#[derive(Debug)]
pub(super) struct Campaign {
    identity: String,
    timing: Timing,
    role: Role,
    due: Moment,
    plan: Plan,
    writes: Writes,
    /// The uid of the lease to which we wrote, if it is known.
    lease_uid: Option<String>,
    term: Term,
}

/// The part of the record that stays the same while one candidate leads.
#[derive(Clone, Copy, Debug, Default)]
struct Term {
    acquired: Option<Timestamp>,
    transitions: i32,
}

#[derive(Debug)]
enum Role {
    Candidate {
        seen: Option<ObservedRecord>,
    },
    Leader {
        /// The deadline of the leader.
        until: Moment,
        /// Whether a write has ended in a conflict since the last successful write.
        contested: bool,
    },
    Lost(Loss),
}

/// A record, and the time at which it was first read in this state.
#[derive(Debug)]
struct ObservedRecord {
    record: Record,
    since: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Read,
    Create,
    Replace,
}

/// The next step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait until this time.
    Wait(Moment),
    /// Send this request, and pass the response to [`Campaign::on_answer`].
    Send(LeaseRequest),
    /// The lease is lost. There is no next step.
    Lost(Loss),
}

/// A request to the API server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LeaseRequest {
    Read,
    Create(Record),
    /// Replace the record if the lease has not changed since we last read or wrote it.
    Replace(Record),
}

/// A response of the API server.
#[derive(Debug)]
pub(super) enum Answer {
    Found(Record),
    Absent,
    /// The write was applied to the lease with this uid.
    Written {
        uid: Option<String>,
    },
    Conflict,
    /// An error or a timeout. It is not known whether a write was applied.
    Failed,
    /// The same, and the server asks the client to wait for this time.
    RetryAfter(Duration),
}

/// Why a leader lost its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    NotRenewed,
    Taken(String),
    Emptied,
    Deleted,
}

// === impl Campaign ===

impl Campaign {
    pub(super) fn new(identity: String, timing: Timing) -> Self {
        Self {
            identity,
            timing,
            role: Role::Candidate { seen: None },
            due: Moment::ZERO,
            plan: Plan::Read,
            writes: Writes::default(),
            lease_uid: None,
            term: Term::default(),
        }
    }

    /// Returns the next step at `now`. `wall` is the wall-clock time; it is only written into the
    /// lease.
    pub(super) fn next(&mut self, now: Moment, wall: Timestamp) -> Next {
        let mut wake = self.due;
        if let Role::Leader { until, .. } = self.role {
            if now >= until {
                self.role = Role::Lost(Loss::NotRenewed);
            }
            wake = wake.min(until);
        }
        if let Role::Lost(loss) = &self.role {
            return Next::Lost(loss.clone());
        }
        if now < wake {
            return Next::Wait(wake);
        }
        Next::Send(match self.plan {
            Plan::Read => LeaseRequest::Read,
            Plan::Create => LeaseRequest::Create(self.claim(wall)),
            Plan::Replace => LeaseRequest::Replace(self.claim(wall)),
        })
    }

    /// Processes the response, received at `now`, to the request that was sent at `sent`. `jitter`
    /// is between 0 and 1.
    pub(super) fn on_answer(&mut self, sent: Moment, now: Moment, answer: Answer, jitter: f64) {
        let retry = self.timing.retry;
        let rest = now + retry.mul_f64(1.0 + JITTER * jitter);
        let ours = matches!(&answer, Answer::Found(record) if self.is_ours(record));
        match (&mut self.role, answer) {
            (_, Answer::Written { uid }) => {
                self.lease_uid = uid.or_else(|| self.lease_uid.take());
                self.lead(sent, now);
            }

            (Role::Candidate { .. }, Answer::Absent) if self.plan == Plan::Read => {
                self.role = Role::Candidate { seen: None };
                self.plan(now, Plan::Create);
            }
            (Role::Candidate { seen }, Answer::Found(record)) => {
                let since = match seen {
                    Some(seen) if seen.record == record => seen.since,
                    _ => now,
                };
                let expires = since + record.holds(self.timing);
                let free = ours || record.holder.is_empty() || now >= expires;
                if ours {
                    // We wrote this record, but its response was lost.
                    self.writes.confirm(record.renewed);
                    self.lease_uid.clone_from(&record.uid);
                    self.term = Term {
                        acquired: record.acquired,
                        transitions: record.transitions,
                    };
                }
                *seen = Some(ObservedRecord { record, since });
                if free {
                    self.plan(now, Plan::Replace);
                } else {
                    self.plan(rest.min(expires), Plan::Read);
                }
            }
            (Role::Candidate { .. }, Answer::Absent | Answer::Conflict | Answer::Failed) => {
                self.plan(rest, Plan::Read);
            }
            (Role::Candidate { .. }, Answer::RetryAfter(wait)) => {
                let wait = wait.min(MAX_RETRY_AFTER);
                self.plan(rest.max(now + wait), Plan::Read);
            }

            (Role::Leader { .. }, Answer::Found(record)) if ours => {
                self.writes.confirm(record.renewed);
                self.plan(now, Plan::Replace);
            }
            (Role::Leader { .. }, Answer::Found(record)) => {
                self.role = Role::Lost(match record.holder {
                    holder if holder.is_empty() => Loss::Emptied,
                    // Our record in a lease with another uid: the lease was deleted and created
                    // again.
                    holder if holder == self.identity && self.writes.has(record.renewed) => {
                        Loss::Deleted
                    }
                    holder => Loss::Taken(holder),
                });
            }
            (Role::Leader { .. }, Answer::Absent) => self.role = Role::Lost(Loss::Deleted),
            (Role::Leader { contested, .. }, Answer::Conflict) => {
                // Read immediately after the first conflict, then with a pause.
                let again = std::mem::replace(contested, true);
                self.plan(if again { now + retry } else { now }, Plan::Read);
            }
            (Role::Leader { .. }, Answer::Failed | Answer::RetryAfter(_)) => {
                // The write may have been applied. Read first, so that the result of at most one
                // write is unknown. A leader does not wait as long as the server asks: by default
                // its deadline is 10 s away, and a change of the leader causes far more requests
                // than one every 2 s.
                self.plan((sent + retry).max(now), Plan::Read);
            }

            (Role::Lost(_), _) => {}
        }
    }

    /// The timeout of a request that is sent at `now`. It leaves time for a second attempt before
    /// the deadline.
    pub(super) fn request_timeout(&self, now: Moment) -> Duration {
        let limit = self.timing.renew / 2;
        match self.role {
            Role::Leader { until, .. } => limit.min(until.saturating_sub(now)),
            _ => limit,
        }
    }

    /// Whether this candidate is the leader. Does not check the deadline.
    pub(super) fn leads(&self) -> bool {
        matches!(self.role, Role::Leader { .. })
    }

    /// The deadline if this is the leader: after it, this replica must not act as the leader.
    pub(super) fn deadline(&self) -> Option<Moment> {
        match self.role {
            Role::Leader { until, .. } => Some(until),
            _ => None,
        }
    }

    /// Whether the lease may contain our name.
    pub(super) fn may_hold(&self) -> bool {
        self.writes.last().is_some()
    }

    /// The holder of the lease, as this candidate last read or wrote it.
    pub(super) fn holder(&self) -> Option<&str> {
        match &self.role {
            Role::Candidate { seen } => seen.as_ref().map(|seen| &*seen.record.holder),
            Role::Leader { .. } => Some(&self.identity),
            Role::Lost(_) => None,
        }
    }

    /// The number of times that the lease has changed its holder, if it is known.
    pub(super) fn transitions(&self) -> Option<i32> {
        match &self.role {
            Role::Candidate { seen } => seen.as_ref().map(|seen| seen.record.transitions),
            Role::Leader { .. } => Some(self.term.transitions),
            Role::Lost(_) => None,
        }
    }

    /// The record that releases the lease, so that the next candidate does not wait. None if
    /// `record` is not ours.
    pub(super) fn release(&self, record: &Record, wall: Timestamp) -> Option<Record> {
        let wall = micros(wall);
        self.is_ours(record).then(|| Record {
            uid: None,
            holder: String::new(),
            // An empty holder releases the lease. The API server rejects a duration of 0.
            seconds: 1,
            acquired: Some(wall),
            renewed: Some(wall),
            transitions: record.transitions,
            unreadable: String::new(),
        })
    }

    /// The record to write, as candidate or leader.
    fn claim(&mut self, wall: Timestamp) -> Record {
        // Each of our writes has a different `renewTime`, even if the wall clock goes back.
        let wall = match self.writes.last() {
            Some(last) if micros(wall) <= last => {
                Timestamp::from_microsecond(last.as_microsecond() + 1).unwrap_or(last)
            }
            _ => micros(wall),
        };
        match &self.role {
            Role::Candidate { seen: Some(seen) } if !self.is_ours(&seen.record) => {
                self.lease_uid.clone_from(&seen.record.uid);
                self.term = Term {
                    acquired: Some(wall),
                    transitions: seen.record.transitions.saturating_add(1),
                };
            }
            Role::Candidate { seen: None } => {
                self.lease_uid = None;
                self.term = Term {
                    acquired: Some(wall),
                    transitions: 0,
                };
            }
            _ => {}
        }
        self.writes.add(wall);
        Record {
            uid: None,
            holder: self.identity.clone(),
            seconds: seconds(self.timing.lease),
            acquired: self.term.acquired,
            renewed: Some(wall),
            transitions: self.term.transitions,
            unreadable: String::new(),
        }
    }

    /// Whether we wrote `record` to this lease. The same holder is not sufficient, and neither is
    /// the same record in a lease that was created again.
    fn is_ours(&self, record: &Record) -> bool {
        let is_same_lease = self.lease_uid.is_none() || record.uid == self.lease_uid;
        record.holder == self.identity && self.writes.has(record.renewed) && is_same_lease
    }

    fn lead(&mut self, sent: Moment, now: Moment) {
        self.writes.confirm(self.writes.last());
        self.role = Role::Leader {
            until: sent + self.timing.renew,
            contested: false,
        };
        self.plan((sent + self.timing.retry).max(now), Plan::Replace);
    }

    fn plan(&mut self, due: Moment, plan: Plan) {
        self.due = due;
        self.plan = plan;
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
