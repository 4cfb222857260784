//! Tests of the weaknesses W1 to W43 in `docs/compared.md`: each must not occur here.
//!
//! The name of each test begins with the number of its weakness. All tests use the public API of
//! `windlass`, with scripted informers on paused time, or with the embedded API server if the
//! server matters.

mod rig;

mod api;
mod concurrency;
mod finalizers;
mod identity;
mod memory;
mod observability;
mod operator;
mod requeue;
mod staleness;

mod compared;
