//! The state that all requests share: the objects, the time and the settings.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::authorize::{Attributes, Authorizer};
use crate::cluster::Cluster;
use crate::containers::Hooks;
use crate::mutating_limit::MutatingLimit;
use crate::profile::Profile;
use crate::revisions::{RevisionReader, Revisions};
use crate::status::Status;
use crate::store::Table;
use crate::user::User;

mod clock;

pub(crate) use self::clock::{Clock, written};

/// The state that all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    /// The version counter, for requests that wait for a future version.
    pub(crate) revision: Revisions,
    pub(crate) clock: Clock,
    pub(crate) profile: Profile,
    pub(crate) authorizer: Option<Authorizer>,
    /// The functions that respond for the containers of pods.
    pub(crate) hooks: Hooks,
    /// Whether ports use TLS.
    pub(crate) uses_tls: bool,
    /// The limit of requests that are not reads.
    pub(crate) mutating_limit: Option<MutatingLimit>,
    /// Whether roles authorize requests.
    pub(crate) evaluates_roles: AtomicBool,
    /// Ends all watches that have started since it was replaced.
    pub(crate) cut: Mutex<CancellationToken>,
}

/// The objects, and who waits for their changes.
#[derive(Debug)]
pub(crate) struct State {
    cluster: Cluster,
    /// The revision of the last write of each resource that is watched.
    written: BTreeMap<Table, Revisions>,
}

// === impl State ===

impl State {
    pub(crate) const fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            written: BTreeMap::new(),
        }
    }
}

// === impl Shared ===

impl Shared {
    /// The current time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A random factor of at least 1 and less than 2.
    pub(crate) fn spread(&self) -> f64 {
        self.state.lock().cluster.spread()
    }

    /// Calls `read` with the cluster, under the lock.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Cluster) -> T) -> T {
        read(&self.state.lock().cluster)
    }

    fn evaluates_roles(&self) -> bool {
        self.evaluates_roles.load(Ordering::Relaxed)
    }

    /// Authorizes requests by roles from now on.
    pub(crate) fn enable_roles(&self) {
        self.write(|cluster, now| {
            if !self.evaluates_roles.swap(true, Ordering::Relaxed) {
                cluster.create_roles(now);
            }
        });
    }

    /// Whether requests are authorized.
    pub(crate) fn authorizes(&self) -> bool {
        self.authorizer.is_some() || self.evaluates_roles()
    }

    /// Whether requests are authorized by roles alone.
    pub(crate) fn authorizes_by_roles(&self) -> bool {
        self.authorizer.is_none() && self.evaluates_roles()
    }

    /// Whether a request is allowed.
    pub(crate) fn allows(&self, attributes: &Attributes) -> bool {
        let by_roles = !self.evaluates_roles() || self.read(|cluster| cluster.permits(attributes));
        let authorizer = self.authorizer.as_ref();
        by_roles && authorizer.is_none_or(|authorizer| authorizer.allows(attributes))
    }

    /// Whether a request for a path that is not a resource is allowed. The authorizer decides about
    /// resources only.
    pub(crate) fn allows_path(&self, user: &User, verb: &str, path: &str) -> bool {
        !self.evaluates_roles() || self.read(|cluster| cluster.permits_path(user, verb, path))
    }

    /// Checks that a request is allowed.
    ///
    /// # Errors
    ///
    /// 403 if it is denied.
    pub(crate) fn authorize(&self, attributes: &Attributes) -> Result<(), Status> {
        if self.allows(attributes) {
            Ok(())
        } else {
            Err(attributes.forbidden())
        }
    }

    /// Calls `change` with the cluster and the time, under the lock, and notifies the watches and
    /// requests that wait for a write.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Cluster, &str) -> T) -> T {
        let now = self.time();
        self.write_at(&now, |cluster| change(cluster, &now))
    }

    /// The current time in the format of `creationTimestamp`.
    pub(crate) fn time(&self) -> String {
        written(self.clock.now())
    }

    /// Like [`write`](Self::write), at the time `now`.
    pub(crate) fn write_at<T>(&self, now: &str, change: impl FnOnce(&mut Cluster) -> T) -> T {
        let mut state = self.state.lock();
        state.cluster.store.advance(self.clock.elapsed());
        let before = state.cluster.store.revision();
        state.cluster.delete_expired_events();
        let outcome = change(&mut state.cluster);
        state.cluster.settle(now);
        let after = state.cluster.store.revision();
        for table in state.cluster.take_retired() {
            // Drops the only sender, which ends the watches of this resource.
            state.written.remove(&table);
        }
        if after != before {
            let State { cluster, written } = &mut *state;
            written.retain(|table, written| {
                written.set(cluster.store.last_write(table));
                written.is_read()
            });
            self.revision.set(after);
        }
        outcome
    }

    /// Calls `read` with the cluster, and subscribes to the writes of a resource under the same
    /// lock.
    pub(crate) fn subscribe<T>(
        &self,
        table: &Table,
        read: impl FnOnce(&Cluster) -> T,
    ) -> (T, RevisionReader, CancellationToken) {
        let mut state = self.state.lock();
        let result = read(&state.cluster);
        let last = state.cluster.store.last_write(table);
        let written = state
            .written
            .entry(table.clone())
            .or_insert_with(|| Revisions::new(last));
        (result, written.reader(), self.cut.lock().clone())
    }

    /// Waits until the version counter has reached `revision`, for at most three seconds.
    pub(crate) async fn reach(&self, revision: u64) {
        /// The timeout of kube-apiserver.
        const TIMEOUT: Duration = Duration::from_secs(3);
        let mut newest = self.revision.reader();
        _ = tokio::time::timeout(TIMEOUT, newest.wait_for(|newest| newest >= revision)).await;
    }
}
