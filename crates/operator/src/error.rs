//! Errors of an operator.

use std::{error::Error, io, time::Duration};

use crate::{AdminError, LeadershipLost};

/// Why a controller was not added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddControllerError {
    /// The operator runs, or has run: its controllers are fixed at the start.
    #[error("controller {controller:?} was not added: the operator runs or has run; add it before")]
    AlreadyRan {
        /// The name of the controller.
        controller: String,
    },

    /// A controller of this name was added before, or this one was.
    #[error(
        "controller {controller:?} was not added: a controller of this name was added before; \
         give each controller a name of its own"
    )]
    NameTaken {
        /// The name of the controller.
        controller: String,
    },
}

/// Why an operator ended without being stopped, or did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// It runs already, or has run. An operator runs once.
    #[error("the operator runs already or has run; create another one to run again")]
    AlreadyRan,

    /// A controller failed permanently. All others were stopped.
    #[error("controller {controller:?} failed")]
    Controller {
        /// The name of the controller.
        controller: String,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },

    /// A controller panicked outside of a handler. All others were stopped.
    #[error("controller {controller:?} panicked: {message}")]
    Panicked {
        /// The name of the controller.
        controller: String,
        /// The panic's message, shortened.
        message: String,
    },

    /// The process cannot listen for signals.
    #[error("cannot listen for signals")]
    Signals {
        /// The cause.
        source: io::Error,
    },

    /// A second signal arrived before all controllers had ended. They were aborted.
    #[error("a second signal ended the operator before its controllers had ended")]
    Forced,

    /// Some controllers had not ended within the drain timeout. They were aborted.
    #[error(
        "these controllers did not end within {drain:?} and were aborted: {}; a call hangs, or \
         the drain timeout is too short",
        controllers.join(", ")
    )]
    Undrained {
        /// Their names.
        controllers: Vec<String>,
        /// The drain timeout.
        drain: Duration,
    },

    /// Another replica leads, or may lead soon. All controllers were aborted.
    #[error("this replica lost its lease; its controllers were aborted")]
    LeadershipLost {
        /// The cause.
        source: LeadershipLost,
    },

    /// No client for the lease could be made from its configuration.
    #[error("cannot make a client for the lease from its configuration")]
    LeaseClient {
        /// The cause.
        source: Box<kube::Error>,
    },

    /// The thread of the leader election could not be started.
    #[error("cannot start the thread of the leader election")]
    Thread {
        /// The cause.
        source: io::Error,
    },

    /// The admin server could not start.
    #[error("the admin server cannot start")]
    Admin {
        /// The cause.
        source: AdminError,
    },
}

// === impl OperatorError ===

impl OperatorError {
    /// A stable word for the variant.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::AlreadyRan => "already_ran",
            Self::Controller { .. } => "controller",
            Self::Panicked { .. } => "panicked",
            Self::Signals { .. } => "signals",
            Self::Forced => "forced",
            Self::Undrained { .. } => "undrained",
            Self::LeadershipLost { .. } => "leadership_lost",
            Self::LeaseClient { .. } => "lease_client",
            Self::Thread { .. } => "thread",
            Self::Admin { .. } => "admin",
        }
    }
}
