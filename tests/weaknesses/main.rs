//! What others get wrong, as tests: W1 to W43 of `docs/compared.md`.
//!
//! Each test bears the number of the weakness that it would have, and goes through the public
//! face of `windlass`: over scripted informers on paused time, or over the embedded API server
//! where the server matters.

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
