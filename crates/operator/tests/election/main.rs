//! Replicas of one operator and their lease, on paused time.

// A replica, and a server with a lease.
mod replica;
mod server;

// How replicas take the lease, wait for it, hand it over and lose it.
mod settings;

mod standby;

mod handover;

mod loss;

// The deadline of a leader.
mod fence;
