//! Composite controllers in virtual time.

mod support;

mod asynchronous;
mod delays;
mod steady;
mod unseen;
mod warnings;
