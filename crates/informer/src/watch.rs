//! A watch that survives: what to ask for next, and how long to wait before.
//!
//! [`Session`] is the part that can be wrong: a state machine without clock, lock or
//! `async`. The shell that sends its requests is [`ListWatch`](crate::ListWatch).

mod aside;
mod backoff;
mod error;
mod message;
mod session;
mod version;

pub(crate) use self::{
    aside::Aside,
    error::Answer,
    message::one_line,
    session::{Ask, History, Session},
    version::{is_older, is_version},
};
pub use self::{
    backoff::{Backoff, InvalidBackoff},
    error::{Verb, WatchError},
};
