//! A campaign with a clock and an API server.

use std::sync::Arc;

use jiff::Timestamp;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    LeaderElection, LeadershipLost, LeaseError, Standing,
    campaign::{Answer, Ask, Campaign, Loss, Moment, Next},
    lease::Leases,
};
use crate::error::Causes;

/// One replica in its election.
pub(crate) struct Candidate {
    election: LeaderElection,
    campaign: Campaign,
    leases: Leases,
    began: Instant,
    rng: StdRng,
    /// What the last request met, if it met anything.
    trouble: Option<Arc<LeaseError>>,
}

/// A leader that has been one.
pub(crate) struct Kept {
    pub(crate) candidate: Candidate,
    /// Why it leads no more, unless it was told to let go.
    pub(crate) lost: Option<LeadershipLost>,
}

/// What a step came to.
enum Step {
    Done,
    Stopped,
    Lost(Loss),
}

// === impl Candidate ===

impl Candidate {
    pub(super) fn new(election: LeaderElection) -> Self {
        let settings = &election.settings;
        Self {
            campaign: Campaign::new(settings.identity.clone(), settings.timing),
            leases: Leases::new(settings),
            began: Instant::now(),
            rng: rng(settings.seed),
            trouble: None,
            election,
        }
    }

    /// Waits until it leads. Returns false if it is stopped before; then it may hold the lease
    /// all the same, to be [released](Self::release).
    pub(crate) async fn elected(&mut self, stop: &CancellationToken) -> bool {
        while !self.campaign.leads() {
            if matches!(self.step(stop).await, Step::Stopped) {
                return false;
            }
        }
        // The answer may have come after the stop.
        !stop.is_cancelled()
    }

    /// Renews until it is told to let go, or leads no more.
    pub(crate) async fn keep(mut self, let_go: CancellationToken) -> Kept {
        loop {
            let lost = match self.step(&let_go).await {
                Step::Done => continue,
                Step::Stopped => None,
                Step::Lost(loss) => Some(self.lost(loss)),
            };
            return Kept {
                candidate: self,
                lost,
            };
        }
    }

    /// Empties the lease, if it may be ours, so that the next one need not wait. What keeps it
    /// from doing so is logged: the lease then runs out by itself.
    pub(crate) async fn release(mut self) {
        /// One for what was on its way when we let go, and one for somebody's label.
        const TRIES: usize = 3;

        if !self.campaign.may_hold() {
            return;
        }
        let lease = self.election.lease();
        let limit = self.election.renew_deadline() / 2;
        self.stand(Standing::Ended);
        for _ in 0..TRIES {
            let (answer, error) = self.leases.ask(Ask::Read, limit).await;
            if let Some(error) = error {
                self.trouble(error);
                continue;
            }
            let Answer::Found(record) = answer else {
                return;
            };
            let Some(record) = self.campaign.release(&record, Timestamp::now()) else {
                return;
            };
            let (answer, error) = self.leases.ask(Ask::Replace(record), limit).await;
            if let Some(error) = error {
                self.trouble(error);
            }
            if matches!(answer, Answer::Written) {
                tracing::info!(%lease, "released the lease");
                return;
            }
        }
        tracing::warn!(%lease, "could not release the lease; it runs out by itself");
    }

    /// Waits, or asks once. Only the waiting is broken off by `stop`: of a request that was
    /// sent one wants to know what came of it.
    async fn step(&mut self, stop: &CancellationToken) -> Step {
        if stop.is_cancelled() {
            return Step::Stopped;
        }
        match self.campaign.next(self.now(), Timestamp::now()) {
            Next::Lost(loss) => Step::Lost(loss),
            Next::Wait(until) => {
                let sleep = tokio::time::sleep_until(self.began + until);
                match stop.run_until_cancelled(sleep).await {
                    Some(()) => Step::Done,
                    None => Step::Stopped,
                }
            }
            Next::Ask(ask) => {
                let leads = self.campaign.leads();
                if leads && ask == Ask::Read {
                    self.election.metrics.looked_again();
                }
                let sent = self.now();
                let limit = self.campaign.patience(sent);
                let (answer, error) = self.leases.ask(ask, limit).await;
                self.campaign
                    .heard(sent, self.now(), answer, self.rng.random());
                self.tell(leads, error);
                Step::Done
            }
        }
    }

    /// Tells the log, the metrics and the admin server where we stand.
    fn tell(&mut self, led: bool, error: Option<LeaseError>) {
        let lease = self.election.lease();
        if let Some(transitions) = self.campaign.transitions() {
            self.election.metrics.transitions(transitions);
        }
        let troubled = error.is_some();
        match error {
            Some(error) => self.trouble(error),
            None => self.trouble = None,
        }
        if self.campaign.leads() {
            if !led {
                tracing::info!(%lease, identity = self.election.identity(), "leading");
            }
            self.stand(Standing::Leads);
        } else if led {
            self.stand(Standing::Ended);
        } else if let Some(error) = self.trouble.as_ref().filter(|_| troubled) {
            let error = Causes(&**error).to_string();
            self.stand(Standing::Troubled { error });
        } else if let Some(holder) = self.campaign.holder() {
            let holder = holder.to_owned();
            let standing = Standing::Waits { holder };
            if self.election.standing() != standing {
                tracing::info!(%lease, holder = self.campaign.holder(), "standing by");
            }
            self.stand(standing);
        }
    }

    /// The first of a kind is worth a warning, those after it are not.
    fn trouble(&mut self, error: LeaseError) {
        self.election.metrics.failed(error.reason());
        let known = self.trouble.as_ref().map(|last| last.reason());
        if known == Some(error.reason()) {
            tracing::debug!(error = %Causes(&error), "still in trouble with the lease");
        } else {
            tracing::warn!("{}", Causes(&error));
        }
        self.trouble = Some(Arc::new(error));
    }

    fn stand(&self, standing: Standing) {
        self.election.metrics.leads(standing == Standing::Leads);
        self.election.standing.send_replace(standing);
    }

    fn lost(&self, loss: Loss) -> LeadershipLost {
        let lease = self.election.lease();
        self.stand(Standing::Ended);
        match loss {
            Loss::NotRenewed => LeadershipLost::NotRenewed {
                lease,
                deadline: self.election.renew_deadline(),
                source: self.trouble.clone(),
            },
            Loss::Taken(holder) => LeadershipLost::Taken { lease, holder },
            Loss::Emptied => LeadershipLost::Emptied { lease },
            Loss::Deleted => LeadershipLost::Deleted { lease },
        }
    }

    fn now(&self) -> Moment {
        self.began.elapsed()
    }
}

impl Drop for Candidate {
    /// Whoever drops it with all that it leads is no leader, though the lease says so for some
    /// time.
    fn drop(&mut self) {
        if self.election.is_leader() {
            self.stand(Standing::Ended);
        }
    }
}

/// The randomness of one candidate.
pub(super) fn rng(seed: Option<u64>) -> StdRng {
    seed.map_or_else(StdRng::from_os_rng, StdRng::seed_from_u64)
}
