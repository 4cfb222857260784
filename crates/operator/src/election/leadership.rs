//! The election of one replica as a separate task: it acquires, renews and releases the lease.
//!
//! If the client is created from a [`Config`](kube::Config), the task has a separate thread and
//! runtime, so that handlers that block their threads do not delay a renewal.

use std::{
    io,
    pin::pin,
    sync::{Arc, OnceLock},
};

use kube::Client;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;
use windlass_informer::log;

use super::{LeaderElection, LeadershipLost, LeaseClient, candidate::Candidate};
use crate::{isolated::Isolated, trace};

/// A running election. Dropping it ends the election without releasing the lease.
pub(crate) struct Leadership {
    elected: oneshot::Receiver<()>,
    resignation: Arc<Resignation>,
    task: Isolated<LeadershipEnd>,
    election: LeaderElection,
}

/// How an election ended.
pub(crate) enum LeadershipEnd {
    /// It was stopped before this replica led, or this replica has resigned.
    Stopped,
    Lost(LeadershipLost),
    /// No client could be created from the configuration.
    NoClient(Box<kube::Error>),
}

/// The request to resign; also whether to release the lease, and the deadline for it.
#[derive(Default)]
pub(super) struct Resignation {
    requested: CancellationToken,
    release_by: OnceLock<Option<Instant>>,
}

// === impl Leadership ===

impl Leadership {
    /// Tries to acquire the lease, and renews it, until [`resign`](Self::resign) is called.
    pub(crate) fn start(election: &LeaderElection) -> io::Result<Self> {
        let resignation = Arc::<Resignation>::default();
        let (on_elected, elected) = oneshot::channel();
        let campaign = campaign(election.clone(), on_elected, Arc::clone(&resignation));
        let span = trace::election(&election.lease(), election.identity());
        let campaign = async move { span.within(pin!(campaign)).await };
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

    /// Waits until this replica leads. Returns false if the election ended before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
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
            // The task panicked, so the lease is not renewed any more.
            None => LeadershipEnd::Lost(self.election.abandoned()),
        }
    }

    /// Ends the election before `deadline`. Releases the lease, if this replica may hold it, only
    /// if `release` is true, which means that no controller runs.
    pub(crate) async fn resign(mut self, release: bool, deadline: Instant) {
        _ = (self.resignation.release_by).set(release.then_some(deadline));
        self.resignation.requested.cancel();
        if timeout_at(deadline, self.ended()).await.is_err() {
            let lease = self.election.lease();
            log::warn!(%lease, "could not release the lease in time; it expires");
        }
    }
}

async fn campaign(
    election: LeaderElection,
    on_elected: oneshot::Sender<()>,
    resignation: Arc<Resignation>,
) -> LeadershipEnd {
    let client = match &election.settings.client {
        LeaseClient::Client(client) => client.clone(),
        // Created here, so that its connections belong to the runtime of this task.
        LeaseClient::Config(config) => {
            let mut config = (**config).clone();
            // No retries in the client: the campaign decides about each request after the previous
            // response.
            config.default_retry = false;
            match Client::try_from(config) {
                Ok(client) => client,
                Err(error) => return LeadershipEnd::NoClient(Box::new(error)),
            }
        }
    };
    let mut candidate = Candidate::new(election, client);
    if candidate.elected(&resignation).await {
        _ = on_elected.send(());
        if let Some(lost) = candidate.renew(&resignation).await {
            return LeadershipEnd::Lost(lost);
        }
    }
    if let Some(deadline) = resignation.release_by() {
        candidate.release(deadline).await;
    }
    LeadershipEnd::Stopped
}

// === impl Resignation ===

impl Resignation {
    pub(super) fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }

    /// Waits for the request to resign.
    pub(super) async fn requested(&self) {
        self.requested.cancelled().await;
    }

    /// Waits for the request to resign, and then for half of the time in which the lease must be
    /// released: a write that is in progress may end in the first half, and the second half is for
    /// the release.
    pub(super) async fn requested_in_a_write(&self) {
        self.requested().await;
        if let Some(deadline) = self.release_by() {
            sleep(deadline.saturating_duration_since(Instant::now()) / 2).await;
        }
    }

    /// The deadline for the release. None if the lease must not be released.
    fn release_by(&self) -> Option<Instant> {
        self.release_by.get().copied().flatten()
    }
}
