//! A simulated external name service, which can fail.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

/// A provider of host names outside of Kubernetes. Kubernetes does not delete its names, so an
/// operator must withdraw them.
#[derive(Debug, Default)]
pub(crate) struct NameService {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    published: BTreeSet<String>,

    /// How many more calls fail, by host name.
    outages: HashMap<String, u32>,
}

/// The error of a call during an outage.
#[derive(Debug, thiserror::Error)]
#[error("the name service does not answer for {host}")]
pub(crate) struct Outage {
    host: String,
}

// === impl NameService ===

impl NameService {
    /// Makes the next `times` calls for `host` fail.
    pub(crate) fn fail(&self, host: &str, times: u32) {
        self.with(|state| state.outages.insert(host.to_owned(), times));
    }

    /// Publishes `host`. A second call changes nothing.
    pub(crate) fn publish(&self, host: &str) -> Result<(), Outage> {
        self.with(|state| {
            if let Some(left) = state.outages.get_mut(host)
                && *left > 0
            {
                *left -= 1;
                return Err(Outage {
                    host: host.to_owned(),
                });
            }
            state.published.insert(host.to_owned());
            Ok(())
        })
    }

    /// Withdraws `host`. Returns whether it was published.
    pub(crate) fn withdraw(&self, host: &str) -> bool {
        self.with(|state| state.published.remove(host))
    }

    /// The published hosts.
    pub(crate) fn published(&self) -> Vec<String> {
        self.with(|state| state.published.iter().cloned().collect())
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
