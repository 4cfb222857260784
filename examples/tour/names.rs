//! The interface of an external name service, and one in memory, which can fail.

use std::{
    collections::{BTreeMap, HashMap},
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A provider of host names outside of Kubernetes. Kubernetes does not delete its names, so an
/// operator must withdraw them.
///
/// Names belong to an owner, the uid of a website. A clean-up that is repeated late then does not
/// withdraw the name of a website that was created under the same name since.
pub(crate) trait NameService: Send + Sync + 'static {
    type Error: std::error::Error + Send + Sync + 'static;

    /// Publishes `host` in place of the host that `owner` published before. A second call changes
    /// nothing.
    fn publish(
        &self,
        owner: &str,
        host: &str,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Withdraws the host of `owner`. Returns whether it had one.
    fn withdraw(&self, owner: &str) -> impl Future<Output = Result<bool, Self::Error>> + Send;
}

/// A name service in memory. All clones are the same service.
#[derive(Clone, Debug, Default)]
pub(crate) struct InMemory {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The published hosts, by owner.
    published: BTreeMap<String, String>,

    /// How many more calls fail, by host name.
    outages: HashMap<String, u32>,
}

/// The error of a call during an outage.
#[derive(Debug, thiserror::Error)]
#[error("the name service does not answer for {host}")]
pub(crate) struct Outage {
    host: String,
}

// === impl InMemory ===

impl InMemory {
    /// Makes the next `times` calls for `host` fail.
    pub(crate) fn fail(&self, host: &str, times: u32) {
        self.state().outages.insert(host.to_owned(), times);
    }

    /// The published hosts, in the order of their names.
    pub(crate) fn published(&self) -> Vec<String> {
        let mut hosts: Vec<_> = self.state().published.values().cloned().collect();
        hosts.sort();
        hosts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NameService for InMemory {
    type Error = Outage;

    async fn publish(&self, owner: &str, host: &str) -> Result<(), Outage> {
        let mut state = self.state();
        if let Some(left) = state.outages.get_mut(host)
            && *left > 0
        {
            *left -= 1;
            return Err(Outage {
                host: host.to_owned(),
            });
        }
        state.published.insert(owner.to_owned(), host.to_owned());
        Ok(())
    }

    async fn withdraw(&self, owner: &str) -> Result<bool, Outage> {
        Ok(self.state().published.remove(owner).is_some())
    }
}
