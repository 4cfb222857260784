//! A change of one kind reconciles objects of another.

// Helpers.
mod themes;

// The objects that a change dispatches, and their priority.
mod early;
mod named;
mod turn;

mod mapper;

mod threads;
