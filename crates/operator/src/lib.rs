//! Operators: controllers as one process.
//!
//! An [`Operator`] runs controllers until it is stopped by a signal or a token, or until one of
//! them fails permanently; then it stops the others and waits for them. With a
//! [`LeaderElection`], only one of several replicas runs its controllers, and nothing begins and
//! nothing is written after the deadline of its lease. An [`AdminServer`] serves health, metrics
//! and your own pages over HTTP.

// The process.
mod operator;

// The signals that stop it.
mod signal;

// Which of several replicas runs its controllers.
mod election;

// How many requests it sends.
mod budget;

// Health, metrics and spans.
mod admin;
mod metrics;
mod trace;

// Threads of their own.
mod isolated;

// Errors.
mod error;

pub use windlass_controller::{Fence, FenceClosed};

pub use crate::{
    admin::{
        AdminError, AdminLimits, AdminServer, HealthCheck, HealthDetails, Listen, Route, RouteError,
    },
    budget::RequestBudget,
    election::{
        InvalidElection, LeaderElection, LeaderElectionBuilder, LeadershipLost, LeaseClient,
        LeaseError,
    },
    error::{AddControllerError, OperatorError},
    operator::{Operator, OperatorBuilder},
};
