//! Watchers and reconcilers with finalizers: they miss no change during downtime and crashes.

// What there is.
mod configs;
mod operator;

// One operator, up and down, and what others do beside it.
pub(crate) mod life;

pub(crate) mod downtime;

pub(crate) mod others;
