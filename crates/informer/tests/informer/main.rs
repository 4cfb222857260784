//! Tests of `Informer` through its public API: its settings, its runs, its events.

// What there is.
mod running;

// An informer, from its parts to its words.
mod parts;

mod lifecycle;

mod shared;

mod synced;

mod lists;

mod resync;

mod user_code;

mod delivery;
