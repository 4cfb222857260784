//! Operators: run controllers as one process.
//!
//! An [`Operator`] runs controllers until a signal or a token stops it, or until one of them fails
//! permanently. Then it stops the others and waits for them, 25 s by default. With a
//! [`LeaderElection`], only one of several replicas runs its controllers. After the deadline of its
//! lease a replica starts no call, and a client from [`Operator::connect`] sends no write. An
//! [`AdminServer`] serves health, metrics and your own pages over HTTP. With the feature `webhook`, a
//! `WebhookServer` serves admission and conversion webhooks.

// The process.
mod block_on;
mod operator;

// SIGINT and SIGTERM.
mod signal;

// Leader election.
mod election;

// The rate and the number of requests.
mod budget;
mod request_count;

// Health, metrics and spans.
mod admin;
mod metrics;
mod trace;

// Admission and conversion webhooks.
#[cfg(feature = "webhook")]
mod webhook;
#[cfg(not(feature = "webhook"))]
#[path = "webhook/disabled.rs"]
mod webhook;

// Futures on separate threads.
mod blocking_call;
mod isolated;
mod log_limit;
mod watchdog;

// Errors.
mod error;

pub use windlass_controller::{Fence, FenceClosed};

// The requests and responses of a `Route`: a program needs no dependency for its pages.
pub use bytes;
pub use http;

/// The largest response to a request for a lease or a review, in bytes. By default etcd stores no
/// object of more than 1.5 MiB.
const MAX_RESPONSE: usize = 3 * 1024 * 1024;

#[cfg(feature = "webhook")]
pub use crate::webhook::{AdmissionError, Conversion, Denied, Warnings, WebhookServer};
pub use crate::{
    admin::{
        AdminError, AdminLimits, AdminServer, HealthCheck, HealthDetails, Listen, Route, RouteError,
    },
    block_on::block_on,
    budget::RequestBudget,
    election::{
        InvalidElection, LeaderElection, LeaderElectionBuilder, LeadershipLost, LeaseClient,
        LeaseError,
    },
    error::{AddControllerError, OperatorError},
    operator::{Operator, OperatorBuilder},
};
