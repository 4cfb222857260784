//! A name service outside of the cluster, with outages.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

/// A provider of host names outside of Kubernetes: an operator must withdraw a name when it is
/// not needed any more.
#[derive(Debug, Default)]
pub(crate) struct NameService {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    published: BTreeSet<String>,

    /// How often the next calls for a name fail.
    outages: HashMap<String, u32>,
}

/// The provider could not be reached.
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

    /// Makes `host` known. Once more changes nothing.
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

    /// Makes `host` unknown. Returns whether it was known.
    pub(crate) fn withdraw(&self, host: &str) -> bool {
        self.with(|state| state.published.remove(host))
    }

    /// The hosts that are known.
    pub(crate) fn published(&self) -> Vec<String> {
        self.with(|state| state.published.iter().cloned().collect())
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
