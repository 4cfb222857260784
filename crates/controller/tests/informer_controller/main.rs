//! Tests of `InformerController` through its public API, with scripted informers, on paused time.

mod support;

mod adding;
mod cardinality;
mod dead_letters;
mod debug;
mod delivery;
mod dequeue;
mod disorder;
mod failures;
mod history;
mod lagging;
mod level;
mod lifecycle;
mod mapping;
mod metrics;
mod one_history;
mod order;
mod predicates;
mod reconcile_spans;
mod requests;
mod retries;
mod shared;
mod sync;
mod threads;
mod tracing;
mod unhandled;
mod wrapping;
