//! Runs a campaign with a clock, an API server and a fence.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::Client;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::time::{Instant, sleep, timeout_at};
use windlass_informer::{ErrorChain, log, one_line, random_seed, wall_clock};

use super::{
    ElectionState, LeaderElection, LeadershipLost, LeaseError,
    campaign::{Answer, Campaign, LeaseRequest, Loss, Moment, Next},
    leadership::Resignation,
    lease::LeaseApi,
};

/// One replica in its election.
pub(super) struct Candidate {
    election: LeaderElection,
    campaign: Campaign,
    leases: LeaseApi,
    /// The start, by the clock of the fence.
    began: Duration,
    rng: StdRng,
    /// The error of the last request, if it failed.
    last_error: Option<Arc<LeaseError>>,
}

/// The outcome of one step.
enum Step {
    Done,
    Stopped,
    Lost(Loss),
}

// === impl Candidate ===

impl Candidate {
    pub(super) fn new(election: LeaderElection, client: Client) -> Self {
        let settings = &election.settings;
        Self {
            campaign: Campaign::new(settings.identity.clone(), settings.timing),
            leases: LeaseApi::new(client, settings),
            began: election.fence.now(),
            rng: rng(settings.seed),
            last_error: None,
            election,
        }
    }

    /// Waits until this replica leads. Returns false if it must resign before. Even then it may
    /// hold the lease, so [`release`](Self::release) must be called.
    pub(super) async fn elected(&mut self, resignation: &Resignation) -> bool {
        /// The pause of a replica with a blocked runtime, which must not lead.
        const PAUSE: Duration = Duration::from_secs(1);

        let mut was_blocked = false;
        while !self.campaign.leads() {
            if let Some(blocked) = self.election.blocked() {
                if !std::mem::replace(&mut was_blocked, true) {
                    let lease = self.election.lease();
                    log::warn!(%lease, ?blocked, "the runtime is blocked, not acquiring the lease");
                }
                tokio::select! {
                    () = resignation.requested() => return false,
                    () = sleep(PAUSE) => continue,
                }
            }
            was_blocked = false;
            if matches!(self.step(resignation).await, Step::Stopped) {
                return false;
            }
        }
        // The response may have arrived after the request to resign.
        !resignation.is_requested()
    }

    /// Renews the lease until this replica must resign. Returns an error if the lease is lost.
    pub(super) async fn renew(&mut self, resignation: &Resignation) -> Option<LeadershipLost> {
        loop {
            if let Some(blocked) = self.election.blocked() {
                let lease = self.end();
                log::error!(%lease, ?blocked, "the runtime is blocked, not renewing the lease");
                return Some(LeadershipLost::Blocked { lease, blocked });
            }
            match self.step(resignation).await {
                Step::Done => {}
                Step::Stopped => return None,
                Step::Lost(loss) => return Some(self.lost(loss)),
            }
        }
    }

    /// Closes the fence, waits until no call and no fenced write is in progress, and then releases
    /// the lease if this replica may hold it, so that the next candidate does not wait. Returns at
    /// `deadline` at the latest; a lease that is not released by then expires, and also one whose fence
    /// has dropped a write, which the API server may still apply.
    pub(super) async fn release(mut self, deadline: Instant) {
        let abandoned = self.election.fence.abandoned_writes();
        self.election.fence.close();
        if !self.campaign.may_hold() {
            return;
        }
        self.set_state(ElectionState::Ended);
        let lease = self.election.lease();
        let fence = self.election.fence.clone();
        if timeout_at(deadline, fence.idle()).await.is_err() {
            let calls = fence.running();
            log::warn!(%lease, calls, "did not release the lease: calls are still in progress; it expires");
            return;
        }
        if fence.abandoned_writes() > abandoned {
            log::warn!(%lease, "not releasing the lease: a write was aborted before it had a response; it expires");
            return;
        }
        let released = timeout_at(deadline, self.empty_lease(deadline)).await;
        if !released.unwrap_or(false) {
            log::warn!(%lease, "could not release the lease; it expires");
        }
    }

    /// Removes our name from the lease. Returns whether we do not hold it any more.
    async fn empty_lease(&mut self, deadline: Instant) -> bool {
        /// Several, because a write of ours can still be in flight, and other clients can change
        /// the lease between our read and our write.
        const ATTEMPTS: u32 = 5;
        /// The pause between two attempts, so that they are not a burst.
        const PAUSE: Duration = Duration::from_millis(100);

        for _ in 0..ATTEMPTS {
            let limit = deadline.saturating_duration_since(Instant::now());
            let (answer, error) = self.leases.send(LeaseRequest::Read, limit).await;
            let Answer::Found(record) = answer else {
                if let Some(error) = error {
                    self.failed(error);
                    sleep(PAUSE).await;
                    continue;
                }
                return true;
            };
            let Some(record) = self.campaign.release(&record, now()) else {
                return true;
            };
            let limit = deadline.saturating_duration_since(Instant::now());
            let request = LeaseRequest::Replace(record);
            let (answer, error) = self.leases.send(request, limit).await;
            if let Some(error) = error {
                self.failed(error);
            }
            if matches!(answer, Answer::Written { .. }) {
                log::info!(lease = %self.election.lease(), "released the lease");
                return true;
            }
            sleep(PAUSE).await;
        }
        false
    }

    /// Waits, or sends one request. A resignation interrupts a wait and a read at once, and a write
    /// later: its response says whether we hold the lease.
    async fn step(&mut self, resignation: &Resignation) -> Step {
        if resignation.is_requested() {
            return Step::Stopped;
        }
        match self.campaign.next(self.now(), now()) {
            Next::Lost(loss) => Step::Lost(loss),
            Next::Wait(until) => {
                /// The fence and the timer use different clocks: avoids a loop without a wait.
                const LEAST: Duration = Duration::from_millis(1);
                let wait = until.saturating_sub(self.now()).max(LEAST);
                tokio::select! {
                    biased;
                    () = resignation.requested() => Step::Stopped,
                    () = sleep(wait) => Step::Done,
                }
            }
            Next::Send(request) => {
                let leads = self.campaign.leads();
                let is_read = request == LeaseRequest::Read;
                if leads && is_read {
                    self.election.metrics.slow_path();
                }
                let sent = self.now();
                let limit = self.campaign.request_timeout(sent);
                let (answer, error) = tokio::select! {
                    biased;
                    answered = self.leases.send(request, limit) => answered,
                    () = resignation.requested(), if is_read => return Step::Stopped,
                    () = resignation.requested_in_a_write(), if !is_read => return Step::Stopped,
                };
                let jitter = self.rng.random();
                self.campaign.on_answer(sent, self.now(), answer, jitter);
                self.report(leads, error);
                Step::Done
            }
        }
    }

    /// Moves the fence, and publishes the state to the log, the metrics and the admin server.
    fn report(&mut self, led: bool, error: Option<LeaseError>) {
        match self.campaign.deadline() {
            Some(deadline) => self
                .election
                .fence
                .open_until(self.began.saturating_add(deadline)),
            None => self.election.fence.close(),
        }
        let lease = self.election.lease();
        if let Some(transitions) = self.campaign.transitions() {
            self.election.metrics.transitions(transitions);
        }
        let has_failed = error.is_some();
        match error {
            Some(error) => self.failed(error),
            None => self.last_error = None,
        }
        if self.campaign.leads() {
            if !led {
                log::info!(%lease, identity = self.election.identity(), "leading");
            }
            self.set_state(ElectionState::Leader);
        } else if led {
            self.set_state(ElectionState::Ended);
        } else if let Some(error) = self.last_error.as_ref().filter(|_| has_failed) {
            let error = ErrorChain::new(&**error).to_string();
            self.set_state(ElectionState::Failing { error });
        } else if let Some(holder) = self.campaign.holder() {
            // Another client wrote it.
            let holder = one_line(holder).into_owned();
            let state = ElectionState::Standby {
                holder: holder.clone(),
            };
            if *self.election.state.borrow() != state {
                log::info!(%lease, holder, "standing by");
            }
            self.set_state(state);
        }
    }

    /// Logs the first of several equal errors in a row as a warning, the others at DEBUG.
    fn failed(&mut self, error: LeaseError) {
        self.election.metrics.failed(error.reason());
        let last = self.last_error.as_ref().map(|last| last.reason());
        if last == Some(error.reason()) {
            log::debug!(error = %ErrorChain::new(&error), "request for the lease failed again");
        } else {
            log::warn!("{}", ErrorChain::new(&error));
        }
        self.last_error = Some(Arc::new(error));
    }

    fn set_state(&self, state: ElectionState) {
        let leads = state == ElectionState::Leader;
        self.election.metrics.leads(leads);
        self.election.state.send_replace(state);
    }

    /// Closes the fence and publishes that this replica does not lead. Returns the name of the lease.
    fn end(&self) -> String {
        self.election.fence.close();
        self.set_state(ElectionState::Ended);
        self.election.lease()
    }

    fn lost(&self, loss: Loss) -> LeadershipLost {
        let lease = self.end();
        match loss {
            Loss::NotRenewed => LeadershipLost::NotRenewed {
                lease,
                deadline: self.election.settings.timing.renew,
                source: self.last_error.clone(),
            },
            Loss::Taken(holder) => LeadershipLost::Taken {
                lease,
                holder: one_line(&holder).into_owned(),
            },
            Loss::Emptied => LeadershipLost::Emptied { lease },
            Loss::Deleted => LeadershipLost::Deleted { lease },
        }
    }

    fn now(&self) -> Moment {
        self.election.fence.now().saturating_sub(self.began)
    }
}

impl Drop for Candidate {
    /// Without renewals this replica does not lead, although it is the holder in the lease until
    /// the lease expires.
    fn drop(&mut self) {
        self.election.fence.close();
        if *self.election.state.borrow() == ElectionState::Leader {
            self.set_state(ElectionState::Ended);
        }
    }
}

/// The wall-clock time, for the times in the lease.
fn now() -> Timestamp {
    Timestamp::try_from(wall_clock()).unwrap_or_default()
}

/// The random number generator of one candidate.
pub(super) fn rng(seed: Option<u64>) -> StdRng {
    StdRng::seed_from_u64(seed.unwrap_or_else(random_seed))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, pipe};

    use tokio::time::timeout;
    use windlass_apiserver::ApiServer;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_candidate_logs_once_that_its_runtime_is_blocked() {
        let (mut log, writer) = pipe().expect("a pipe");
        let subscriber = tracing_subscriber::fmt().with_writer(Arc::new(writer));
        let guard = tracing::subscriber::set_default(subscriber.finish());
        let client = ApiServer::new().client();
        let election = LeaderElection::new(client.clone(), "default", "web").expect("names");
        election.set_blocked(Some(Duration::from_secs(60)));
        let mut candidate = Candidate::new(election, client);
        let resignation = Resignation::default();
        let elected = candidate.elected(&resignation);
        let elected = timeout(Duration::from_secs(10), elected).await;
        elected.expect_err("the runtime is blocked");
        drop(guard);
        let mut text = String::new();
        log.read_to_string(&mut text).expect("the log");
        assert_eq!(text.matches("not acquiring the lease").count(), 1, "{text}");
    }
}
