//! Windlass side by side with its peers: the same bytes, in one run, as ratios.
//!
//! A run starts one child process after another, one for each contender and repetition, so
//! that CPU time and memory belong to one contender alone. The server that they all read from
//! is in the parent. The modules stand in the order in which a number comes about.

// What is read.
mod objects;
mod server;

// Who reads it, in a child process.
mod child;
mod contender;
mod measure;
mod queue;
mod seen;

// The same without a server, to count instructions of.
mod events;

// Who serves it, where servers are compared.
mod servers;

// What is compared, and how often.
mod progress;
mod scenario;

// What is printed and kept.
mod plot;
mod report;

mod cli;

pub use crate::{cli::main, measure::Meter};

/// What everything here may end with: no caller of a benchmark looks into its errors.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
