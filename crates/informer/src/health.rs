//! The health of an informer, for readiness checks and for display.

use std::{collections::BTreeSet, fmt, sync::Arc};

use crate::{InformerError, ObjectKey, WatchError, watch::is_older};

/// The health of one informer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The kind, as `plural.group`.
    pub resource: Arc<str>,

    /// The state of the watch.
    pub state: HealthState,

    /// Whether the store has held a complete list since the informer was started. False again after
    /// it has stopped.
    pub synced: bool,

    /// The objects that do not decode and are in quarantine.
    pub undecodable: Vec<ObjectKey>,
}

/// The state of a watch.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum HealthState {
    /// The informer has not run.
    #[default]
    NotStarted,
    /// The informer lists.
    Listing,
    /// The informer watches.
    Watching,
    /// The list or watch broke, and is retried after a backoff.
    Down {
        /// Why it broke.
        error: Arc<WatchError>,
    },
    /// The informer has stopped.
    Stopped,
}

/// The status that an informer publishes.
#[derive(Debug, Default)]
pub(crate) struct InformerStatus {
    pub(crate) state: HealthState,

    /// Whether a list was complete since the informer was started.
    pub(crate) synced: bool,

    /// Whether a caller of `run` drives the informer.
    pub(crate) is_driven: bool,

    /// Why the informer failed, if it did.
    pub(crate) failure: Option<InformerError>,

    pub(crate) resource_version: Option<String>,
    /// The version of the newest complete list.
    pub(crate) list_version: Option<String>,
    pub(crate) undecodable: BTreeSet<ObjectKey>,
}

// === impl Health ===

impl Health {
    /// Whether the watch is active and no object is in quarantine.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        matches!(self.state, HealthState::Watching) && self.undecodable.is_empty()
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.resource)?;
        match &self.state {
            HealthState::NotStarted => f.write_str("not started")?,
            HealthState::Listing => f.write_str("listing")?,
            HealthState::Watching => f.write_str("watching")?,
            HealthState::Down { error } => write!(f, "down, {error}")?,
            HealthState::Stopped => f.write_str("stopped")?,
        }
        match self.undecodable.len() {
            0 => Ok(()),
            count => write!(f, "; {count} undecodable"),
        }
    }
}

// === impl InformerStatus ===

impl InformerStatus {
    /// The informer was started, and lists.
    pub(crate) fn start(&mut self) {
        self.state = HealthState::Listing;
        self.failure = None;
    }

    /// The informer has stopped, because its last caller has left or it failed.
    pub(crate) fn end(&mut self, failure: Option<InformerError>) {
        self.state = HealthState::Stopped;
        self.synced = false;
        self.is_driven = false;
        self.failure = failure;
    }

    /// Advances the version up to which no change was missed. The objects of a first list come in
    /// any order and do not advance it. Neither does an older version, such as that of an object
    /// that was requested again.
    pub(crate) fn advance_version(&mut self, version: Option<&str>) {
        if !matches!(self.state, HealthState::Watching) {
            return;
        }
        let known = self.resource_version.as_deref();
        if let Some(version) = version
            && known != Some(version)
            && !known.is_some_and(|known| is_older(version, known))
        {
            // In place, because this happens for each event.
            let complete = self.resource_version.get_or_insert_default();
            complete.clear();
            complete.push_str(version);
        }
    }

    pub(crate) fn health(&self, resource: &Arc<str>) -> Health {
        Health {
            resource: Arc::clone(resource),
            state: self.state.clone(),
            synced: self.synced,
            undecodable: self.undecodable.iter().cloned().collect(),
        }
    }
}
