//! Retries: which failed calls are repeated, when, and until when.

mod backoff;
mod dequeue;
mod policy;

pub use self::{
    backoff::ExponentialBackoff,
    dequeue::{
        AlwaysDequeue, NeverDequeue, NewEvent, OpinionatedRetryDequeuePolicy, PendingRetry,
        RetryDequeuePolicy,
    },
    policy::{NeverRetry, RetryPolicy},
};

/// Which object a repeated call gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryObject {
    /// The newest state of the object (of the same uid) that was dispatched for this kind, also
    /// by an event that this handler was not called for. The versions that a handler gets of
    /// one object never decrease.
    #[default]
    Latest,
    /// The object of the call that failed, as in grafana-app-sdk: versions can decrease.
    AsReceived,
}

/// What ends the retries of a `Deleted` call that fails, besides its success and the retry
/// policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeleteRetry {
    /// Nothing: the call is repeated even if another object has taken the name. For handlers
    /// that clean up what belongs to one uid.
    #[default]
    UntilSuccess,
    /// The `Created` of the next object of the same name. For handlers that are keyed by name,
    /// which would delete what belongs to the successor.
    UntilSuccessor,
}
