//! Leader election between replicas of an operator, on paused time.

// A replica, and a server with a lease.
mod replica;
mod server;

// Acquiring the lease, waiting for it, handing it over, and losing it.
mod settings;

mod standby;

mod handover;

mod loss;

// The deadline of a leader.
mod fence;

// What is logged.
mod canary;
