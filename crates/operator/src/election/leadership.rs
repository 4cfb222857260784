//! The election of one replica as a task of its own: it campaigns, renews and releases.
//!
//! With a client that is made from a [`Config`](kube::Config), the task has a thread and a runtime
//! of its own, so that handlers which block their threads do not delay a renewal.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use kube::Client;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{LeaderElection, LeadershipLost, LeaseClient, candidate::Candidate};
use crate::{isolated::Isolated, trace};

/// An election that runs; dropping it ends it without releasing the lease.
pub(crate) struct Leadership {
    elected: oneshot::Receiver<()>,
    resignation: Arc<Resignation>,
    task: Isolated<LeadershipEnd>,
    election: LeaderElection,
}

/// How an election ended.
pub(crate) enum LeadershipEnd {
    /// It was stopped before it led, or has resigned.
    Stopped,
    Lost(LeadershipLost),
    /// No client could be made.
    NoClient(Box<kube::Error>),
}

/// The request to end, and whether and by when to release the lease.
#[derive(Default)]
struct Resignation {
    requested: CancellationToken,
    release_by: OnceLock<Option<Instant>>,
}

// === impl Leadership ===

impl Leadership {
    /// Campaigns until `stop` is cancelled; then a lease that was taken all the same is released
    /// within `release_limit`.
    pub(crate) fn start(
        election: &LeaderElection,
        stop: CancellationToken,
        release_limit: Duration,
    ) -> io::Result<Self> {
        let resignation = Arc::<Resignation>::default();
        let (tell_elected, elected) = oneshot::channel();
        let campaign = campaign(
            election.clone(),
            stop,
            release_limit,
            tell_elected,
            Arc::clone(&resignation),
        );
        let span = trace::election(&election.lease(), election.identity());
        let campaign = campaign.instrument(span);
        let task = match &election.settings.client {
            LeaseClient::Client(_) => Isolated::task(campaign),
            LeaseClient::Config(_) => Isolated::thread("windlass-lease", campaign)?,
        };
        Ok(Self {
            elected,
            resignation,
            task,
            election: election.clone(),
        })
    }

    /// Waits until this replica leads. False if the election ended before that.
    pub(crate) async fn elected(&mut self) -> bool {
        (&mut self.elected).await.is_ok()
    }

    /// Waits for the end of the election.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn ended(&mut self) -> LeadershipEnd {
        match (&mut self.task).await {
            Some(end) => end,
            // It panicked: nothing renews the lease any more.
            None => LeadershipEnd::Lost(self.election.abandoned()),
        }
    }

    /// Ends the leadership at `deadline` at the latest. Releases the lease only if `release`, which
    /// says that no controller runs any more.
    pub(crate) async fn resign(mut self, release: bool, deadline: Instant) {
        _ = (self.resignation.release_by).set(release.then_some(deadline));
        self.resignation.requested.cancel();
        if timeout_at(deadline, self.ended()).await.is_err() {
            let lease = self.election.lease();
            tracing::warn!(%lease, "could not release the lease in time; it expires");
        }
    }
}

async fn campaign(
    election: LeaderElection,
    stop: CancellationToken,
    release_limit: Duration,
    tell_elected: oneshot::Sender<()>,
    resignation: Arc<Resignation>,
) -> LeadershipEnd {
    let client = match &election.settings.client {
        LeaseClient::Client(client) => client.clone(),
        // Here, so that its connections belong to the runtime of this task.
        LeaseClient::Config(config) => {
            let mut config = (**config).clone();
            // The campaign decides about every request, with the answer to the one before.
            config.default_retry = false;
            match Client::try_from(config) {
                Ok(client) => client,
                Err(error) => return LeadershipEnd::NoClient(Box::new(error)),
            }
        }
    };
    let mut candidate = Candidate::new(election, client);
    if !candidate.elected(&stop).await {
        candidate.release(Instant::now() + release_limit).await;
        return LeadershipEnd::Stopped;
    }
    _ = tell_elected.send(());
    if let Some(lost) = candidate.renew(&resignation.requested).await {
        return LeadershipEnd::Lost(lost);
    }
    if let Some(Some(deadline)) = resignation.release_by.get() {
        candidate.release(*deadline).await;
    }
    LeadershipEnd::Stopped
}
