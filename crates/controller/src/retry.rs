//! What comes back: which calls are made again, when, and until when.

mod backoff;
mod dequeue;
mod policy;

pub use self::{
    backoff::ExponentialBackoff,
    dequeue::{
        AlwaysDequeue, Arrival, NeverDequeue, OpinionatedRetryDequeuePolicy, PendingRetry,
        RetryDequeuePolicy,
    },
    policy::{NeverRetry, RetryPolicy},
};

/// With which object a call is made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryObject {
    /// With the newest that the informer has, if it is still the same object (of the same
    /// uid). A retry never brings back what a later update has replaced. It may be ahead of
    /// events that are still to be told.
    #[default]
    Latest,
    /// With the object of the call that failed, as in grafana-app-sdk.
    AsReceived,
}
