//! Operators in processes of their own: what must hold when the log, the runtime, or the operating
//! system fails.

#![cfg(target_os = "linux")]

// A test that runs itself again as a child process, and its API server.
mod child;
mod cluster;

mod blocked;
mod descriptors;
mod exit;
mod log;
mod read_timeout;
