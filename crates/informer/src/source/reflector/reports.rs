//! Conditions of a list and watch that are logged once in a run.

use std::time::Duration;

use kube::Resource;
use serde::de::DeserializeOwned;

use super::Reflector;
use crate::{StoredForm, log};

/// The shortest wait between two lists of a kind that cannot be watched.
const SHORTEST_POLL: Duration = Duration::from_secs(1);

/// The conditions that a run logs once.
#[derive(Debug, Default)]
pub(super) struct Reports {
    polls: bool,
    read_timeout: bool,
    namespace: bool,
}

// === impl Reflector ===

impl<K, O> Reflector<'_, K, O>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    O: StoredForm<K>,
{
    /// The wait after a page of a list: a kind that cannot be watched is polled.
    pub(super) fn wait_after_list(&mut self) -> Duration {
        if !self.session.polls() {
            return Duration::ZERO;
        }
        let interval = self.requests.timeouts.poll.max(SHORTEST_POLL);
        if !std::mem::replace(&mut self.reports.polls, true) {
            log::info!(
                resource = %self.requests.resource,
                ?interval,
                "the server cannot watch this kind, polling it"
            );
        }
        interval
    }

    /// Logs once that the client ends quiet watches.
    pub(super) fn report_read_timeout(&mut self, connected: Duration) {
        if !std::mem::replace(&mut self.reports.read_timeout, true) {
            log::warn!(
                resource = %self.requests.resource,
                after = ?connected,
                "the client ended a quiet watch; set `read_timeout` of its configuration to more \
                 than a minute, the time between two bookmarks"
            );
        }
    }

    /// Logs once that the namespace of an informer without objects does not exist. Looks it up at the
    /// end of the first long watch: a namespace can be created shortly after the operator starts.
    pub(super) async fn report_missing_namespace(&mut self, connected: Duration) {
        const LONG: Duration = Duration::from_secs(60);
        if connected < LONG
            || !self.changes.is_empty()
            || std::mem::replace(&mut self.reports.namespace, true)
        {
            return;
        }
        if let Some(namespace) = self.requests.named.missing_namespace().await {
            log::warn!(
                resource = %self.requests.resource,
                namespace,
                "the namespace does not exist, so the informer has no objects; check its name"
            );
        }
    }
}
