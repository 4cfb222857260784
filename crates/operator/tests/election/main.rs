//! Replicas of one operator and their lease, on paused time.

// What there is.
mod replica;
mod server;

// Who takes the lease, who waits for it, and who loses it.
mod settings;

mod standby;

mod handover;

mod loss;

// What a leader may do until when.
mod fence;
