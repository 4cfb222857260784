//! Tests of `Controller` through its public API, with scripted informers, on paused time.

mod support;

mod failures;
mod filters;
mod outcomes;
mod pace;
mod requeue;
mod running;
mod triggers;
mod watching;
