//! A change of one kind reconciles objects of another.

// What there is.
mod themes;

// Which objects a change wakes, and when.
mod named;
mod turn;

mod mapper;

mod threads;
