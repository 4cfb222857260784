//! Errors of an admin server and of a webhook server.

use std::{io, net::SocketAddr, path::PathBuf};

/// Why an admin server or a webhook server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The port cannot be opened.
    #[error("cannot listen on {address}; is the port in use, or are permissions missing?")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },

    /// The given listener cannot be used.
    #[error("cannot use the listener that was passed to the server")]
    Listener {
        /// The error of the operating system.
        source: io::Error,
    },

    /// The thread of the server could not be started.
    #[error("cannot start the thread of the server")]
    Thread {
        /// The error of the operating system.
        source: io::Error,
    },

    /// The certificate or its key cannot be used.
    #[error("cannot use the TLS files: {}", file.display())]
    Tls {
        /// The file.
        file: PathBuf,
        /// Why it cannot be used.
        source: io::Error,
    },

    /// Two collectors of the operator conflict, most often because two controllers have the same
    /// name.
    #[error("cannot register the operator's collectors; give each controller a different name")]
    Collectors {
        /// The error of the registry.
        source: prometheus::Error,
    },
}

/// Why a route was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The path is not valid.
    #[error("{path:?} is not a valid path; begin it with a slash, and omit the query")]
    NoPath {
        /// The given path.
        path: String,
    },

    /// Another page has this path.
    #[error("another page has the path {path:?}; use a different path")]
    Taken {
        /// The given path.
        path: String,
    },
}
