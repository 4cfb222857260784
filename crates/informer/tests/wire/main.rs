//! What an informer makes of whatever comes over the wire, on paused time.
//!
//! Each test scripts a server answer by answer, and looks at what is told and at when the
//! next request is sent.

// What there is.
mod server;
mod text;
mod wire;

// What comes over it.
mod lines;

mod lists;

mod panics;

// What stays of it.
mod kept;

// When it breaks, and when it waits.
mod breaks;

mod pace;

mod restart;
