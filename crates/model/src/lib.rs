//! A reference model of an `InformerController`: checks the log of a run against rules.
//!
//! A driver (a test, or the simulator) records what happened: what informers showed, what the
//! API server committed, which calls began and ended. [`Checker`] reads that log and says which
//! [`Rule`] it breaks first. The rules are small functions, one for each thing that must hold,
//! and know nothing of queues, lanes or folding.
//!
//! There are two sorts of rules. *Safety rules* are checked at each entry: what may never
//! happen, such as two calls for one object at once. *Obligations* are checked at
//! [`Entry::Settled`], after a time without faults in which handlers succeeded: what must have
//! happened by then, such as a call for the newest state of each object.
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

// What is recorded.
mod log;
mod object;

// What must hold.
mod checker;
mod facts;
mod rule;
mod rules;
mod settings;

pub use crate::{
    checker::{Checker, check, check_all},
    log::{
        Action, Attempt, Began, CallId, Entry, Handler, HandlerId, InformerId, Outcome, Record,
        Role, Seen, Shown, Writer,
    },
    object::{Snapshot, Version},
    rule::{Rule, Violation},
    rules::all as rules,
    settings::{Coalescing, Dequeue, Retry, SelectorExit, Settings},
};
