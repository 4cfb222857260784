//! The state machine of a list and watch: what to request next, and how long to wait before.
//!
//! [`Session`] is a state machine without clock, lock or `async`. The reflector of a
//! [`ListWatch`](crate::ListWatch) sends its requests and passes it the results.

mod backoff;
mod error;
mod quarantine;
mod session;
mod version;

pub(crate) use self::{
    backoff::Waits,
    quarantine::DecodeQuarantine,
    session::{NextRequest, Session},
    version::is_version,
};
pub use self::{
    backoff::{Backoff, InvalidBackoff},
    error::{Verb, WatchError, WatchErrorCause},
    version::is_older,
};
