//! Operators: controllers as one process.
//!
//! An [`Operator`] runs controllers until it is told to stop, by a signal or a token, or until
//! one of them meets what no waiting mends; then it stops the others, and waits for them.

// The process.
mod operator;

// Who tells it to stop.
mod signal;

// What can go wrong.
mod error;

pub use crate::{
    error::{AddControllerError, OperatorError},
    operator::Operator,
};
