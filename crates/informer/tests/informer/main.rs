//! An informer as its user sees it: what it is made of, how it lives, what it tells.

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
