//! The state machine of a list and watch: what to request next, and how long to wait before.
//!
//! [`Session`] is the part that can be wrong: a state machine without clock, lock or
//! `async`. The shell that sends its requests is [`ListWatch`](crate::ListWatch).

mod backoff;
mod error;
mod message;
mod quarantine;
mod session;
mod version;

pub use self::{
    backoff::{Backoff, InvalidBackoff},
    error::{Verb, WatchError},
};
pub(crate) use self::{
    error::ServerStatus,
    message::{one_line, one_line_of},
    quarantine::DecodeQuarantine,
    session::{History, NextRequest, Session},
    version::{is_older, is_version},
};
