//! Tests of an informer with every kind of response, on paused time.
//!
//! Each test scripts a server answer by answer, and checks the events and the times of the
//! requests.

// What there is.
mod server;
mod text;
mod wire;

// What comes over it.
mod lines;

mod headers;

mod lists;

mod history;

mod endless;

mod panics;

// What stays of it.
mod forms;

// When it breaks, and when it waits.
mod disconnects;

mod refusals;

mod silence;

mod resume;

mod recovery;

mod undecodable;

mod pace;

mod restart;

mod metrics;

// What must not be in a log.
mod canary;
