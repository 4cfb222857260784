//! Operators: controllers as one process.
//!
//! An [`Operator`] runs controllers until it is told to stop, by a signal or a token, or until
//! one of them meets what no waiting mends; then it stops the others, and waits for them. With
//! a [`LeaderElection`] only one of several replicas runs its controllers, and with an
//! [`AdminServer`] it tells over HTTP how it is.

// The process.
mod operator;

// Who tells it to stop.
mod signal;

// Which of several replicas is the one that works.
mod election;

// What one sees.
mod admin;
mod metrics;
mod trace;

// What can go wrong.
mod error;

pub use crate::{
    admin::{AdminError, AdminServer, HealthCheck, Listen, Route, RouteError},
    election::{
        InvalidElection, LeaderElection, LeaderElectionBuilder, LeadershipLost, LeaseError,
    },
    error::{AddControllerError, OperatorError},
    operator::{Operator, OperatorBuilder},
};
