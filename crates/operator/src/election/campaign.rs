//! Who leads, as far as one candidate can tell. *(pure)*
//!
//! A campaign is told the time, and what the API server answered; it says what to ask next.
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
//! Two clocks are told apart. What is decided is decided by the candidate's own monotonic
//! clock: the times that stand in a lease are compared with each other for equality, and never
//! with a clock, so that no clock that is wrong anywhere makes two leaders.
//!
//! A leader's time counts from *before* its write was sent, a candidate's from *after* the
//! answer was read. Whenever the server took the write in between, the leader stops first.
//!
//! Source: client-go, `tools/leaderelection`, whose records these are. Three things differ. A
//! candidate that finds its own name in a record that it did not write waits like any other,
//! so that two of one name are not two leaders. A leader whose write meets a conflict looks
//! whether the record is still the one that it wrote: a label from somebody does not end it.
//! And a candidate wakes when a lease runs out, rather than at its next round.

use std::time::Duration;

use jiff::Timestamp;

/// A point in time, counted from when the campaign began.
pub(super) type Moment = Duration;

/// How much longer than the retry period a candidate may wait, so that not all come at once.
///
/// Source: client-go, `JitterFactor`.
const JITTER: f64 = 1.2;

/// How long everything takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    /// Nobody else leads until the lease has not changed for so long.
    pub(super) lease: Duration,
    /// The leader stops if it could not renew for so long.
    pub(super) renew: Duration,
    /// Between two renewals, and at least between two looks of a candidate.
    pub(super) retry: Duration,
}

/// What a lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Nobody if it is empty.
    pub(super) holder: String,
    pub(super) seconds: i32,
    pub(super) acquired: Option<Timestamp>,
    pub(super) renewed: Option<Timestamp>,
    pub(super) transitions: i32,
}

/// One candidate's part in an election.
#[derive(Debug)]
pub(super) struct Campaign {
    identity: String,
    timing: Timing,
    place: Place,
    due: Moment,
    plan: Plan,
    /// Under which `renewTime` we wrote last, whether or not the answer was heard.
    attempted: Option<Timestamp>,
    /// The last one that is known to have been written.
    confirmed: Option<Timestamp>,
    term: Term,
}

/// What stays the same while one candidate leads.
#[derive(Clone, Copy, Debug, Default)]
struct Term {
    acquired: Option<Timestamp>,
    transitions: i32,
}

#[derive(Debug)]
enum Place {
    Candidate {
        seen: Option<Seen>,
    },
    Leader {
        /// From then on, somebody else may believe to lead soon.
        until: Moment,
        /// Whether a write met a conflict since the last one that went well.
        contested: bool,
    },
    Lost(Loss),
}

/// A record, and since when it has not changed.
#[derive(Debug)]
struct Seen {
    record: Record,
    since: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Read,
    Create,
    Replace,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing before then.
    Wait(Moment),
    /// Ask the API server, and say what [it answered](Campaign::heard).
    Ask(Ask),
    /// Nothing any more.
    Lost(Loss),
}

/// What to ask the API server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Read,
    Create(Record),
    /// In place of the lease that was read or written last, if it has not changed.
    Replace(Record),
}

/// What the API server answered.
#[derive(Debug)]
pub(super) enum Answer {
    Found(Record),
    Absent,
    Written,
    Conflict,
    /// It said no, or nothing; whether it has written is not known.
    Failed,
}

/// Why a leader leads no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    NotRenewed,
    Taken(String),
    Emptied,
    Deleted,
}

// === impl Record ===

impl Record {
    /// How long it holds from when it was last changed. What makes no sense is ours to say.
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
            place: Place::Candidate { seen: None },
            due: Moment::ZERO,
            plan: Plan::Read,
            attempted: None,
            confirmed: None,
            term: Term::default(),
        }
    }

    /// What to do at `now`, when `wall` is what the clock on the wall shows.
    pub(super) fn next(&mut self, now: Moment, wall: Timestamp) -> Next {
        let mut wake = self.due;
        if let Place::Leader { until, .. } = self.place {
            if now >= until {
                self.place = Place::Lost(Loss::NotRenewed);
            }
            wake = wake.min(until);
        }
        if let Place::Lost(loss) = &self.place {
            return Next::Lost(loss.clone());
        }
        if now < wake {
            return Next::Wait(wake);
        }
        Next::Ask(match self.plan {
            Plan::Read => Ask::Read,
            Plan::Create => Ask::Create(self.claim(wall)),
            Plan::Replace => Ask::Replace(self.claim(wall)),
        })
    }

    /// Takes the answer to what was asked at `sent`. `jitter` is from 0 to 1.
    pub(super) fn heard(&mut self, sent: Moment, now: Moment, answer: Answer, jitter: f64) {
        let retry = self.timing.retry;
        let rest = now + retry.mul_f64(1.0 + JITTER * jitter);
        let ours = matches!(&answer, Answer::Found(record) if self.is_ours(record));
        match (&mut self.place, answer) {
            (_, Answer::Written) => self.lead(sent, now),

            (Place::Candidate { .. }, Answer::Absent) if self.plan == Plan::Read => {
                self.place = Place::Candidate { seen: None };
                self.plan(now, Plan::Create);
            }
            (Place::Candidate { seen }, Answer::Found(record)) => {
                let since = match seen {
                    Some(seen) if seen.record == record => seen.since,
                    _ => now,
                };
                let expires = since + record.holds(self.timing);
                let free = ours || record.holder.is_empty() || now >= expires;
                if ours {
                    // A write whose answer was not heard.
                    self.confirmed = record.renewed;
                    self.term = Term {
                        acquired: record.acquired,
                        transitions: record.transitions,
                    };
                }
                *seen = Some(Seen { record, since });
                if free {
                    self.plan(now, Plan::Replace);
                } else {
                    self.plan(rest.min(expires), Plan::Read);
                }
            }
            (Place::Candidate { .. }, Answer::Absent | Answer::Conflict | Answer::Failed) => {
                self.plan(rest, Plan::Read);
            }

            (Place::Leader { .. }, Answer::Found(record)) if ours => {
                self.confirmed = record.renewed;
                self.plan(now, Plan::Replace);
            }
            (Place::Leader { .. }, Answer::Found(record)) => {
                self.place = Place::Lost(match record.holder {
                    holder if holder.is_empty() => Loss::Emptied,
                    holder => Loss::Taken(holder),
                });
            }
            (Place::Leader { .. }, Answer::Absent) => self.place = Place::Lost(Loss::Deleted),
            (Place::Leader { contested, .. }, Answer::Conflict) => {
                // At once, for it may be over; but not again and again.
                let again = std::mem::replace(contested, true);
                self.plan(if again { now + retry } else { now }, Plan::Read);
            }
            (Place::Leader { .. }, Answer::Failed) => {
                // A write may have been taken all the same; we look, before there are two of
                // which we do not know.
                self.plan((sent + retry).max(now), Plan::Read);
            }

            (Place::Lost(_), _) => {}
        }
    }

    /// How long to wait for the answer to what is asked at `now`: there is to be time for
    /// another try.
    pub(super) fn patience(&self, now: Moment) -> Duration {
        let patience = self.timing.renew / 2;
        match self.place {
            Place::Leader { until, .. } => patience.min(until.saturating_sub(now)),
            _ => patience,
        }
    }

    /// Whether it leads, as far as it knows without looking at the time.
    pub(super) fn leads(&self) -> bool {
        matches!(self.place, Place::Leader { .. })
    }

    /// Whether the lease may have our name in it.
    pub(super) fn may_hold(&self) -> bool {
        self.attempted.is_some()
    }

    /// Who holds the lease, when this candidate last looked.
    pub(super) fn holder(&self) -> Option<&str> {
        match &self.place {
            Place::Candidate { seen } => seen.as_ref().map(|seen| &*seen.record.holder),
            Place::Leader { .. } => Some(&self.identity),
            Place::Lost(_) => None,
        }
    }

    /// How often the lease has changed hands, if that is known.
    pub(super) fn transitions(&self) -> Option<i32> {
        match &self.place {
            Place::Candidate { seen } => seen.as_ref().map(|seen| seen.record.transitions),
            Place::Leader { .. } => Some(self.term.transitions),
            Place::Lost(_) => None,
        }
    }

    /// What to write in place of `record`, so that the next one need not wait; none if it is
    /// not ours.
    pub(super) fn release(&self, record: &Record, wall: Timestamp) -> Option<Record> {
        let wall = micros(wall);
        self.is_ours(record).then(|| Record {
            holder: String::new(),
            // It is free at once. A second is for those who ask for more than none.
            seconds: 1,
            acquired: Some(wall),
            renewed: Some(wall),
            transitions: record.transitions,
        })
    }

    /// What we write, as candidate or leader.
    fn claim(&mut self, wall: Timestamp) -> Record {
        // No two writes of ours look alike, whatever the clock does.
        let wall = match self.attempted {
            Some(last) if micros(wall) <= last => {
                Timestamp::from_microsecond(last.as_microsecond() + 1).unwrap_or(last)
            }
            _ => micros(wall),
        };
        match &self.place {
            Place::Candidate { seen: Some(seen) } if !self.is_ours(&seen.record) => {
                self.term = Term {
                    acquired: Some(wall),
                    transitions: seen.record.transitions.saturating_add(1),
                };
            }
            Place::Candidate { seen: None } => {
                self.term = Term {
                    acquired: Some(wall),
                    transitions: 0,
                };
            }
            _ => {}
        }
        self.attempted = Some(wall);
        Record {
            holder: self.identity.clone(),
            seconds: seconds(self.timing.lease),
            acquired: self.term.acquired,
            renewed: Some(wall),
            transitions: self.term.transitions,
        }
    }

    /// Whether we wrote `record`; the same name is not enough.
    fn is_ours(&self, record: &Record) -> bool {
        let renewed = record.renewed;
        record.holder == self.identity
            && renewed.is_some()
            && (renewed == self.attempted || renewed == self.confirmed)
    }

    fn lead(&mut self, sent: Moment, now: Moment) {
        self.confirmed = self.attempted;
        self.place = Place::Leader {
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

/// As a lease has it.
fn micros(wall: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(wall.as_microsecond()).unwrap_or(wall)
}

/// As a lease has it: whole seconds, and rather too many.
fn seconds(lease: Duration) -> i32 {
    let rest = u64::from(lease.subsec_nanos() > 0);
    let whole = lease.as_secs().saturating_add(rest);
    i32::try_from(whole).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
