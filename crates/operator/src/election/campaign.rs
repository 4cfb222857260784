//! State machine of one candidate for a lease. *(pure)*
//!
//! A campaign takes the time and the answers of the API server, and returns the next request.
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
//! Decisions use only the candidate's own clock, which runs during suspend. The times in a lease
//! are compared with each other for equality and never with a clock, so a wrong wall clock cannot
//! make two leaders.
//!
//! A leader's deadline counts from *before* its write was sent, a candidate's from *after* the
//! answer was read. Whenever the server applied the write in between, the leader stops first.
//!
//! Source: client-go, `tools/leaderelection`, whose records these are. Four things differ. A
//! candidate that finds its own name in a record that it did not write waits like any other, so
//! two replicas with one name are not two leaders. A record counts as ours only in the lease with
//! the uid that we wrote: a lease that was deleted and created again is another one. A leader
//! whose write meets a conflict reads the record; if it is still the one that it wrote, the leader
//! goes on (another client changed a label). And a candidate wakes when a lease expires, rather
//! than at its next round.

use std::time::Duration;

use jiff::Timestamp;

/// Time since the campaign began.
pub(super) type Moment = Duration;

/// How much longer than the retry period a candidate may wait, so that candidates spread out.
///
/// Source: client-go, `JitterFactor`.
const JITTER: f64 = 1.2;

/// Durations of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    /// Another candidate takes the lease once it has not changed for this long.
    pub(super) lease: Duration,
    /// The leader stops if it could not renew for this long.
    pub(super) renew: Duration,
    /// Between two renewals, and the least time between two reads of a candidate.
    pub(super) retry: Duration,
}

/// The content of a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Of the lease; none in a record that is to be written.
    pub(super) uid: Option<String>,
    /// Empty if the lease is free.
    pub(super) holder: String,
    pub(super) seconds: i32,
    pub(super) acquired: Option<Timestamp>,
    pub(super) renewed: Option<Timestamp>,
    pub(super) transitions: i32,
}

/// The state of one candidate.
#[derive(Debug)]
pub(super) struct Campaign {
    identity: String,
    timing: Timing,
    role: Role,
    due: Moment,
    plan: Plan,
    /// The `renewTime` of our last write, whether or not its answer arrived.
    attempted: Option<Timestamp>,
    /// The `renewTime` of our last write that is known to have been applied.
    confirmed: Option<Timestamp>,
    /// The uid of the lease that we wrote, once it is known.
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
        /// The deadline: from then on another candidate may take the lease soon.
        until: Moment,
        /// Whether a write met a conflict since the last successful one.
        contested: bool,
    },
    Lost(Loss),
}

/// A record, and since when it has not changed.
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
    /// Do nothing before then.
    Wait(Moment),
    /// Send a request, and pass its [answer](Campaign::on_answer) on.
    Send(LeaseRequest),
    /// The lease is lost; there is no next step.
    Lost(Loss),
}

/// A request to the API server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LeaseRequest {
    Read,
    Create(Record),
    /// In place of the lease that was read or written last, if it has not changed.
    Replace(Record),
}

/// An answer of the API server.
#[derive(Debug)]
pub(super) enum Answer {
    Found(Record),
    Absent,
    /// Into the lease with this uid.
    Written {
        uid: Option<String>,
    },
    Conflict,
    /// An error, or no answer in time; whether a write was applied is not known.
    Failed,
}

/// Why a leader lost its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    NotRenewed,
    Taken(String),
    Emptied,
    Deleted,
}

// === impl Record ===

impl Record {
    /// How long it is valid after its last change. An invalid duration is replaced by ours.
    fn holds(&self, timing: Timing) -> Duration {
        match u64::try_from(self.seconds) {
            Ok(0) | Err(_) => timing.lease,
            Ok(seconds) => Duration::from_secs(seconds),
        }
    }
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
            attempted: None,
            confirmed: None,
            lease_uid: None,
            term: Term::default(),
        }
    }

    /// The next step at `now`; `wall` is the wall clock's time, which is only written.
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

    /// Processes the answer, received at `now`, to the request sent at `sent`. `jitter` is from 0
    /// to 1.
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
                    // A write whose answer was lost.
                    self.confirmed = record.renewed;
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

            (Role::Leader { .. }, Answer::Found(record)) if ours => {
                self.confirmed = record.renewed;
                self.plan(now, Plan::Replace);
            }
            (Role::Leader { .. }, Answer::Found(record)) => {
                self.role = Role::Lost(match record.holder {
                    holder if holder.is_empty() => Loss::Emptied,
                    // Our record, but in another lease: it was deleted and created again.
                    holder if holder == self.identity && self.wrote(record.renewed) => {
                        Loss::Deleted
                    }
                    holder => Loss::Taken(holder),
                });
            }
            (Role::Leader { .. }, Answer::Absent) => self.role = Role::Lost(Loss::Deleted),
            (Role::Leader { contested, .. }, Answer::Conflict) => {
                // The first time at once; then with a pause.
                let again = std::mem::replace(contested, true);
                self.plan(if again { now + retry } else { now }, Plan::Read);
            }
            (Role::Leader { .. }, Answer::Failed) => {
                // The write may have been applied. Reading comes first, so that at most one write
                // is in doubt.
                self.plan((sent + retry).max(now), Plan::Read);
            }

            (Role::Lost(_), _) => {}
        }
    }

    /// How long to wait for the answer to a request sent at `now`. It leaves time for a second
    /// try before the deadline.
    pub(super) fn request_timeout(&self, now: Moment) -> Duration {
        let limit = self.timing.renew / 2;
        match self.role {
            Role::Leader { until, .. } => limit.min(until.saturating_sub(now)),
            _ => limit,
        }
    }

    /// Whether it is the leader. Does not check the time.
    pub(super) fn leads(&self) -> bool {
        matches!(self.role, Role::Leader { .. })
    }

    /// The deadline of a leader: it must act as one only before this time.
    pub(super) fn deadline(&self) -> Option<Moment> {
        match self.role {
            Role::Leader { until, .. } => Some(until),
            _ => None,
        }
    }

    /// Whether the lease may have our name in it.
    pub(super) fn may_hold(&self) -> bool {
        self.attempted.is_some()
    }

    /// The holder of the lease, as this candidate last read or wrote it.
    pub(super) fn holder(&self) -> Option<&str> {
        match &self.role {
            Role::Candidate { seen } => seen.as_ref().map(|seen| &*seen.record.holder),
            Role::Leader { .. } => Some(&self.identity),
            Role::Lost(_) => None,
        }
    }

    /// How often the lease has changed its holder, if that is known.
    pub(super) fn transitions(&self) -> Option<i32> {
        match &self.role {
            Role::Candidate { seen } => seen.as_ref().map(|seen| seen.record.transitions),
            Role::Leader { .. } => Some(self.term.transitions),
            Role::Lost(_) => None,
        }
    }

    /// The record that frees the lease, so that the next candidate need not wait; none if
    /// `record` is not ours.
    pub(super) fn release(&self, record: &Record, wall: Timestamp) -> Option<Record> {
        let wall = micros(wall);
        self.is_ours(record).then(|| Record {
            uid: None,
            holder: String::new(),
            // An empty holder frees it at once. The API server refuses a duration of 0.
            seconds: 1,
            acquired: Some(wall),
            renewed: Some(wall),
            transitions: record.transitions,
        })
    }

    /// The record to write, as candidate or leader.
    fn claim(&mut self, wall: Timestamp) -> Record {
        // No two writes of ours are equal, whatever the wall clock does.
        let wall = match self.attempted {
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
        self.attempted = Some(wall);
        Record {
            uid: None,
            holder: self.identity.clone(),
            seconds: seconds(self.timing.lease),
            acquired: self.term.acquired,
            renewed: Some(wall),
            transitions: self.term.transitions,
        }
    }

    /// Whether we wrote `record` into the lease that it was read from. The same holder is not
    /// enough, nor is the same record in a lease that was created again.
    fn is_ours(&self, record: &Record) -> bool {
        let is_same_lease = self.lease_uid.is_none() || record.uid == self.lease_uid;
        record.holder == self.identity && self.wrote(record.renewed) && is_same_lease
    }

    /// Whether a write of ours had this `renewTime`.
    fn wrote(&self, renewed: Option<Timestamp>) -> bool {
        renewed.is_some() && (renewed == self.attempted || renewed == self.confirmed)
    }

    fn lead(&mut self, sent: Moment, now: Moment) {
        self.confirmed = self.attempted;
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

/// With the precision of a lease: microseconds.
fn micros(wall: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(wall.as_microsecond()).unwrap_or(wall)
}

/// With the precision of a lease: whole seconds, rounded up.
fn seconds(lease: Duration) -> i32 {
    let rest = u64::from(lease.subsec_nanos() > 0);
    let whole = lease.as_secs().saturating_add(rest);
    i32::try_from(whole).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
