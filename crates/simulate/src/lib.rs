//! Simulates an operator: every fault, in virtual time, repeatable from a seed.
//!
//! A [`Simulation`] runs an operator against an API server in the process, on one thread and on
//! paused time. Users change objects; faults happen to requests, replies, watches, handlers,
//! processes and leases; then there is a time without faults, and [oracles](Violation) are
//! checked. First each [`Fault`] happens alone at each step of a run, then random combinations
//! do. A [`Failure`] has the smallest [`Plan`] that breaks an oracle, and the command that
//! replays it.
//!
//! `docs/testing.md` shows how to simulate an operator.
//!
//! # Not supported
//!
//! - What happens below HTTP: TLS, sockets, chunking.
//! - Operators that use threads or sockets.

// What is simulated.
mod process;
mod simulation;
mod step;

// What goes wrong.
mod fault;
mod plan;

// Where it goes wrong.
mod connection;
mod external;
mod handler;

// One run.
mod direct;
mod run;
mod trace;
mod world;

// What must hold of it.
mod oracle;
mod secrets;
mod state;

// All runs, and what they found.
mod explore;
mod report;
mod walk;

pub use crate::{
    external::{External, ExternalError},
    fault::{Fault, UnknownFault},
    handler::SimulatedHandler,
    oracle::Violation,
    plan::{InvalidPlan, Plan, PlannedFault},
    process::Process,
    report::{Failure, Summary},
    simulation::Simulation,
    state::EndState,
    step::Step,
    trace::Trace,
    walk::{WalkSummary, Walks},
};
