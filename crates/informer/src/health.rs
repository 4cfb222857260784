//! The health of an informer, for readiness checks and for people.

use std::{collections::BTreeSet, fmt, sync::Arc};

use crate::{ObjectKey, WatchError};

/// How one informer's watch is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The kind, as `plural.group`.
    pub resource: Arc<str>,

    /// What the watch is doing.
    pub state: HealthState,

    /// Whether the store has held a whole list at least once.
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

/// What an informer knows of itself from moment to moment.
#[derive(Debug)]
pub(crate) struct Pulse {
    pub(crate) state: HealthState,
    pub(crate) synced: bool,
    pub(crate) resource_version: Option<String>,
    pub(crate) undecodable: BTreeSet<ObjectKey>,
}

// === impl Health ===

impl Health {
    /// Whether the watch is up and nothing is set aside.
    #[must_use]
    pub fn is_well(&self) -> bool {
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

// === impl Pulse ===

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            state: HealthState::NotStarted,
            synced: false,
            resource_version: None,
            undecodable: BTreeSet::new(),
        }
    }

    /// Nothing up to `version` was missed. The objects of a first list come in any order, so
    /// they say nothing.
    pub(crate) fn moved(&mut self, version: Option<&str>) {
        if !matches!(self.state, HealthState::Watching) {
            return;
        }
        if let Some(version) = version
            && self.resource_version.as_deref() != Some(version)
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
