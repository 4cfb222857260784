//! A reference model of an `InformerController` and of a `Controller`: checks the log of a run
//! against rules.
//!
//! A driver (a test) records the events of the informers, the writes to the API server, and the
//! begin and end of each call. [`Checker`] reads this log and returns the first violated [`Rule`].
//! Each rule is one small function, which does not depend on queues, lanes or coalescing.
//!
//! There are two classes of rules. *Safety rules* are checked at each entry: they forbid
//! something, such as two concurrent calls for one object. *Obligations* are checked at
//! [`Entry::Settled`], after a time without faults in which handlers succeeded: they require
//! something, such as a successful call for the newest state of each object.
//!
//! A level-triggered `Controller` has rules of its own ([`Settings::level`]): it is called with the
//! newest state, is not called for each event, and not for its own writes.
//!
//! # Example
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use windlass_model::{Checker, Entry, Handler, HandlerId, Record, Role, Settings};
//!
//! let mut checker = Checker::new(Settings::default());
//! let started = Record { at: Duration::ZERO, entry: Entry::Started };
//! assert!(checker.observe(started).is_empty());
//! ```

// The log.
mod log;
mod object;

// The rules, and their checker.
mod checker;
mod facts;
mod rule;
mod rules;
mod settings;

pub use crate::{
    checker::{Checker, check, check_all},
    log::{
        Action, AddedBy, Attempt, Began, CallId, Entry, Handler, HandlerId, InformerEvent,
        InformerId, Outcome, Record, Role, Writer,
    },
    object::{Snapshot, Version},
    rule::{Rule, Violation},
    rules::all as rules,
    settings::{Coalescing, Dequeue, Level, Retry, SelectorExit, Settings},
};
