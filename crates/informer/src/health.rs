//! The health of an informer, for readiness checks and for display.

use std::{fmt, sync::Arc};

use crate::{ObjectKey, WatchError};

/// The health of one informer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The kind, as `plural.group`.
    pub resource: Arc<str>,

    /// The namespaces of the informer. `None` for all objects of the kind.
    pub namespaces: Option<Arc<[String]>>,

    /// The state of the watch.
    pub state: HealthState,

    /// Whether the store has held a complete list since the informer was started. False again after
    /// it has stopped.
    pub synced: bool,

    /// The objects that do not decode and are in quarantine.
    pub undecodable: Vec<ObjectKey>,

    /// The subscription that has not been read for 30 s, so that the watch waits for it: the line of
    /// the program that [subscribed](crate::Informer::subscribe), as `file:line`.
    pub unread: Option<Arc<str>>,
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

// === impl Health ===

impl Health {
    /// Whether the watch is active, does not wait for a subscription, and no object is in quarantine.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        let Self {
            state,
            undecodable,
            unread,
            ..
        } = self;
        matches!(state, HealthState::Watching) && undecodable.is_empty() && unread.is_none()
    }

    /// The kind and the namespaces, for display: `issues.tracker.example.io in default`.
    #[must_use]
    pub fn scope(&self) -> String {
        match &self.namespaces {
            None => self.resource.to_string(),
            Some(namespaces) => format!("{} in {}", self.resource, namespaces.join(", ")),
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.scope())?;
        match &self.state {
            HealthState::NotStarted => f.write_str("not started")?,
            HealthState::Listing => f.write_str("listing")?,
            HealthState::Watching => f.write_str("watching")?,
            HealthState::Down { error } => write!(f, "down, {error}")?,
            HealthState::Stopped => f.write_str("stopped")?,
        }
        match self.undecodable.len() {
            0 => {}
            count => write!(f, "; {count} undecodable")?,
        }
        match &self.unread {
            None => Ok(()),
            Some(name) => write!(
                f,
                "; waiting for the subscription of {name}, which is not read"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Health, HealthState};
    use crate::ObjectKey;

    #[test]
    fn an_informer_is_healthy_if_it_watches_and_all_objects_decode() {
        let health = |state, undecodable| Health {
            resource: "pods".into(),
            namespaces: Some(vec!["shop".to_owned()].into()),
            state,
            synced: true,
            undecodable,
            unread: None,
        };
        let broken = || vec![ObjectKey::new("web").within("shop")];
        assert!(health(HealthState::Watching, vec![]).is_healthy());
        assert!(!health(HealthState::Watching, broken()).is_healthy());
        assert!(!health(HealthState::Listing, vec![]).is_healthy());
        assert!(!health(HealthState::Stopped, broken()).is_healthy());
        let watching = health(HealthState::Watching, vec![]);
        assert_eq!(watching.to_string(), "pods in shop: watching");
    }
}
