//! What can go wrong with an admin server.

use std::{io, net::SocketAddr};

/// Why an admin server cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The system does not give us the port.
    #[error("cannot listen on {address}")]
    Bind {
        /// What was asked for.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },

    /// The listener that was given is of no use.
    #[error("cannot use the listener that was given")]
    Listener {
        /// What the system says.
        source: io::Error,
    },

    /// The operator's own collectors do not go together, most often because two controllers
    /// have one name.
    #[error("cannot register the operator's collectors; give each controller its own name")]
    Collectors {
        /// What the registry says.
        source: prometheus::Error,
    },
}

/// Why a route was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// It would never be asked for.
    #[error("{path:?} is no path; begin it with a slash, and leave out the query")]
    NoPath {
        /// What was given.
        path: String,
    },

    /// Somebody else answers there.
    #[error("{path:?} has a route already")]
    Taken {
        /// What was given.
        path: String,
    },
}

// === impl AdminError ===

impl AdminError {
    /// One stable word for it.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Bind { .. } => "bind",
            Self::Listener { .. } => "listener",
            Self::Collectors { .. } => "collectors",
        }
    }
}

// === impl RouteError ===

impl RouteError {
    /// One stable word for it.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoPath { .. } => "no_path",
            Self::Taken { .. } => "taken",
        }
    }
}
