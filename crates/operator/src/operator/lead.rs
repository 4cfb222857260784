//! Runs the controllers of an operator while its replica leads.

use std::sync::Arc;

use futures::future::join;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_controller::ErasedRunnable;
use windlass_informer::{ErrorChain, log};

use super::{ABORT_TIMEOUT, Operator, controller_set::ControllerSet};
use crate::{
    LeaderElection, OperatorError,
    election::{Leadership, LeadershipEnd},
};

// === impl Operator ===

impl Operator {
    /// Runs the controllers while this replica holds the lease, until `stop` is cancelled or the
    /// lease is lost.
    pub(super) async fn lead(
        &self,
        election: &LeaderElection,
        stop: &CancellationToken,
        controllers: Vec<Arc<dyn ErasedRunnable>>,
    ) -> Result<(), OperatorError> {
        let mut leadership =
            Leadership::start(election).map_err(|source| OperatorError::Thread { source })?;
        let elected = tokio::select! {
            biased;
            () = stop.cancelled() => {
                let drained_by = Instant::now().checked_add(self.shared.drain);
                leadership.resign(true, release_by(election, drained_by)).await;
                return Ok(());
            }
            elected = leadership.elected() => elected,
        };
        if !elected {
            return Self::election_result(leadership.ended().await);
        }
        for controller in &controllers {
            controller.set_fence(&election.fence());
        }
        let fence = election.fence();
        let before = fence.abandoned_writes();
        let mut controllers = ControllerSet::start(controllers, stop.clone());
        let stopped = async {
            stop.cancelled().await;
            fence.abandoned_writes()
        };
        let (at_stop, outcome) = tokio::select! {
            biased;
            end = leadership.ended() => {
                controllers.abort(Instant::now() + ABORT_TIMEOUT).await;
                return Self::election_result(end);
            }
            // Counted first, before a call can be aborted.
            ended = join(stopped, controllers.run(self.shared.drain)) => ended,
        };
        // A controller that fails drops its writes before the stop.
        let counted = if outcome.is_err() { before } else { at_stop };
        let has_abandoned = fence.abandoned_writes() > counted;
        if has_abandoned {
            let lease = election.lease();
            log::warn!(%lease, "not releasing the lease: a write was aborted before it had a response; it expires");
        }
        let release = controllers.is_empty() && !has_abandoned;
        let deadline = release_by(election, controllers.deadline());
        leadership.resign(release, deadline).await;
        outcome
    }

    /// Converts the end of an election to the result of the operator.
    fn election_result(end: LeadershipEnd) -> Result<(), OperatorError> {
        match end {
            LeadershipEnd::Stopped => Ok(()),
            LeadershipEnd::Lost(source) => {
                log::error!(error = %ErrorChain::new(&source), "leadership lost");
                Err(OperatorError::LeadershipLost { source })
            }
            LeadershipEnd::NoClient(source) => Err(OperatorError::LeaseClient { source }),
        }
    }
}

/// The deadline for the release of the lease: the end of the drain timeout, but at most the timeout
/// of one request from now. A release that begins late has [`ABORT_TIMEOUT`] time, counted from the end of
/// the drain timeout, so that a stop takes at most that much longer.
fn release_by(election: &LeaderElection, drained_by: Option<Instant>) -> Instant {
    let now = Instant::now();
    let most = now + election.request_timeout().max(ABORT_TIMEOUT);
    let Some(drained_by) = drained_by else {
        return most;
    };
    let last = drained_by.checked_add(ABORT_TIMEOUT).unwrap_or(most);
    drained_by.max(now + ABORT_TIMEOUT).min(last).min(most)
}
