//! What can go wrong with an operator.

use std::{error::Error, fmt, io, time::Duration};

use crate::{AdminError, LeadershipLost};

/// Why a controller was not added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddControllerError {
    /// The operator runs, or has run: what it runs is what it had at the start.
    #[error("{controller:?} comes too late: the operator runs already, or has run")]
    AlreadyRan {
        /// What the controller is called.
        controller: String,
    },
}

/// Why an operator ended without having been told to, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// It runs already, or has run: an operator runs once.
    #[error("the operator runs already, or has run; an operator runs once")]
    AlreadyRan,

    /// A controller met what no waiting mends. All others were stopped.
    #[error("controller {controller:?} cannot go on")]
    Controller {
        /// What the controller is called.
        controller: String,
        /// What it met.
        source: Box<dyn Error + Send + Sync>,
    },

    /// A controller panicked outside of what it guards. All others were stopped.
    #[error("controller {controller:?} panicked: {message}")]
    Panicked {
        /// What the controller is called.
        controller: String,
        /// The beginning of the panic's message.
        message: String,
    },

    /// The process cannot be told of signals.
    #[error("cannot listen for signals")]
    Signals {
        /// Why it cannot.
        source: io::Error,
    },

    /// A second signal came before all controllers had ended; what they did was dropped.
    #[error("a second signal ended the operator before its controllers had")]
    Forced,

    /// Some controllers had not ended when the time for it was over; what they did was dropped.
    #[error(
        "these controllers did not end within {drain:?} and were dropped: {}; a call of theirs \
         hangs, or needs more time",
        controllers.join(", ")
    )]
    Undrained {
        /// What they are called.
        controllers: Vec<String>,
        /// How long they had.
        drain: Duration,
    },

    /// Another replica leads, or may do so soon. All controllers were dropped.
    #[error("this replica leads no more, so its controllers were dropped")]
    LeadershipLost {
        /// How it came about.
        source: LeadershipLost,
    },

    /// The admin server could not begin.
    #[error("the admin server cannot begin")]
    Admin {
        /// Why it cannot.
        source: AdminError,
    },
}

/// An error and its sources, as one line.
pub(crate) struct Causes<'a>(pub(crate) &'a dyn Error);

// === impl OperatorError ===

impl OperatorError {
    /// One stable word for it.
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
            Self::Admin { .. } => "admin",
        }
    }
}

// === impl Causes ===

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
