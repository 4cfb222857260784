//! Simulates an operator under injected faults, in virtual time. Each run is repeatable from a seed.
//!
//! A [`Simulation`] runs an operator against an in-process API server, on one thread and on
//! paused time. Simulated users change objects, and faults are injected into requests, responses,
//! watches, handlers, processes and leases. Then a period without faults follows, and the
//! [oracles](Violation), the checks of a run, are evaluated. First, each [`Fault`] is injected
//! alone at each step of a run, then random combinations are. A [`Failure`] has the smallest
//! [`Plan`] that breaks an oracle, and the command that replays it.
//!
//! `docs/testing.md` shows how to simulate an operator.
//!
//! # Not supported
//!
//! - Anything below HTTP: TLS, sockets, chunking.
//! - Operators that use threads or sockets.

// A test kit.
pub mod kit;

// The simulated operator and its users.
mod process;
mod simulation;
mod step;

// Faults, and when they are injected.
mod fault;
mod plan;

// The places where faults are injected.
mod connection;
mod external;
mod handler;

// One run.
mod change;
mod direct;
mod run;
mod trace;
mod world;

// The checks of a run.
mod mask;
mod oracle;
mod received;
mod secrets;
mod state;

// The search through many runs, and its report.
mod explore;
mod report;
mod walk;

pub use windlass_informer::SimulatedHost;

pub use crate::{
    external::{External, ExternalError},
    fault::{Fault, UnknownFault},
    handler::{SimulatedError, SimulatedHandler},
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
