//! Operators in processes of their own: what must hold when the log, the runtime, or the operating
//! system fails.

#![cfg(target_os = "linux")]

// A test that runs itself again as a child process.
mod child;

mod log;
