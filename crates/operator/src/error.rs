//! Errors of an operator.

use std::{error::Error, io, time::Duration};

use windlass_controller::AddError;

use crate::{AdminError, LeadershipLost};

/// Why a controller was not added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddControllerError {
    /// The operator is running or has run. Controllers can only be added before.
    #[error(
        "controller {controller:?} was not added: the operator is running or has run; add all \
         controllers before"
    )]
    AlreadyRan {
        /// The name of the controller.
        controller: String,
    },

    /// A controller with this name, or this controller itself, was added before.
    #[error(
        "controller {controller:?} was not added: a controller with this name was added before; \
         give each controller a different name"
    )]
    NameTaken {
        /// The name of the controller.
        controller: String,
    },

    /// A handler of the controller has a finalizer that a handler of another controller has, for
    /// objects that both receive.
    #[error("controller {controller:?} was not added: {source}")]
    Finalizer {
        /// The name of the controller.
        controller: String,
        /// The two handlers.
        source: Box<AddError>,
    },
}

/// Why an operator failed to start, failed while it ran, or failed to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The operator is running or has run. It can run only once.
    #[error("the operator is running or has run; create another one to run again")]
    AlreadyRan,

    /// A controller failed permanently. All others were stopped.
    #[error("controller {controller:?} failed")]
    Controller {
        /// The name of the controller.
        controller: String,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },

    /// A controller ended without an error, although it was not stopped. All others were stopped:
    /// otherwise the process looks alive, and may hold a lease, without a controller.
    #[error(
        "controller {controller:?} ended although it was not stopped; a controller runs until its \
         token is cancelled"
    )]
    Ended {
        /// The name of the controller.
        controller: String,
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

    /// Some controllers did not end within the drain timeout and were aborted.
    #[error(
        "these controllers did not end within {drain:?} and were aborted: {}; a call of a \
         handler hangs, or the drain timeout is too short",
        controllers.join(", ")
    )]
    Undrained {
        /// The names of these controllers.
        controllers: Vec<String>,
        /// The drain timeout.
        drain: Duration,
    },

    /// This replica lost its lease. All controllers were aborted, because another replica leads or
    /// may lead soon.
    #[error("this replica lost its lease; its controllers were aborted")]
    LeadershipLost {
        /// The cause.
        source: LeadershipLost,
    },

    /// No client for the lease could be created from its configuration.
    #[error("cannot create a client for the lease from its configuration")]
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

    /// The webhook server could not start.
    #[error("the webhook server cannot start")]
    Webhooks {
        /// The cause.
        source: AdminError,
    },
}
