//! The health of an informer, for readiness checks and for people.

use std::{collections::BTreeSet, fmt, sync::Arc};

use crate::{InformerError, ObjectKey, WatchError, watch::is_older};

/// How one informer's watch is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The kind, as `plural.group`.
    pub resource: Arc<str>,

    /// What the watch is doing.
    pub state: HealthState,

    /// Whether the store has held a complete list since the informer was started: false again
    /// once it has stopped.
    pub synced: bool,

    /// The objects that do not decode and are set aside.
    pub undecodable: Vec<ObjectKey>,
}

/// What a watch is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HealthState {
    /// It has not begun.
    NotStarted,
    /// It takes a whole list.
    Listing,
    /// It follows what happens.
    Watching,
    /// It broke off, and is taken up again.
    Down {
        /// Why it broke off.
        error: Arc<WatchError>,
    },
    /// It has ended.
    Stopped,
}

/// The state of one informer, as it publishes it.
#[derive(Debug)]
pub(crate) struct InformerStatus {
    pub(crate) state: HealthState,

    /// Whether a list was complete since the informer was started.
    pub(crate) synced: bool,

    /// Whether a caller of `run` polls it.
    pub(crate) is_driven: bool,

    /// Why it stopped, if it failed.
    pub(crate) failure: Option<InformerError>,

    pub(crate) resource_version: Option<String>,
    /// The version of the newest complete list.
    pub(crate) list_version: Option<String>,
    pub(crate) undecodable: BTreeSet<ObjectKey>,
}

// === impl Health ===

impl Health {
    /// Whether the watch is up and nothing is set aside.
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
            set_aside => write!(f, "; {set_aside} set aside"),
        }
    }
}

// === impl InformerStatus ===

impl InformerStatus {
    pub(crate) fn new() -> Self {
        Self {
            state: HealthState::NotStarted,
            synced: false,
            is_driven: false,
            failure: None,
            resource_version: None,
            list_version: None,
            undecodable: BTreeSet::new(),
        }
    }

    /// The informer lists, after it was started.
    pub(crate) fn start(&mut self) {
        self.state = HealthState::Listing;
        self.failure = None;
    }

    /// The informer has stopped: its last caller has left, or it failed.
    pub(crate) fn end(&mut self, failure: Option<InformerError>) {
        self.state = HealthState::Stopped;
        self.synced = false;
        self.is_driven = false;
        self.failure = failure;
    }

    /// Nothing up to `version` was missed. The objects of a first list come in any order, so
    /// they say nothing; nor does an older version, as that of an object that was requested again.
    pub(crate) fn advance_version(&mut self, version: Option<&str>) {
        if !matches!(self.state, HealthState::Watching) {
            return;
        }
        let known = self.resource_version.as_deref();
        if let Some(version) = version
            && known != Some(version)
            && !known.is_some_and(|known| is_older(version, known))
        {
            // In place: this is once per event.
            let place = self.resource_version.get_or_insert_default();
            place.clear();
            place.push_str(version);
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
