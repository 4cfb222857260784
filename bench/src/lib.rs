//! The benchmark: compares Windlass with other frameworks on the same bytes, in one run.
//!
//! A run starts one child process for each contender and repetition, one after the other, so that
//! CPU time and memory belong to one contender. The server from which all of them read is in the
//! parent process.

// The load server and its objects.
mod objects;
mod server;

// The contenders, in child processes.
mod child;
mod contender;
mod measure;
mod queue;
mod seen;

// Runs without a server, to count instructions.
mod creates;
mod events;

// The compared API servers.
mod servers;

// The scenarios.
mod progress;
mod scenario;

// The output.
mod plot;
mod report;

mod cli;

pub use crate::{cli::main, measure::Meter};

/// A result with a type-erased error: no caller of the benchmark inspects its errors.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
