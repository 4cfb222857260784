//! Composite controllers in virtual time.

mod support;

mod answered;
mod asynchronous;
mod delays;
mod moved;
mod refused;
mod related;
mod steady;
mod unseen;
mod warnings;
