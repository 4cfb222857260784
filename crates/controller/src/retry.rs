//! Retries: which failed calls are repeated, when, and how often.

mod backoff;
mod dequeue;
mod limited;
mod policy;

pub use self::{
    backoff::ExponentialBackoff,
    dequeue::{
        NeverDequeue, NewEvent, OpinionatedRetryDequeuePolicy, PendingCall, RetryDequeuePolicy,
    },
    limited::RateLimited,
    policy::{NeverRetry, RetryPolicy},
};

/// Which object a repeated call gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryObject {
    /// The newest state of the object (of the same uid) that was dispatched for this kind, even if
    /// this handler rejected that event. The versions that a handler receives of one object never
    /// decrease. The default.
    #[default]
    Latest,
    /// The object of the failed call, as in grafana-app-sdk. Versions can decrease.
    AsReceived,
}

/// What ends the retries of a failed `Deleted`, besides its success and the retry policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeleteRetry {
    /// Nothing: the call is repeated even after an object with the same name was created. For
    /// handlers that find external resources by the uid of the object. The default.
    #[default]
    UntilSuccess,
    /// The `Created` of the next object with the same name. For handlers that find external
    /// resources by the name of the object: a late clean-up would delete those of the next object.
    UntilSuccessor,
}
