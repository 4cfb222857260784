//! Tests of an informer with every kind of response, on paused time.
//!
//! Each test scripts a server answer by answer, and checks the events and the times of the
//! requests.

// Helpers.
mod server;
mod text;
mod wire;

// The content of responses.
mod lines;

mod headers;

mod lists;

mod history;

mod endless;

mod panics;

// The form of stored objects.
mod forms;

// Errors and waiting.
mod disconnects;

mod refusals;

mod silence;
// Kinds that cannot be watched.
mod polled;

mod resume;

mod recovery;

mod broken;

mod hostile;

mod undecodable;

mod pace;

mod restart;

mod metrics;

// Texts that must not be logged.
mod canary;
