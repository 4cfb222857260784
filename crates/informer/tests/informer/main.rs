//! Tests of `Informer` through its public API: its settings, its runs, its events.

// Helpers.
mod running;

// The parts of an informer, its lifecycle and its events.
mod parts;

mod lifecycle;

mod shared;

mod synced;

mod lists;

mod resync;

mod user_code;

mod delivery;

mod unread;
