//! Simulation of several candidates for one lease, with a network that delays, loses and reorders.
//!
//! Wall clocks differ by hours, requests arrive after their timeout, responses are lost, and
//! candidates crash and restart, some of them with the same name. Two invariants must hold: two
//! candidates never lead at the same time, and one candidate leads after the faults have stopped.

use std::{cmp::Reverse, collections::BinaryHeap};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use super::*;

/// The number of seeds. They take less than a second.
const SEEDS: u64 = 200;

/// The time with faults, and the time without faults after it.
const TROUBLE: Moment = Duration::from_secs(600);
const QUIET: Moment = Duration::from_secs(60);

const TIMING: Timing = Timing {
    lease: Duration::from_secs(15),
    renew: Duration::from_secs(10),
    retry: Duration::from_secs(2),
};

struct Simulation {
    rng: StdRng,
    now: Moment,
    lease: Option<(Record, u64)>,
    versions: u64,
    candidates: Vec<Candidate>,
    events: BinaryHeap<Reverse<(Moment, u64)>>,
    /// The events by number.
    happens: Vec<Option<What>>,
    /// How often a candidate started to lead.
    terms: usize,
}

struct Candidate {
    campaign: Campaign,
    /// The version that the candidate read or wrote last.
    version: u64,
    began: Moment,
    /// The offset of its wall clock, in seconds.
    wrong: i64,
    /// The number of its process. Responses to former processes are dropped.
    life: u64,
    /// The request whose response it waits for.
    request: u64,
}

enum What {
    Wakes {
        who: usize,
        life: u64,
    },
    /// A request reaches the server.
    Arrives {
        who: usize,
        life: u64,
        request: u64,
        sent: Moment,
        ask: LeaseRequest,
        version: u64,
        /// The delay of the response. None if it is lost.
        back: Option<Duration>,
    },
    Answered {
        who: usize,
        life: u64,
        request: u64,
        sent: Moment,
        answer: Answer,
        version: u64,
    },
    Crashes {
        who: usize,
    },
}

#[test]
fn no_two_candidates_lead_at_once_and_one_leads_after_the_faults() {
    let mut terms = 0;
    for seed in 0..SEEDS {
        let mut simulation = Simulation::new(seed);
        simulation.run(seed);
        terms += simulation.terms;
    }
    // Otherwise the simulation proves nothing.
    assert!(
        terms > 10 * usize::try_from(SEEDS).expect("small"),
        "{terms}"
    );
}

// === impl Simulation ===

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut simulation = Self {
            rng: StdRng::seed_from_u64(seed),
            now: Moment::ZERO,
            lease: None,
            versions: 0,
            candidates: Vec::new(),
            events: BinaryHeap::new(),
            happens: Vec::new(),
            terms: 0,
        };
        for who in 0..4 {
            let candidate = simulation.candidate(who, 0);
            simulation.candidates.push(candidate);
            simulation.later(Duration::ZERO, What::Wakes { who, life: 0 });
            let time = simulation.up_to(120.0);
            simulation.later(time, What::Crashes { who });
        }
        simulation
    }

    fn run(&mut self, seed: u64) {
        while let Some(Reverse((time, number))) = self.events.pop() {
            if time > TROUBLE + QUIET {
                break;
            }
            self.now = time;
            assert!(self.happens.len() < 100_000, "seed {seed}: it spins");
            let what = self.happens[usize::try_from(number).expect("small")].take();
            self.happen(what.expect("it happens once"));
            let leaders = self.leaders();
            assert!(leaders.len() <= 1, "seed {seed}, at {time:?}: {leaders:?}");
        }
        assert_eq!(self.leaders().len(), 1, "seed {seed}: no candidate leads");
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Wakes { who, life } if self.candidates[who].life == life => self.wake(who),
            What::Arrives {
                who,
                life,
                request,
                sent,
                ask,
                version,
                back,
            } => {
                let (answer, version) = self.serve(ask, version);
                let answered = What::Answered {
                    who,
                    life,
                    request,
                    sent,
                    answer,
                    version,
                };
                if let Some(back) = back {
                    self.later(back, answered);
                }
            }
            What::Answered {
                who,
                life,
                request,
                sent,
                answer,
                version,
            } => {
                let jitter = self.rng.random();
                let candidate = &mut self.candidates[who];
                if (candidate.life, candidate.request) != (life, request) {
                    return;
                }
                candidate.request += 1;
                if matches!(answer, Answer::Found(_) | Answer::Written { uid: None }) {
                    candidate.version = version;
                }
                let led = candidate.campaign.leads();
                let now = self.now.saturating_sub(candidate.began);
                candidate.campaign.on_answer(sent, now, answer, jitter);
                if candidate.campaign.leads() && !led {
                    self.terms += 1;
                }
                self.wake(who);
            }
            What::Crashes { who } if self.now < TROUBLE => {
                self.restart(who);
                let time = self.up_to(120.0);
                self.later(time, What::Crashes { who });
            }
            What::Wakes { .. } | What::Crashes { .. } => {}
        }
    }

    /// Runs the next step of a candidate.
    fn wake(&mut self, who: usize) {
        let candidate = &mut self.candidates[who];
        let (life, request) = (candidate.life, candidate.request);
        let now = self.now.saturating_sub(candidate.began);
        let seconds = i64::try_from(self.now.as_secs()).expect("small");
        let wall = 1_000_000 + candidate.wrong + seconds;
        let wall = Timestamp::from_second(wall).expect("a time");
        match candidate.campaign.next(now, wall) {
            Next::Wait(until) => self.later(until.saturating_sub(now), What::Wakes { who, life }),
            Next::Lost(_) => self.restart(who),
            Next::Send(ask) => {
                let (sent, version) = (now, candidate.version);
                let limit = candidate.campaign.request_timeout(now);
                let faulty = self.now < TROUBLE;
                // Usually fast, sometimes slow, sometimes far beyond the timeout.
                let slow = if faulty {
                    self.rng.random_range(0..4)
                } else {
                    0
                };
                let most = [0.05, 0.05, 4.0, 40.0][slow];
                let (there, back) = (self.up_to(most), self.up_to(most));
                let lost = faulty && self.rng.random_bool(0.1);
                if there + back >= limit || lost {
                    let answered = What::Answered {
                        who,
                        life,
                        request,
                        sent,
                        answer: Answer::Failed,
                        version,
                    };
                    self.later(limit, answered);
                }
                if lost && self.rng.random_bool(0.5) {
                    return;
                }
                let back = (there + back < limit && !lost).then_some(back);
                let arrives = What::Arrives {
                    who,
                    life,
                    request,
                    sent,
                    ask,
                    version,
                    back,
                };
                self.later(there, arrives);
            }
        }
    }

    /// The response of the server, and the new version of the lease.
    fn serve(&mut self, ask: LeaseRequest, known: u64) -> (Answer, u64) {
        let record = match (ask, &self.lease) {
            (LeaseRequest::Read, Some((record, version))) => {
                return (Answer::Found(record.clone()), *version);
            }
            (LeaseRequest::Read, None) => return (Answer::Absent, 0),
            (LeaseRequest::Create(record), None) => record,
            (LeaseRequest::Replace(record), Some((_, version))) if *version == known => record,
            (LeaseRequest::Create(_) | LeaseRequest::Replace(_), _) => {
                return (Answer::Conflict, 0);
            }
        };
        self.versions += 1;
        self.lease = Some((record, self.versions));
        (Answer::Written { uid: None }, self.versions)
    }

    /// Crashes and restarts the process of a candidate.
    fn restart(&mut self, who: usize) {
        let life = self.candidates[who].life + 1;
        let wait = self.up_to(5.0);
        self.candidates[who] = self.candidate(who, life);
        self.candidates[who].began = self.now + wait;
        self.later(wait, What::Wakes { who, life });
    }

    fn candidate(&mut self, who: usize, life: u64) -> Candidate {
        // Two candidates have the same name.
        let identity = format!("candidate-{}", who.max(1));
        Candidate {
            campaign: Campaign::new(identity, TIMING),
            version: 0,
            began: self.now,
            wrong: self.rng.random_range(-7200..7200),
            life,
            request: 0,
        }
    }

    /// The candidates that are leaders by their own clock.
    fn leaders(&self) -> Vec<usize> {
        let leads = |who: &usize| {
            let Candidate {
                campaign, began, ..
            } = &self.candidates[*who];
            matches!(campaign.role, Role::Leader { until, .. } if self.now < *began + until)
        };
        (0..self.candidates.len()).filter(leads).collect()
    }

    fn later(&mut self, time: Duration, what: What) {
        let number = u64::try_from(self.happens.len()).expect("small");
        self.happens.push(Some(what));
        self.events.push(Reverse((self.now + time, number)));
    }

    fn up_to(&mut self, seconds: f64) -> Duration {
        Duration::from_secs_f64(self.rng.random_range(0.0..seconds))
    }
}
